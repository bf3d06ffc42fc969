"""The delay set over several shards; how its entries move when N changes: `rebalance`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...engine.entry_results import ShardedEntryResults
from ...engine.timed_queue import ShardedTimedQueue
from ...redis.operation import C_co
from .queue import DelaySet, Scheduled


class ShardedDelaySet(
    ShardedEntryResults[C_co, DelaySet[None]],
    ShardedTimedQueue[C_co, DelaySet[None]],
    DelaySet[C_co],
):
    """A `DelaySet` over several hash slots, used like one: see there.

    ``shards`` (1 to 256): how many a new queue gets; an existing one keeps its number until
    `resize`. Entries are in order within a shard. Shard 0 has the periodic entries.
    """

    part: ClassVar[Any] = DelaySet

    # --- producers -----------------------------------------------------------------------------

    async def _schedule(
        self, entries: Sequence[tuple[str, bytes]], at: str, mode: str
    ) -> list[Scheduled]:
        return await self._offer_to_home(entries, lambda part, some: part._schedule(some, at, mode))
