"""The delay set over several shards; how its entries move when N changes: `rebalance`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...engine.timed_queue import ShardedTimedQueue
from ...model.settings import BATCH
from ...redis.operation import C_co, Call, together
from ...redis.parsers import scored
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
        return await self._offer_to_home(entries, lambda part, some: part._schedule(some, at, mode))

    # --- results --------------------------------------------------------------------------------

    async def _ends(self, ids: Sequence[str]) -> list[tuple[bool, bytes | None]]:
        """Of the shards in which the entries ended, which may have another number by now."""
        found = await self._on_each_shard(lambda part: part._ends(ids))
        return [
            (any(here for here, _ in rows), next((r for _, r in rows if r is not None), None))
            for rows in zip(*found, strict=True)
        ]

    async def _clear_given_up(self, parts: Sequence[DelaySet[None]]) -> None:
        await ShardedTimedQueue._clear_given_up(self, parts)
        await together(self._copy_results(part) for part in parts)

    async def _copy_results(self, part: DelaySet[None]) -> None:
        """Copy what handlers returned to the first shard; a copy of an id that is there stays."""
        came, at = part.keys["result"], part.keys["result_at"]
        values, times = self.keys["result"], self.keys["result_at"]
        while rows := await scored(at, "0", str(BATCH - 1)):
            ids = [id for id, _ in rows]
            results = await Call(("HMGET", came, *ids), list[Any], key=came)
            kept = [(id, r, ms) for (id, ms), r in zip(rows, results, strict=True) if r is not None]
            await together(Call(("HSETNX", values, id, r), int, key=values) for id, r, _ in kept)
            scores = [word for id, _, ms in kept for word in (ms, id)]
            if scores:
                await Call(("ZADD", times, "NX", *scores), int, key=times)
            await together(
                [Call(("HDEL", came, *ids), int, key=came), Call(("ZREM", at, *ids), int, key=at)]
            )
