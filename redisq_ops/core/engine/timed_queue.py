"""Queues in which every entry has a ready time: it is delayed until then, waiting afterwards.

One sorted set has both, so an entry becomes due without any work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from ..model.entry import Counts, Page, PageQuery, State
from ..model.queue_position import Ahead, QueuePosition
from ..model.states import Verb
from ..redis.operation import C_co, Call, operation, together
from ..redis.parsers import moment, number, scored
from ..sharding.rebalance import RebalancingQueue
from ..sharding.shard_map import Head, ShardT, next_due
from ..sharding.sharded_queue import ShardedQueue
from .optional_features import HasTimeline
from .queue import Queue


class TimedQueue(HasTimeline[C_co]):
    """Reads of a queue that has delayed and waiting entries in one sorted set, by ready time."""

    actions: ClassVar[Mapping[Verb, tuple[State, ...]]] = {
        **Queue.actions,
        "reschedule": ("delayed",),
    }

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        now = now_ms if now_ms is not None else await self._now()
        key = self.keys["delay"]
        sizes, counters, (paused, closed), oldest = await together(
            together(
                [
                    Call(("ZCOUNT", key, "-inf", now), int, key=key),
                    *(
                        Call(("ZCARD", self.keys[part]), int, key=self.keys[part])
                        for part in ("delay", "lease", "dead", "trash")
                    ),
                ]
            ),
            self._counters("done"),
            self._flags(),
            scored(key, "0", "0"),
        )
        waiting, all_, pending, dead, trash = sizes
        since = moment(oldest[0][1]) if oldest and waiting else None
        return Counts(
            waiting, pending, all_ - waiting, dead, trash, counters[0], since, paused, closed
        )

    async def _page(self, state: State, query: PageQuery) -> Page:
        if state == "delayed":
            return await self._page_zset(state, "delay", query, above=await self._now())
        return await Queue._page(self, state, query)

    async def _zset_range(self, state: State) -> tuple[str, float | None, float | None] | None:
        if state not in ("waiting", "delayed"):
            return await Queue._zset_range(self, state)
        now = await self._now()
        return ("delay", None, now) if state == "waiting" else ("delay", now + 1, None)

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        """The entry's rank among all ready times: exactly that many come first."""
        key = self.keys["delay"]
        askers, rank = await together(
            self._recent_consumers(), Call(("ZRANK", key, id), number, key=key)
        )
        if rank is None:
            return askers
        ahead = (Ahead("entries with an earlier ready time", int(rank)),) if rank else ()
        return replace(askers, here=True, ahead=ahead, before=int(rank), before_exact=True)

    async def _page_waiting(self, query: PageQuery) -> Page:
        return await self._page_zset("waiting", "delay", query, up_to=await self._now())


class ShardedTimedQueue(RebalancingQueue[C_co, ShardT]):
    """A `TimedQueue` over several shards: each is ordered, and the shard that is due first is
    asked first."""

    timed: ClassVar[bool] = True

    async def _peek(self, part: ShardT) -> Head:
        due = await next_due(part.keys)
        return due, due

    async def _page(self, state: State, query: PageQuery) -> Page:
        if state == "delayed" and query.start is not None:  # the set begins with waiting entries
            query = replace(query, start=query.start + (await self.counts.op()).waiting)
        return await ShardedQueue._page(self, state, query)

    def _zset(self, state: State) -> str:
        return "delay" if state == "waiting" else ShardedQueue._zset(self, state)
