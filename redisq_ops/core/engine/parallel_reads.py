"""What reads all of a queue, by many processes side by side (see `scan`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ..model.clock import Moment, bound_ms
from ..model.entry import Entry, Request, State
from ..model.states import ZSETS
from ..redis.operation import C_co, Call, Description, operation, together
from .reads import QueueReads
from .state_scan import ColumnPage, HistoryExtent, ScoreRange, WaitingIds, page, reach, spans, timed

if TYPE_CHECKING:
    from .queue import Queue


class ParallelReads(QueueReads[C_co]):
    """A state or the history in parts; of one leaf (a shard, or a queue that has none)."""

    @property
    def shard_queues(self) -> Sequence[Queue[Any]]:
        """Its shards, each a queue by itself: only descriptions, run them on this one's client."""
        return (cast("Queue[Any]", self),)

    async def _zset_range(self, state: State) -> tuple[str, float | None, float | None] | None:
        """The sorted set that keeps a state, and from which score to which; None: none does."""
        part = ZSETS.get(state)
        return None if part is None else (part, None, None)

    @operation
    async def spans(
        self, state: State, size: int, low_ms: Moment | None = None, high_ms: Moment | None = None
    ) -> list[ScoreRange] | None:
        """A state cut into parts of about ``size``, of entries whose `Entry.at_ms` is from
        ``low_ms`` to ``high_ms`` (ms or aware datetimes); None: it can't be cut here, `page` reads
        it. Of one leaf."""
        kept = await self._zset_range(state)
        if kept is None:
            return None
        part, low, high = kept
        lows = [bound for bound in (low, bound_ms(low_ms, "low_ms")) if bound is not None]
        highs = [bound for bound in (high, bound_ms(high_ms, "high_ms")) if bound is not None]
        return await spans(self.keys[part], size, max(lows, default=None), min(highs, default=None))

    @operation
    async def sheet(
        self,
        state: State,
        span: ScoreRange,
        cursor: str | None = None,
        max: int = 100,
        want: frozenset[str] = frozenset({"lines", "errors"}),
        step: int | None = None,
    ) -> ColumnPage:
        """Up to ``max`` entries of a span, with the columns of `ColumnPage` in ``want``. Of one leaf.

        Columns are looked up for ``step`` of them by one call, all in one exchange."""
        kept = await self._zset_range(state)
        assert kept is not None, "what has no spans has no sheets"
        key = self.keys[kept[0]]
        rows, onward, took = await page(key, span, cursor, max, step)
        ids = [member for _, member in rows]
        names = _names(ids)
        step = step or max
        asked = {
            (column, start): description
            for start in range(0, len(names), step)
            for column, description in self._columns(
                state, names[start : start + step], want
            ).items()
        }
        parts, times = await timed(key, asked)
        columns: dict[str, Any] = {column: [] for column, _ in parts}
        alike: dict[str, list[int]] = {column: [] for column in columns}
        for column, start in parts:
            columns[column] += parts[column, start]
            alike[column].append(times[column, start])
        if len(names) < len(ids):
            columns = {column: _spread(ids, values) for column, values in columns.items()}
        middle = [sorted(some)[(len(some) - 1) // 2] for some in alike.values()]
        slowest = sorted([took, *middle])[-1]
        return ColumnPage(ids, [score for score, _ in rows], onward, slowest, **columns)

    async def _waiting_ids(
        self, cursor: str | None, max: int, start: int | None = None
    ) -> WaitingIds:
        """Up to ``max`` of what waits where it can't be cut, behind ``cursor`` or from the
        ``start``-th one on."""
        raise NotImplementedError("what waits here has spans, or is read by pages")

    @operation
    async def read_waiting(
        self,
        cursor: str | None = None,
        max: int = 100,
        want: frozenset[str] = frozenset({"lines", "errors"}),
    ) -> ColumnPage:
        """As `sheet`, of what waits in lists or streams: it has no spans. Of one leaf."""
        line = await self._waiting_ids(cursor, max)
        names = _names(line.ids)
        asked = want if line.clients is None else want - {"clients"}
        descriptions = self._columns("waiting", names, asked) if names else {}
        found = await together(descriptions.values())
        columns: dict[str, Any] = dict(zip(descriptions, found, strict=True))
        if len(names) < len(line.ids):
            columns = {column: _spread(line.ids, values) for column, values in columns.items()}
        if asked != want:
            columns["clients"] = list(line.clients or ())
        if line.unmet and "payloads" in columns:
            rows = zip(line.ids, columns["payloads"], strict=True)
            columns["payloads"] = [line.unmet.get(id) if p is None else p for id, p in rows]
        scores: list[float | None] = [None] * len(line.ids)
        return ColumnPage(line.ids, scores, line.cursor, 0, **columns, unread=line.unread)

    def _columns(
        self, state: State, ids: Sequence[str], want: frozenset[str]
    ) -> dict[str, Description[Any]]:
        """How each wanted column of a sheet is read, in one exchange."""
        parts = {"lines": "meta", "errors": "err"}
        columns: dict[str, Description[Any]] = {
            name: Call(("HMGET", self.keys[part], *ids), list[Any], key=self.keys[part])
            for name, part in parts.items()
            if name in want
        }
        if "payloads" in want:
            columns["payloads"] = self._payloads_or_errors(ids)
        return columns

    @operation
    def reach(self) -> Call[HistoryExtent]:
        """How far the history goes. Of one leaf."""
        return reach(self.keys["hist"])

    @operation
    def happened(
        self, after: str, until: str, max: int = 100
    ) -> Call[list[tuple[bytes, dict[bytes, bytes]]]]:
        """History events behind the id ``after``, up to and with ``until``, oldest first, as the
        stream has them. Of one leaf."""
        key = self.keys["hist"]
        return Call(("XRANGE", key, f"({after}", until, "COUNT", max), list[Any], key=key)

    @operation
    async def request_ranges(
        self,
        settled: bool,
        size: int,
        low_ms: Moment | None = None,
        high_ms: Moment | None = None,
    ) -> list[ScoreRange]:
        """Requests cut into parts by age: open ones by creation, settled ones by their end. Of one
        leaf."""
        return []

    @operation
    async def read_request_range(
        self, settled: bool, span: ScoreRange, cursor: str | None = None, max: int = 100
    ) -> tuple[list[tuple[str, Request | Exception | None]], str | None]:
        """Up to ``max`` requests of a span by id, and where to go on; an error is a record that
        can't be read. Of one leaf."""
        return [], None

    @operation
    async def subrequests(
        self, id: str, start: int = 1, max: int = 100, payloads: bool = False
    ) -> list[Entry]:
        """Sub-requests ``start …`` of a request by number, in whatever state. Of one leaf."""
        return []


def _names(ids: Sequence[bytes]) -> list[str]:
    """Those that are names; all of them, nearly always."""
    try:
        return [*map(bytes.decode, ids)]
    except UnicodeDecodeError:
        return [name for id in ids if (name := _name(id)) is not None]


def _name(id: bytes) -> str | None:
    try:
        return id.decode()
    except UnicodeDecodeError:
        return None


def _spread(ids: Sequence[bytes], values: Sequence[Any]) -> list[Any]:
    """A column of those ids that are names, as one of all."""
    given = iter(values)
    return [None if _name(id) is None else next(given) for id in ids]
