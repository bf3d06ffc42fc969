"""The delay set over several shards; how its entries move when N changes: `rebalance`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...engine.timed_queue import ShardedTimedQueue
from ...model.errors import Refused
from ...redis.operation import C_co, Call, operation
from ...redis.parsers import words
from ...sharding.rebalance import Arrival
from ...sharding.sharded_queue import home
from .queue import DelaySet, Scheduled


class ShardedDelaySet(ShardedTimedQueue[C_co, DelaySet[None]], DelaySet[C_co]):
    """A `DelaySet` over several hash slots, used like one: see there.

    ``shards`` (1 to 256): how many a new queue gets; an existing one keeps its number until
    `resize`. Entries are in order within a shard. Shard 0 has the periodic entries.
    """

    part: ClassVar[Any] = DelaySet

    # --- producers -----------------------------------------------------------------------------

    async def _schedule(
        self, entries: Sequence[tuple[str, bytes]], at: str, mode: str
    ) -> list[Scheduled]:
        return await self._offer_to_home(
            entries,
            lambda entry: entry[0],
            lambda part, some: part._schedule(some, at, mode),
            lambda replies: replies.word == "elsewhere",
        )

    @operation
    async def admit(self, entries: Sequence[tuple[str, bytes]]) -> list[str]:
        await self._ensure_registered()
        await self._refresh()
        if self.old_shards:
            raise Refused(f"queue {self.name} is changing its shards: hand over when that is done")
        return await self._grouped(
            entries,
            lambda entry: home(entry[0], self.shards),
            lambda part, some: part.admit.op(some),
        )

    async def _accepted(self, rows: Sequence[tuple[str | bytes, ...]]) -> list[str]:
        await self._refresh()
        if self.old_shards:
            raise Refused(f"queue {self.name} is changing its shards: import when that is done")
        return await self._grouped(
            rows,
            lambda row: home(str(row[0]), self.shards),
            lambda part, some: part._accepted(some),
        )

    # --- moving to other shards ----------------------------------------------------------------

    def _accept_rows(self, part: DelaySet[None], rows: Sequence[Arrival]) -> Call[list[str]]:
        return part._script("rebalance_accept").call(
            part.keys, self.clock, words, rows, new=0, layout=self.layout
        )
