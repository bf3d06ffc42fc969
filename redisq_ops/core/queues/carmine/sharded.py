"""The Carmine queue over several shards; how its messages move when N changes: `rebalance`.

To Carmine each shard is a queue by itself (``mail``, ``mail/1``, …), with a circle of its own. A
done message moves, too, while equal ones must be refused, so that its new home refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...engine.timed_queue import ShardedTimedQueue
from ...model.errors import WrongKind
from ...redis.operation import C_co, Call, Description, operation, together
from ...sharding.rebalance import RebalancingQueue
from ...sharding.shard_map import checked_shards
from ...sharding.sharded_queue import ShardedQueue
from .keys import THEIRS
from .names import taken
from .queue import CarmineQueue, Enqueued


class ShardedCarmineQueue(ShardedTimedQueue[C_co, CarmineQueue[None]], CarmineQueue[C_co]):
    """A Carmine queue over several hash slots, used like one: see `CarmineQueue`.

    ``shards`` (1 to 256): how many a new queue gets; an existing one keeps its number until
    `resize`. Messages are in order within a shard.
    """

    part: ClassVar[Any] = CarmineQueue
    id_hashes: ClassVar[tuple[str, ...]] = ("messages", "body")

    async def _ensure_registered(self) -> None:
        if not self._registered:
            await self._ours([self._shard(k).keys for k in range(1, self.shards)])
            await ShardedQueue._ensure_registered(self)

    # --- producers -----------------------------------------------------------------------------

    async def _enqueue(
        self, entries: Sequence[tuple[str, bytes]], backoff: int, requeue: int, update: int
    ) -> list[Enqueued]:
        return await self._offer_to_home(
            entries, lambda part, some: part._enqueue(some, backoff, requeue, update)
        )

    # --- moving to other shards ----------------------------------------------------------------

    @operation
    async def resize(self, shards: int) -> int:
        checked_shards(shards)
        entry = await self._entry()
        if entry is not None and entry.at is not None:
            raise WrongKind(f"queue {self.name} is kept by Carmine itself: here it is only read")
        if entry is not None and not entry.old_shards:
            new = [self._shard(k).keys for k in range(entry.shards, shards)]
            if refused := await taken(new, self.prefix):
                raise WrongKind(f"queue {self.name} {refused}")
        return await ShardedQueue.resize(self, shards)

    async def _rebalance_step(self) -> int:
        """Not complete while a message that was moved is in Carmine's keys again."""
        before = await self._shown()
        left = await RebalancingQueue._rebalance_step(self)
        return left + await self._shown() - before

    async def _shown(self) -> int:
        found = await together(part._counters("shown") for part in self._all_shards())
        return sum(n for (n,) in found)

    def _forget(self, part: CarmineQueue[None], max: int) -> Description[int]:
        """Delete our keys only: Carmine may have a queue of that name by now."""
        keys = [part.keys[name] for name, _ in sorted(part._all_key_types) if name not in THEIRS]
        return Call(("UNLINK", *keys), int, key=keys[0])
