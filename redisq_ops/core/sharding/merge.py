"""Reads of a queue with several shards: merged, as if it were one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..engine.state_scan import Position, positions, spelt
from ..model.activity import Activity, joined_activity
from ..model.entry import Counts, Entry, Event, Page, PageQuery, State
from ..model.queue_position import QueuePosition, joined
from ..model.quoting import bytes_of
from ..model.rates import Rates
from ..model.states import ZSETS
from ..redis.operation import C_co, Call, operation, together
from .shard_map import ShardMap, ShardT

_PROBES, _FEWEST = 400, 7
"""entries that a round of `MergedReads._seek` reads: of all shards, and of each at least"""
_LAST_ROUND = 1_000
"""entries that it reads all, once no more are left"""


async def _probes(key: str, low: int, high: int, most: int) -> list[tuple[int, Position]]:
    """Entries of a shard between two ranks, at equal distances, with their ranks."""
    ranks = sorted({low + (high - low) * n // (most + 1) for n in range(1, most + 1)})
    found = await together(positions(key, rank, rank) for rank in ranks)
    return [(rank, row) for rank, rows in zip(ranks, found, strict=True) for row in rows]


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of a shard, from rank ``low`` up to ``high``, and the ``known`` entries in it."""

    low: int
    high: int
    known: Sequence[tuple[int, Position]]

    def before(self, row: Position) -> tuple[int, int]:
        """How many entries of the shard come before this one: at least, and at most."""
        at = bisect_left(self.known, row, key=lambda one: one[1])
        least = self.known[at - 1][0] + 1 if at else self.low
        return least, self.known[at][0] if at < len(self.known) else self.high


def _narrowed(spans: Sequence[_Span], rank: int) -> tuple[list[int], list[int]]:
    """Where each span ends if it is cut at the ``rank``-th entry of all: from, and up to."""

    def least(row: Position) -> int:
        return sum(span.before(row)[0] for span in spans)

    def most(row: Position) -> int:
        return sum(span.before(row)[1] for span in spans)

    rows = sorted(row for span in spans for _, row in span.known)
    low, high = [span.low for span in spans], [span.high for span in spans]
    if behind := bisect_right(rows, rank, key=most):
        low = [span.before(rows[behind - 1])[0] for span in spans]
    if (ahead := bisect_right(rows, rank, key=least)) < len(rows):
        high = [span.before(rows[ahead])[1] for span in spans]
    return low, high


def _merged(pages: Sequence[Page]) -> list[tuple[float, bytes, int, Entry]]:
    """The entries of all shards' pages by time and id: score, id, shard, entry."""
    rows = [
        (score, bytes_of(entry.id), k, entry)
        for k, page in enumerate(pages)
        for entry, score in zip(page.entries, page.scores, strict=True)
    ]
    return sorted(rows, key=lambda row: row[:3])


class MergedReads(ShardMap[C_co, ShardT]):
    """The reads of `QueueReads` over all shards."""

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        now = now_ms if now_ms is not None else await self._now()
        found = await self._on_each_shard(lambda part: part.counts.op(now))

        def total(name: str) -> int:
            return sum(getattr(counts, name) for counts in found)

        return Counts(
            total("waiting"),
            total("pending"),
            total("delayed"),
            total("dead"),
            total("trash"),
            total("done"),
            min((c.oldest_ms for c in found if c.oldest_ms is not None), default=None),
            found[0].paused,
            found[0].closed,
        )

    @operation
    async def activity(self, since_ms: int, known_ms: int | None = None) -> Activity:
        parts = await self._on_each_shard(lambda part: part.activity.op(since_ms, known_ms))
        return joined_activity(parts)

    async def _page(self, state: State, query: PageQuery) -> Page:
        """As for one queue: the shards' pages are merged by time, and a cursor is for all of them.

        Waiting entries without a time come one shard after another, with cursors ``shard~cursor``.
        """
        if state == "done":  # none is kept
            return Page((), None, 0)
        if state == "waiting" and not self.timed:
            return await self._page_by_shards(query)
        cursor, max = query.cursor, query.max
        if query.start is not None:
            cursor = await self._seek(state, query.start)
        some = PageQuery(cursor, max, payloads=query.payloads)
        pages = await self._on_each_shard(lambda part: part._page(state, some))
        rows = _merged(pages)
        shown = rows[:max]
        more = len(rows) > max or any(page.cursor for page in pages)
        last = spelt(shown[-1][:2]) if shown and more else None
        entries = tuple(_marked_entry(entry, k) for _, _, k, entry in shown)
        return Page(entries, last, sum(page.total for page in pages))

    @operation
    async def latest(
        self,
        state: State,
        max: int = 100,
        payloads: bool = False,
        glance: bool = False,
        *,
        number: int | None = None,
    ) -> Page:
        pages = await self._on_each_shard(lambda part: part.latest.op(state, max, payloads, glance))
        entries = tuple(_marked_entry(entry, k) for _, _, k, entry in _merged(pages)[-max:])
        return Page(entries, None, sum(page.total for page in pages))

    async def _page_by_shards(self, query: PageQuery) -> Page:
        """Waiting entries that have no time to merge by: one shard after another."""
        sizes = [
            counts.waiting for counts in await self._on_each_shard(lambda part: part.counts.op(0))
        ]
        shard, _, inner = (query.cursor or "0~").partition("~")
        k, skip, max = int(shard), query.start or 0, query.max
        while k < len(sizes) and skip >= sizes[k]:
            skip, k = skip - sizes[k], k + 1
        entries: list[Entry] = []
        problems: list[str] = []
        while k < len(sizes) and len(entries) < max:
            rest = PageQuery(inner or None, max - len(entries), skip or None, query.payloads)
            page = await self._shard(k)._page("waiting", rest)
            entries += page.entries
            problems += [page.problem] if page.problem else []
            inner, skip = page.cursor or "", 0
            k += not inner
        onward = f"{k}~{inner}" if k < len(sizes) else None
        return Page(tuple(entries), onward, sum(sizes), problem="; ".join(problems) or None)

    def _zset(self, state: State) -> str:
        """The key part of a state's sorted set."""
        return ZSETS[state]

    async def _seek(self, state: State, rank: int) -> str | None:
        """The cursor behind which the ``rank``-th entry is, from 0; None: the beginning.

        Ranks are per shard. Each round reads some entries of every shard, at equal distances, and
        leaves about a tenth of the entries that may be the one: five round trips for a million.
        """
        if not rank:
            return None
        keys = [part.keys[self._zset(state)] for part in self._all_shards()]
        most = max(_FEWEST, _PROBES // len(keys))
        high = await together(Call(("ZCARD", key), int, key=key) for key in keys)
        low = [0] * len(keys)
        while (left := sum(high) - sum(low)) > _LAST_ROUND:
            known = await together(
                _probes(key, first, last, most)
                for key, first, last in zip(keys, low, high, strict=True)
            )
            low, high = _narrowed([*map(_Span, low, high, known)], rank)
            if sum(high) - sum(low) >= left:  # entries went meanwhile
                break
        begin = [max(0, at - 1) for at in low]
        found = await together(
            positions(key, first, last) for key, first, last in zip(keys, begin, high, strict=True)
        )
        rows = sorted(row for some in found for row in some)
        n = min(rank - sum(begin), len(rows))
        return spelt(rows[n - 1]) if n > 0 else None

    @operation
    async def get(self, id: str) -> Entry | None:
        return await self._with_known_shards(lambda: self._get(id))

    @operation
    async def get_many(self, ids: Sequence[str], likely: State | None = None) -> list[Entry | None]:
        # Overrides a kind's own `get_many`, which reads one shard's keys.
        return await together(self.get.op(id) for id in ids)

    async def _get(self, id: str) -> Entry | None:
        return await self._found(id, sorted((await self._shards_of([id]))[id]))

    async def _found(self, id: str, shards: Sequence[int]) -> Entry | None:
        """The entry from the first of these shards that has it; if only results are left of
        entries with this id, the latest."""
        found = await together(self._shard(k).get.op(id) for k in shards)
        entries = [_marked_entry(e, k) for k, e in zip(shards, found, strict=True) if e is not None]
        done = max(entries, key=lambda entry: entry.since_ms or 0, default=None)
        return next((entry for entry in entries if entry.state != "done"), done)

    @operation
    async def rates(self, now_ms: int, minutes: int = 60) -> Rates:
        found = await self._on_each_shard(lambda part: part.rates.op(now_ms, minutes))
        return Rates.total(found)

    @operation
    async def history(self, max: int = 100, before: str = "+") -> list[Event]:
        found = await self._on_each_shard(lambda part: part.history.op(max, before))
        events = sorted((e for part in found for e in part), key=_place, reverse=True)
        # Events of one ms stay together: the next page begins after that ms in all shards.
        end = next((i for i in range(max, len(events)) if events[i].id != events[i - 1].id), None)
        return events[:end]

    @operation
    async def history_length(self) -> int:
        return sum(await self._on_each_shard(lambda part: part.history_length.op()))

    @operation
    async def due_counts(self, edges: Sequence[int]) -> list[int]:
        found = await self._on_each_shard(lambda part: part.due_counts.op(edges))
        return list(map(sum, zip(*found, strict=True)))

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        return joined(await self._on_each_shard(lambda part: part.queue_position.op(id)))

    @operation
    async def invariants(self) -> list[str]:
        found = await self._on_each_shard(lambda part: part.invariants.op())
        return [f"shard {k}: {said}" for k, all_ in enumerate(found) for said in all_]


def _marked_entry(entry: Entry, k: int) -> Entry:
    return entry if entry.receipt is None else replace(entry, receipt=f"{k}:{entry.receipt}")


def _place(event: Event) -> tuple[int, int]:
    ms, _, nth = event.id.partition("-")
    return int(ms), int(nth)
