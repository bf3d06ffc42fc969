"""The delay set over several shards; how its entries move when their number changes: `carry`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..carry import Arrival, Carrying
from ..errors import Refused
from ..io import C_co, Call, operation, together
from ..reply import fields, scored, words
from ..shards import NEVER, Head, Sharded, home
from ..values import Page, State
from .queue import DelaySet, Scheduled


class ShardedDelaySet(Carrying[C_co, DelaySet[None]], DelaySet[C_co]):
    """A delay set of N shards, used like one. Periodic entries and the journal are in shard 0."""

    part: ClassVar[Any] = DelaySet
    timed: ClassVar[bool] = True

    # --- producers -----------------------------------------------------------------------------

    async def _schedule(
        self, entries: Sequence[tuple[str, bytes]], at: str, mode: str
    ) -> list[Scheduled]:
        return await self._at_home(
            entries,
            lambda entry: entry[0],
            lambda part, some: part._schedule(some, at, mode),
            lambda said: said.word == "elsewhere",
        )

    @operation
    async def admit(self, entries: Sequence[tuple[str, bytes]]) -> list[str]:
        await self._enrol()
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

    # --- workers -------------------------------------------------------------------------------

    async def _peek(self, part: DelaySet[None]) -> Head:
        first = await together(scored(part.keys[zset], "0", "0") for zset in ("delay", "lease"))
        due = min((score for rows in first for _, score in rows), default=NEVER)
        return due, due

    # --- looking -------------------------------------------------------------------------------

    @operation
    async def page(
        self,
        state: State,
        cursor: str | None = None,
        max: int = 100,
        start: int | None = None,
        payloads: bool = False,
    ) -> Page:
        if state == "delayed" and start is not None:  # its sorted set begins with what is due
            start += (await self.counts.op()).waiting
        return await Sharded.page(self, state, cursor, max, start, payloads)

    def _zset(self, state: State) -> str:
        return "delay" if state == "waiting" else Sharded._zset(self, state)

    # --- moving to other shards ----------------------------------------------------------------

    def _arrive(self, part: DelaySet[None], rows: Sequence[Arrival]) -> Call[list[str]]:
        return part._script("arrive").call(
            part.keys, self.clock, words, rows, new=0, layout=self.layout
        )

    @operation
    async def invariants(self) -> list[str]:
        said = await Sharded.invariants(self)
        for part in self._union():
            body = part.keys["body"]
            ids = await fields(body)
            strays = [id for id in ids if part.shard not in self._homes(id)]
            said += [f"{id} is in shard {part.shard} and doesn't belong there" for id in strays]
        transit = [] if self.old_shards else await self._in_transit()
        return said + [f"{id} is in transit and no change is under way" for id in transit]
