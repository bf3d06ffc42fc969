"""The delay set over several shards, and how its entries move when their number changes.

An entry moves in three steps, each safe to repeat: out of its state into ``transit`` (no worker
sees it, its mark is fixed), in at its new home (a mark is taken in once), out of ``transit``. After
a kill anywhere the next mover, sweep or producer of that id goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..errors import Refused
from ..io import C_co, Call, operation, together
from ..queue import scored, words
from ..settings import BATCH
from ..shards import NEVER, Head, Sharded, home
from ..values import Page, State
from .queue import DelaySet, Scheduled

_ATTEMPTS = 4
_ARRIVED = ("ok", "same")
Departure = tuple[str, str, tuple[bytes, ...]]
"""off | held | gone, the mark, and what `arrive` takes"""


class ShardedDelaySet(Sharded[C_co, DelaySet[None]], DelaySet[C_co]):
    """A delay set of N shards, used like one. Periodic entries and the journal are in shard 0."""

    part: ClassVar[Any] = DelaySet

    # --- producers -----------------------------------------------------------------------------

    async def _schedule(
        self, entries: Sequence[tuple[str, bytes]], at: str, mode: str
    ) -> list[Scheduled]:
        """While the number changes, ask the old home first: what isn't there belongs to the new.

        Who doesn't know of a change is told ``elsewhere``, learns of it and asks again.
        """
        said: dict[int, Scheduled] = {}
        for _ in range(_ATTEMPTS):
            old = [(self.old_shards, self.layout - 1)] if self.old_shards else []
            for shards, layout in [*old, (self.shards, self.layout)]:
                left = [i for i in range(len(entries)) if i not in said]
                answers = await self._offer([entries[i] for i in left], at, mode, shards, layout)
                for i, answer in zip(left, answers, strict=True):
                    if answer.word != "elsewhere":
                        said[i] = answer
                if len(said) == len(entries):
                    return [said[i] for i in range(len(entries))]
                if self.old_shards:
                    await self._carry([entries[i][0] for i in left if i not in said])
            await self._refresh()
        raise Refused(f"the shards of queue {self.name} keep changing; try again")

    async def _offer(
        self, entries: Sequence[tuple[str, bytes]], at: str, mode: str, shards: int, layout: int
    ) -> list[Scheduled]:
        """Schedule each at its home by one layout."""
        return await self._grouped(
            entries,
            lambda entry: home(entry[0], shards),
            lambda part, some: part._schedule(some, at, mode),
            layout,
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

    # --- workers -------------------------------------------------------------------------------

    async def _peek(self, part: DelaySet[None]) -> Head:
        first = await together(scored(part.keys[zset], "0", "0") for zset in ("delay", "lease"))
        due = min((score for rows in first for _, score in rows), default=NEVER)
        return due, due

    @operation
    async def sweep(self, max: int = 100) -> int:
        swept = await Sharded.sweep(self, max)
        if self.old_shards:  # a mover may have been killed: what it carried must not lie there
            await self._carry(await self._in_transit())
        return swept

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

    async def _rehome(self) -> int:
        left = 0
        for part in self._union():
            cursor = "0"
            while True:
                cursor, *ids = await part._script("roll").call(
                    part.keys, self.clock, words, cursor=cursor, max=BATCH
                )
                away = [id for id in ids if home(id, self.shards) != part.shard]
                left += await self._carry_from(part, away)
                if cursor == "0":
                    break
        return left

    async def _in_transit(self) -> list[str]:
        keys = [part.keys["transit"] for part in self._union()]
        found = await together(Call(("HKEYS", key), words, key=key) for key in keys)
        return [id for ids in found for id in ids]

    async def _carry(self, ids: Sequence[str]) -> None:
        """Bring entries home from where they were before the number changed."""
        away: dict[int, list[str]] = {}
        for id in ids:
            if (k := home(id, self.old_shards)) != home(id, self.shards):
                away.setdefault(k, []).append(id)
        for k, some in away.items():
            await self._carry_from(self._part(k), some)

    async def _carry_from(self, source: DelaySet[None], ids: Sequence[str]) -> int:
        """Bring entries from a shard to their homes; how many are pending and stay for now."""
        held = 0
        while ids:
            batch = ids[:BATCH]
            rows = await source._script("depart").call(
                source.keys, self.clock, _departures, [(id,) for id in batch], layout=self.layout
            )
            ids = ids[len(rows) :]  # a call ends early when payloads are big
            off = [
                (id, mark, rest)
                for id, (word, mark, rest) in zip(batch, rows, strict=False)
                if word == "off"
            ]
            said = await self._grouped(
                off,
                lambda row: home(row[0], self.shards),
                lambda part, some: part._script("arrive").call(
                    part.keys, self.clock, words,
                    [(id, f"{id} {source.shard}-{mark}", *rest) for id, mark, rest in some],
                    new=0, layout=self.layout,
                ),
            )  # fmt: skip
            gone = [row[:2] for row, word in zip(off, said, strict=True) if word in _ARRIVED]
            await source._script("departed").call(source.keys, self.clock, int, gone)
            held += sum(word == "held" for word, _, _ in rows) + len(off) - len(gone)
        return held

    @operation
    async def invariants(self) -> list[str]:
        said = await Sharded.invariants(self)
        for part in self._union():
            body = part.keys["body"]
            ids = await Call(("HKEYS", body), words, key=body)
            strays = [id for id in ids if part.shard not in self._homes(id)]
            said += [f"{id} is in shard {part.shard} and doesn't belong there" for id in strays]
        transit = [] if self.old_shards else await self._in_transit()
        return said + [f"{id} is in transit and no change is under way" for id in transit]


def _departures(reply: list[bytes]) -> list[Departure]:
    rows = (reply[i : i + 8] for i in range(0, len(reply), 8))
    return [(word.decode(), mark.decode(), tuple(rest)) for word, mark, *rest in rows]
