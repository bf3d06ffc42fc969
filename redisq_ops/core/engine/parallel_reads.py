"""Reads of a whole queue in ranges, by many processes side by side (see `state_scan`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.entry import PageQuery, State
from ..model.quoting import bytes_of
from ..model.states import ZSETS
from ..redis.operation import C_co, Call, Description, operation, together
from .reads import QueueReads
from .state_scan import (
    ColumnPage,
    HistoryExtent,
    ScoreRange,
    WaitingIds,
    history_extent,
    page,
    score_ranges,
    timed,
)


class ParallelReads(QueueReads[C_co]):
    """Reads of a state or of the history in ranges, of one shard: see `shard_queues`."""

    async def _zset_range(self, state: State) -> tuple[str, float | None, float | None] | None:
        """The sorted set of a state and its lowest and highest score; None: it has none."""
        part = ZSETS.get(state)
        return None if part is None else (part, None, None)

    @operation
    async def score_ranges(
        self, state: State, size: int, low_ms: int | None = None, high_ms: int | None = None
    ) -> list[ScoreRange] | None:
        """Ranges of a state with about ``size`` entries each, for `read_range`.

        ``low_ms``, ``high_ms``: bounds of `Entry.at_ms`. None: the state is
        in no sorted set; read it with `read_waiting` or `page`. Of one shard.
        """
        kept = await self._zset_range(state)
        if kept is None:
            return None
        part, low, high = kept
        lows = [bound for bound in (low, low_ms) if bound is not None]
        highs = [bound for bound in (high, high_ms) if bound is not None]
        return await score_ranges(
            self.keys[part], size, max(lows, default=None), min(highs, default=None)
        )

    @operation
    async def read_range(
        self,
        state: State,
        span: ScoreRange,
        cursor: str | None = None,
        max: int = 100,
        want: frozenset[str] = frozenset({"lines", "errors"}),
        step: int | None = None,
    ) -> ColumnPage:
        """Up to ``max`` entries of a range, with the columns named in ``want``. Of one shard.

        ``cursor``: from the page before. ``step``: how many entries one command looks up; all
        commands go out in one round trip.
        """
        kept = await self._zset_range(state)
        assert kept is not None, f"state {state} has no score ranges"
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

    async def _waiting_ids(self, query: PageQuery) -> WaitingIds:
        """The ids of a page of waiting entries."""
        page = await self._page("waiting", query)
        return WaitingIds([bytes_of(entry.id) for entry in page.entries], page.cursor)

    @operation
    async def read_waiting(
        self,
        cursor: str | None = None,
        max: int = 100,
        want: frozenset[str] = frozenset({"lines", "errors"}),
    ) -> ColumnPage:
        """As `read_range`, of entries that wait in lists or streams. Of one shard."""
        line = await self._waiting_ids(PageQuery(cursor, max))
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
        """Descriptions that read the wanted columns, all in one round trip."""
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
    def history_extent(self) -> Call[HistoryExtent]:
        """The first and last event that the history holds. Of one shard."""
        return history_extent(self.keys["hist"])

    @operation
    def history_range(
        self, after: str, until: str, max: int = 100
    ) -> Call[list[tuple[bytes, dict[bytes, bytes]]]]:
        """Up to ``max`` history events behind the id ``after`` up to and with ``until``, the
        oldest first, as the stream has them. Of one shard."""
        key = self.keys["hist"]
        return Call(("XRANGE", key, f"({after}", until, "COUNT", max), list[Any], key=key)


def _names(ids: Sequence[bytes]) -> list[str]:
    """The ids that are UTF-8; nearly always all of them."""
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
    """A column of the ids that are UTF-8, with None in the places of the others."""
    given = iter(values)
    return [None if _name(id) is None else next(given) for id in ids]
