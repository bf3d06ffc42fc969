"""Reads of a queue with several shards: merged, as if it were one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..model.activity import Activity, joined_activity
from ..model.entry import Counts, Entry, Event, Page, PageQuery, State
from ..model.queue_position import QueuePosition, joined
from ..model.quoting import bytes_of
from ..model.rates import Rates
from ..model.states import ZSETS
from ..redis.operation import C_co, Call, Description, operation, together
from ..redis.parsers import scored, spelt
from .shard_map import ShardMap, ShardT

_FURTHEST = 10**14
"""ms: the year 5138, the last time that the library accepts"""


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
        cursor, max, skip = query.cursor, query.max, 0
        if query.start is not None:
            cursor, skip = await self._seek(state, query.start)
        some = PageQuery(cursor, skip + max, payloads=query.payloads)
        pages = await self._on_each_shard(lambda part: part._page(state, some))
        rows = sorted(
            (
                (score, bytes_of(entry.id), k, entry)
                for k, page in enumerate(pages)
                for entry, score in zip(page.entries, page.scores, strict=True)
            ),
            key=lambda row: row[:3],
        )
        shown = rows[skip : skip + max]
        more = len(rows) > skip + max or any(page.cursor for page in pages)
        last = f"{spelt(shown[-1][0])}:{shown[-1][3].id}" if shown and more else None
        entries = tuple(_marked_entry(entry, k) for _, _, k, entry in shown)
        return Page(entries, last, sum(page.total for page in pages))

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

    async def _seek(self, state: State, rank: int) -> tuple[str | None, int]:
        """A cursor before the time of the ``rank``-th entry, and how many entries to skip from it.

        Ranks are per shard, so the time is bisected: about 40 round trips of ZCOUNT.
        """
        zset = self._zset(state)

        def count(part: ShardT, at: int) -> Call[int]:
            return Call(("ZCOUNT", part.keys[zset], "-inf", f"({at}"), int, key=part.keys[zset])

        def ends(part: ShardT) -> Description[list[list[tuple[str, float]]]]:
            return together(scored(part.keys[zset], "0", "0", *rev) for rev in ((), ("REV",)))

        found = await self._on_each_shard(ends)
        # Scores that are no times come before or after all times.
        times = [
            int(min(_FURTHEST, max(-_FURTHEST, score)))
            for pair in found
            for rows in pair
            for _, score in rows
        ] or [0]
        low, high = min(times), max(times)
        skip, cursor = rank, None
        while low < high:
            middle = (low + high + 1) // 2
            before = sum(await together(count(part, middle) for part in self._all_shards()))
            if before <= rank:
                low, skip, cursor = middle, rank - before, f"{middle}:"
            else:
                high = middle - 1
        return cursor, skip

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
        """The entry from the first of these shards that has it; a result of an earlier entry with
        this id counts last."""
        found = await together(self._shard(k).get.op(id) for k in shards)
        entries = [_marked_entry(e, k) for k, e in zip(shards, found, strict=True) if e is not None]
        return min(entries, key=lambda entry: entry.state == "done", default=None)

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
