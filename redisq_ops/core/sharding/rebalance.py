"""Moves entries to their new shards when the number of shards changes, by their ids.

An entry is held in ``transit``, where no worker sees it and it has a mark; its new home accepts a
mark once; then the old one drops the entry. Each step is safe to repeat.
After a crash the next resize, sweep or producer of the id continues (`core.engine.transfer`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from ..engine import transfer
from ..model import record
from ..model.entry import Checkup, Counts, Entry, State, TakeResult
from ..model.errors import Refused
from ..model.settings import BATCH
from ..redis.operation import C_co, Call, Description, attempt, operation, together
from ..redis.parsers import optional, words
from ..redis.whole_keys import fields
from .in_transit import InTransit, arrivals, departure, departures
from .shard_map import ShardT, home
from .sharded_queue import ShardedQueue

_ATTEMPTS = 4
_ARRIVED = ("ok", "same")

Y = TypeVar("Y")


class RebalancingQueue(ShardedQueue[C_co, ShardT]):
    """A sharded queue whose entries are in the home shard of their ids, or in transit to it."""

    id_hashes: ClassVar[tuple[str, ...]] = ("body",)
    """the hashes that have the id of every entry"""

    async def _offer_to_home(
        self,
        entries: Sequence[tuple[str, bytes]],
        offer: Callable[[ShardT, list[tuple[str, bytes]]], Description[list[Y]]],
    ) -> list[Y]:
        """Send (id, payload) pairs to their home shards; returns each one's reply.

        During a resize the old home is asked first: an entry that isn't there belongs to the new
        one. A reply ``elsewhere`` means that the number of shards changed: read it and try again.
        """
        replies: dict[int, Y] = {}
        for _ in range(_ATTEMPTS):
            old = [(self.old_shards, self.layout - 1)] if self.old_shards else []
            for shards, layout in [*old, (self.shards, self.layout)]:
                left = [i for i in range(len(entries)) if i not in replies]

                def shard(entry: tuple[str, bytes], shards: int = shards) -> int:
                    return home(entry[0], shards)

                answers = await self._grouped([entries[i] for i in left], shard, offer, layout)
                for i, answer in zip(left, answers, strict=True):
                    if getattr(answer, "word", answer) != "elsewhere":
                        replies[i] = answer
                if len(replies) == len(entries):
                    return [replies[i] for i in range(len(entries))]
                if self.old_shards:
                    await self._bring_home([entries[i][0] for i in left if i not in replies])
            await self._refresh()
        raise Refused(f"the shards of queue {self.name} keep changing; try again")

    @operation
    async def sweep(self, max: int = 100) -> int:
        swept = await ShardedQueue.sweep(self, max)
        # A resize may have crashed, even a late one: entries must not stay in transit.
        await self._finish_transit()
        return swept

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """Also counts entries in transit, in the state they left; one more round trip for them.
        Those that have arrived are counted at their new home only."""
        now = now_ms if now_ms is not None else await self._now()
        if not self.layout:
            found = await ShardedQueue.counts(self, now)
            if not self.layout:  # the number of shards was never changed
                return found
        found, carried = await together(
            ShardedQueue.counts(self, now), self._on_each_shard(departures)
        )
        on_the_way = [entry for entries in carried for entry in entries]
        came = await self._arrival_times(on_the_way)
        # Entries that arrived after this read began were not counted at their home.
        states = Counter(
            self._state(entry.state, entry.at, now)
            for entry, when in zip(on_the_way, came, strict=True)
            if when is None or when > now
        )
        return replace(
            found,
            **{
                state: getattr(found, state) + states[state]
                for state in ("waiting", "delayed", "dead", "trash")
                if states[state]
            },
        )

    async def _get(self, id: str) -> Entry | None:
        found = await ShardedQueue._get(self, id)
        live = found is not None and found.state != "done"
        if not self.layout or (live and not self.old_shards):
            return found
        places = sorted((await self._shards_of([id]))[id])
        names = ("transit", "meta", "err", "body")
        now, rows = await together(
            self._now(),
            together(
                Call(("HGET", keys[name], id), optional, key=keys[name])
                for keys in (self._shard(k).keys for k in places)
                for name in names
            ),
        )
        answers = zip(*[iter(rows)] * len(names), strict=True)
        for k, (mark, line, error, payload) in zip(places, answers, strict=True):
            if mark is None:
                continue
            left = departure(id, k, mark)
            if await self._arrival_times([left]) != [None]:  # it arrived: this copy is void
                return await self._found(id, [place for place in places if place != k])
            state = self._state(left.state, left.at, now)
            return found if live else record.readable(id, state, left.at, line, error, payload)
        return found

    async def _arrival_times(self, entries: Sequence[InTransit]) -> list[float | None]:
        """When each entry arrived at its home, or None; no round trip for no entries."""
        return await self._grouped(entries, lambda entry: home(entry.id, self.shards), arrivals)

    def _state(self, state: State, at: float, now_ms: int) -> State:
        """The state of an entry in transit that left a shard in this state."""
        return "waiting" if self.timed and state == "delayed" and at <= now_ms else state

    async def _take(self, n: int, consumer: str, lease_ms: int) -> TakeResult:
        """Where a take finds nothing, bring entries home that a crashed resize left in transit."""
        taken = await ShardedQueue._take(self, n, consumer, lease_ms)
        if taken.deliveries or taken.more or not self.layout:
            return taken
        lying = await self._in_transit_count()
        if not lying:
            return taken
        await self._finish_transit()
        return replace(taken, more=await self._in_transit_count() < lying)

    async def _in_transit_count(self) -> int:
        """Number of entries in transit."""
        keys = [part.keys["transit"] for part in self._all_shards()]
        return sum(await together(Call(("HLEN", key), int, key=key) for key in keys))

    async def _finish_transit(self) -> None:
        """Bring all entries in transit to their homes."""
        parts = self._all_shards()
        found = await together(fields(part.keys["transit"]) for part in parts)
        for part, ids in zip(parts, found, strict=True):
            await self._bring_home_from(part, self._not_at_home(part, list(ids)))

    async def _rebalance_step(self) -> int:
        left = 0
        for part in self._all_shards():
            cursor = "0"
            while True:
                cursor, *ids = await part._script("list_ids").call(
                    part.keys, self.clock, words, cursor=cursor, max=BATCH
                )
                left += await self._bring_home_from(part, self._not_at_home(part, ids))
                if cursor == "0":
                    break
        return left

    def _not_at_home(self, part: ShardT, ids: Sequence[str]) -> list[str]:
        """The ids of a shard that belong to another one now."""
        return [id for id in ids if home(id, self.shards) != part.shard]

    @operation
    async def invariants(self) -> list[str]:
        replies = await ShardedQueue.invariants(self)
        parts = self._all_shards()
        for part in parts:
            found = await together(fields(part.keys[name]) for name in self.id_hashes)
            strays = [
                id for ids in found for id in ids if part.shard not in self._possible_shards(id)
            ]
            replies += [f"{id} is in shard {part.shard} and doesn't belong there" for id in strays]
        keys = [] if self.old_shards else [part.keys["transit"] for part in parts]
        lying = [id for ids in await together(map(fields, keys)) for id in ids]
        return replies + [f"{id} is in transit and no change is under way" for id in lying]

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        """Also reports entries that an interrupted resize left in transit.

        They break no invariant; entries that a running resize moves are elsewhere at a second read.
        """
        found = await ShardedQueue.checkup(self, thorough)
        if not thorough or not self.old_shards:
            return found
        carried = await attempt(self._on_each_shard(departures))
        if isinstance(carried, Exception):  # a key of another type, reported already
            return found
        lying = [entry for entries in carried for entry in entries]
        came = await self._arrival_times(lying)
        left = (
            f"{_whereabouts(entry, home(entry.id, self.shards), when is not None)}: the sweep of"
            f" any worker, or resize({self.shards}), ends that"
            for entry, when in zip(lying, came, strict=True)
        )
        return replace(found, flaws=(*found.flaws, *left))

    async def _bring_home(self, ids: Sequence[str]) -> None:
        """Bring entries from their old homes to their new ones."""
        away: dict[int, list[str]] = {}
        for id in ids:
            if (k := home(id, self.old_shards)) != home(id, self.shards):
                away.setdefault(k, []).append(id)
        for k, some in away.items():
            await self._bring_home_from(self._shard(k), some)

    async def _bring_home_from(self, source: ShardT, ids: Sequence[str]) -> int:
        """Bring entries from a shard to their homes; returns how many stay for now."""
        left = 0
        while ids:
            rows = await transfer.hold_rows(source, ids[:BATCH], self.layout)
            ids = ids[len(rows) :]  # a call ends early where payloads are large
            held = [one for word, one in rows if word == "held"]
            replies = await self._grouped(
                held,
                lambda one: home(one.id, self.shards),
                lambda part, some: transfer.accept_rows(part, "shard", some),
            )
            gone = [one for one, word in zip(held, replies, strict=True) if word in _ARRIVED]
            await transfer.drop_rows(source, gone)
            left += sum(word == "stays" for word, _ in rows) + len(held) - len(gone)
        return left


def _whereabouts(entry: InTransit, to: int, arrived: bool) -> str:
    if arrived:
        return f"{entry.id} has arrived in shard {to} and shard {entry.shard} still has it too"
    return f"{entry.id} is between shard {entry.shard} and shard {to}"
