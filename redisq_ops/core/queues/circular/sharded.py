"""The circular queue over several shards; how its ids move when N changes: `rebalance`.

First in, first out holds within a shard; between shards a take is shared out evenly. Other programs
push to shard 0, and their ids stay there and are found like any other. A push by redisq goes to the
id's home, so two workers may be at one id that was pushed both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

from ...engine.idempotency import CallerSlots
from ...engine.registry import Registered, find
from ...model.clock import Clock, Seconds
from ...model.entry import TakeResult
from ...model.retry_policy import RetryPolicy
from ...model.settings import BATCH
from ...redis.operation import C_co, Call, operation, together
from ...redis.parsers import scored
from ...sharding.rebalance import RebalancingQueue
from ...sharding.shard_map import NEVER, SHARDS, Head, checked_shards, home
from ...sharding.sharded_queue import ShardedQueue
from . import list_pages
from .queue import CircularQueue
from .variants import Completed, Idle, Repeats, Residence, recorded


class ShardedCircularQueue(RebalancingQueue[C_co, CircularQueue[None]], CircularQueue[C_co]):
    """A circular queue over several hash slots, used like one: see `CircularQueue`.

    ``shards`` (1 to 256): how many a new queue gets; an existing one keeps its number until
    `resize`. Ids are in order within a shard.
    """

    part: ClassVar[Any] = CircularQueue

    def __init__(
        self,
        client: C_co,
        name: str = "default",
        *,
        residence: Residence | None = None,
        completed: Completed | None = None,
        repeats: Repeats | None = None,
        idle: Idle | None = None,
        turns: int = 3,
        pause: Seconds = 0.2,
        shards: int = SHARDS,
        prefix: str | None = None,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
        callers: CallerSlots | None = None,
        random: Random | None = None,
        entry: Registered | None = None,
    ) -> None:
        ShardedQueue.__init__(
            self,
            client,
            name,
            shards=shards,
            prefix=prefix,
            retry=retry,
            clock=clock,
            callers=callers,
            random=random,
            entry=entry,
        )
        self._configured(
            turns, pause, residence=residence, completed=completed, repeats=repeats, idle=idle
        )

    # --- producers -----------------------------------------------------------------------------

    async def _push(self, rows: Sequence[tuple[str, bytes]]) -> list[str]:
        return await self._offer_to_home(rows, lambda part, some: part._push(some))

    def _possible_shards(self, id: str) -> set[int]:
        """Shard 0 too: other programs push there."""
        return ShardedQueue._possible_shards(self, id) | {0}

    # --- workers -------------------------------------------------------------------------------

    async def _peek(self, part: CircularQueue[None]) -> Head:
        """Waiting ids first; delayed and pending ones rank after them."""
        rotates = self.shape.residence == "rotate" and self.shape.idle != "lap"
        counted = [("LLEN", "queue")]
        counted += [("ZCARD", "delay"), ("ZCARD", "lease")] if rotates else []
        (listed, *held), first = await together(
            together(
                Call((command, part.keys[name]), int, key=part.keys[name])
                for command, name in counted
            ),
            together(scored(part.keys[zset], "0", "0") for zset in ("delay", "lease")),
        )
        if listed > sum(held):
            return 0, 0
        return min((at for rows in first for _, at in rows), default=NEVER), 1

    async def _take(self, n: int, consumer: str, lease_ms: int) -> TakeResult:
        taken = await RebalancingQueue._take(self, n, consumer, lease_ms)
        if self.shape.idle == "wake" or taken.deliveries or taken.more:
            return self._paced(taken, consumer, None)
        return self._paced(taken, consumer, await self._now())

    # --- moving to other shards ----------------------------------------------------------------

    @operation
    async def resize(self, shards: int) -> int:
        checked_shards(shards)
        entry = await find(self.name, self.prefix)
        if entry is not None:  # before other processes can notice shards without a shape
            self._apply_registry(entry)
            most = range(max(shards, entry.all_shards))
            await self._settled_shape([self._shard(k).keys for k in most])
        return await ShardedQueue.resize(self, shards)

    async def _rebalance_step(self) -> int:
        rotates = (await recorded(self.keys) or self.shape).residence == "rotate"
        left = 0
        for part in self._all_shards():  # waiting ids first, in their order
            place = None
            while True:
                elements, place, _ = await list_pages.waiting(part.keys, rotates, place, 0, BATCH)
                ids = [raw.decode() for raw in elements if raw.isascii()]
                await RebalancingQueue._bring_home_from(self, part, self._not_at_home(part, ids))
                if place is None:
                    break
        left = await RebalancingQueue._rebalance_step(self)
        # Pushed by another program, and not taken yet.
        for part in self._all_shards()[self.shards :]:
            left += (await part.counts.op()).waiting
        return left

    async def _bring_home_from(self, source: CircularQueue[None], ids: Sequence[str]) -> int:
        """Ids that another program pushed move too. Pending ones don't delay the resize: they are
        in shard 0, which is asked anyway."""
        known = (self.shards, self.old_shards)
        guests = [
            id for id in ids if source.shard == 0 and all(home(id, n) != 0 for n in known if n)
        ]
        strange = set(guests)
        left = await RebalancingQueue._bring_home_from(
            self, source, [id for id in ids if id not in strange]
        )
        if guests:
            await RebalancingQueue._bring_home_from(self, source, guests)
            key = source.keys["transit"]
            lying = await Call(("HMGET", key, *guests), list[bytes | None], key=key)
            left += sum(mark is not None for mark in lying)
        return left
