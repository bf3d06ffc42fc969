"""One queue over several hash slots: the same mechanism for every kind.

A sharded queue is N queues of one kind under one name, each with its own hash tag (``name``,
``name/1``, …), so a cluster spreads them over its nodes. An id's home is shard crc16(id) mod N. A
worker looks at all shards in one round trip and takes from the best; order holds within a shard.

The registry has N. `ShardedQueue.resize` first writes the old and the new number there: from then
on workers visit the shards of both, and lookups ask both homes. Each kind moves entries to their
new homes in bounded steps, which may be stopped anywhere and continued.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..engine.reads import RATES_S
from ..engine.registry import Registered, amend, find
from ..model.clock import Duration
from ..model.entry import MovedRange, State
from ..model.errors import NotFound, Refused, Superseded
from ..model.keys import Keys
from ..model.settings import LEASE_MS, MAX_BATCH
from ..redis.operation import C_co, Call, Description, attempt, operation, together
from ..redis.parsers import scored
from .merge import MergedReads
from .shard_map import MAX_SHARDS, NEVER, SHARDS, Head, ShardT, checked_shards, home

_WORDS = ("moved", "theirs", "same", "away", "late", "changed")
_COUNTED = ("done", "undone", "told")

__all__ = [
    "MAX_SHARDS",
    "NEVER",
    "SHARDS",
    "Head",
    "ShardT",
    "ShardedQueue",
    "checked_shards",
    "home",
]


class ShardedQueue(MergedReads[C_co, ShardT]):
    """A queue of several shards: how their number changes, and what operators change in them."""

    @operation
    async def resize(self, shards: int) -> int:
        """Change the number of shards, or go on with it; returns what still is in an old place.

        Everything that can move moves now, in steps of at most 100; what is pending stays until
        it is settled. Call it again until it says 0: only then is the change complete.
        """
        checked_shards(shards)
        entry = await find(self.name, self.prefix)
        if entry is None:
            raise NotFound(f"no queue {self.name!r} here")
        entry.checked(self.kind, self.schema)
        if entry.old_shards and entry.shards != shards:
            raise Refused(f"queue {self.name} is still on its way to {entry.shards} shards")
        if not entry.old_shards:
            if entry.shards == shards:
                return 0
            await self._refuse_unfinished_transfers()
            await self._copy_settings(range(entry.shards, shards))
            begun = replace(entry, shards=shards, old_shards=entry.shards, layout=entry.layout + 1)
            entry = await self._replace_entry(entry, begun)
        self._apply_registry(entry)
        # Once more, now that every change of settings reaches the new shards by itself.
        await self._copy_settings(range(entry.old_shards, shards))
        await self._reject_stale_producers()
        await (
            self._refuse_unfinished_transfers()
        )  # a move that began before it could learn of the change
        left = await self._rebalance_step()
        if not left:
            await self._clear_given_up([self._shard(k) for k in range(shards, entry.old_shards)])
            self._apply_registry(await self._replace_entry(entry, replace(entry, old_shards=0)))
        return left

    async def _refuse_unfinished_transfers(self) -> None:
        """Refuse while a move from or to another queue is under way: its undo lists and what was
        said of its entries are in the shards they were in when it began."""
        for op in await self.unfinished_transfers.op():
            raise Refused(
                f"{op} between queue {self.name} and another isn't finished: change the shards when"
                " it is (redisq fsck says how to finish it)"
            )

    async def _copy_settings(self, new: Iterable[int]) -> None:
        """Give shards the settings and flags of the first, until these stay as they are.

        One that was given up before may still have those of that time. Settings are changed in
        the first shard first: what it doesn't have yet comes to the others later than we do.
        """

        def read(reply: dict[bytes, bytes]) -> dict[str, bytes]:
            return {k.decode(): v for k, v in reply.items() if k not in (b"layout", b"retired")}

        keys = [self._shard(k).keys["cfg"] for k in (0, *new)]
        while True:
            wanted, *had = await together(Call(("HGETALL", key), read, key=key) for key in keys)
            changes: list[Call[int]] = []
            for key, old in zip(keys[1:], had, strict=True):
                if gone := sorted(set(old) - set(wanted)):
                    changes.append(Call(("HDEL", key, *gone), int, key=key))
                if flat := [w for name in wanted if wanted[name] != old.get(name)
                            for w in (name, wanted[name])]:  # fmt: skip
                    changes.append(Call(("HSET", key, *flat), int, key=key))
            if not changes:
                return
            await together(changes)

    async def _replace_entry(self, before: Registered, after: Registered) -> Registered:
        # A re-sent change finds itself done, so what counts is what stands there now.
        if (
            not await amend(before, after, self.prefix)
            and await find(self.name, self.prefix) != after
        ):
            raise Refused(f"the shards of queue {self.name} were changed by someone else just now")
        return after

    async def _reject_stale_producers(self) -> None:
        """Have every shard turn away producers who don't know of the change."""
        fence = self._script("reject_stale_layout")
        await together(
            fence.call(
                part.keys, self.clock, int, layout=self.layout,
                retired=int(part.shard >= self.shards),
            )
            for part in self._all_shards()
        )  # fmt: skip

    @abstractmethod
    async def _rebalance_step(self) -> int:
        """Bring what can be moved to its home; how much can't, for now."""

    async def _clear_given_up(self, parts: Sequence[ShardT]) -> None:
        """Clear the rest of shards that are given up; what they settled goes on counting,
        in all and by the minute.

        A kill between the two steps loses that from the count, and nothing else.
        """
        if not parts:
            return
        await self._merge_audit_log([part.keys for part in parts])
        script, stat = self._script("retire_shard"), self.keys["stat"]
        done = await together(
            script.call(part.keys, self.clock, int, layout=self.layout) for part in parts
        )
        if sum(done):
            await Call(("HINCRBY", stat, "done", sum(done)), int, key=stat)
        await self._merge_rates(parts)

    async def _merge_rates(self, given_up: Sequence[ShardT]) -> None:
        """What those shards counted by the minute is the first one's from now on.

        Rather lost than told twice: a kill loses the hours that are under way, of few shards the
        whole day. A key of another type stays as it is.
        """
        now = await self._now()
        counted_in = [self._rate_keys(now), *(part._rate_keys(now) for part in given_up)]
        hours = list(zip(*counted_in, strict=True))
        step = max(1, MAX_BATCH // len(given_up))
        for i in range(0, len(hours), step):
            places = [(first, key) for first, *theirs in hours[i : i + step] for key in theirs]
            found = await together(
                attempt(Call(("HGETALL", key), _minutes, key=key)) for _, key in places
            )
            there = [(*place, counted) for place, counted in zip(places, found, strict=True)
                     if isinstance(counted, dict) and counted]  # fmt: skip
            await together(Call(("UNLINK", key), int, key=key) for _, key, _ in there)
            total: defaultdict[str, Counter[str]] = defaultdict(Counter)
            for first, _, counted in there:
                total[first].update(counted)
            await together(
                attempt(Call(command, int, key=first))
                for first, counted in total.items()
                for command in (
                    *(("HINCRBY", first, minute, n) for minute, n in counted.items()),
                    ("EXPIRE", first, RATES_S),
                )
            )

    async def _merge_audit_log(self, given_up: Sequence[Keys]) -> None:
        """What operations did in those shards is counted by the first one from now on."""
        if not given_up:
            return
        listed, step = 0, max(1, MAX_BATCH // len(given_up))
        while page := await scored(self.keys["ops"], str(listed), str(listed + step - 1)):
            listed += len(page)
            places = [(op, keys["op_"] + op) for op, _ in page for keys in given_up]
            rows = await together(
                Call(("HMGET", key, *_COUNTED), _counts, key=key) for _, key in places
            )
            there = [(op, key, row) for (op, key), row in zip(places, rows, strict=True)
                     if any(row)]  # fmt: skip
            await together(Call(("UNLINK", key), int, key=key) for _, key, _ in there)
            first = self.keys["op_"]
            await together(
                Call(("HINCRBY", first + op, name, n), int, key=first + op)
                for op, _, row in there for name, n in zip(_COUNTED, row, strict=True) if n
            )  # fmt: skip

    # --- what operators change -----------------------------------------------------------------

    @operation
    async def move(
        self,
        op: str,
        step: int,
        ids: Sequence[str],
        *,
        source: State,
        target: str,
        high_water_ms: int,
        consumer: str = "-",
        lease_ms: Duration = LEASE_MS,
        times: Mapping[str, int] | None = None,
        span: str = "",
    ) -> list[str]:
        def of(part: ShardT, some: Sequence[int]) -> Description[list[str]]:
            return part.move.op(
                op, step, [ids[i] for i in some], source=source, target=target,
                high_water_ms=high_water_ms, consumer=consumer, lease_ms=lease_ms, times=times,
                span=span,
            )  # fmt: skip

        return await self._step_in_shards(ids, of)

    @operation
    async def edit(
        self,
        op: str,
        step: int,
        rows: Sequence[tuple[str, bytes, bytes]],
        *,
        source: State,
        high_water_ms: int,
    ) -> list[str]:
        def of(part: ShardT, some: Sequence[int]) -> Description[list[str]]:
            few = [rows[i] for i in some]
            return part.edit.op(op, step, few, source=source, high_water_ms=high_water_ms)

        return await self._step_in_shards([row[0] for row in rows], of)

    async def _step_in_shards(
        self, ids: Sequence[str], ask: Callable[[ShardT, Sequence[int]], Description[list[str]]]
    ) -> list[str]:
        """Carry a step out in every shard that may have some of the ids (told by their index).

        A shard takes one list under a step's number: asked for other ids, it would answer for the
        first ones. So the present shards are learnt of before, and what is carried away while we
        ask is `changed`, as if somebody had touched it.
        """
        await self._refresh()
        places = await self._shards_of(ids)
        # The journal is in the first: it learns of every step. One of nothing is for all: it ends
        # the operation, since none of them takes another under its number.
        asked: dict[int, list[int]] = {k: [] for k in range(1 if ids else len(self._all_shards()))}
        for i, id in enumerate(ids):
            for k in places[id]:
                asked.setdefault(k, []).append(i)
        said = await together(ask(self._shard(k), some) for k, some in asked.items())
        best = [len(_WORDS)] * len(ids)
        for heard, (k, some) in zip(said, asked.items(), strict=True):
            if len(heard) != len(some):
                raise Superseded(f"shard {k}: that step was carried out with other entries")
            for i, word in zip(some, heard, strict=True):
                best[i] = min(best[i], _WORDS.index(word))
        return [_WORDS[word] for word in best]

    @operation
    async def move_range(
        self,
        op: str,
        step: int,
        n: int,
        *,
        source: State,
        target: str,
        high_water_ms: int,
        left: Sequence[int] = (),
        last: bool = False,
    ) -> MovedRange:
        """As of one shard: of each the first of its share of ``n``, all at once."""
        share = -(-n // len(self._all_shards()))

        def each() -> Description[list[MovedRange]]:
            return together(
                part.move_range.op(
                    op, step, share, source=source, target=target, high_water_ms=high_water_ms,
                    left=left[k : k + 1] or (0,), last=last,
                )
                for k, part in enumerate(self._all_shards())
            )  # fmt: skip

        found = await self._with_known_shards(each)
        moved = sum(front.moved for front in found)
        behind = tuple(front.left[0] for front in found)
        done = sum(front.done for front in found)
        return MovedRange(moved, behind, all(front.over for front in found), done)

    @operation
    async def undo(
        self,
        op: str,
        step: int,
        *,
        target: str,
        by: str,
        seq: int,
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> tuple[int, int]:
        found = await self._on_each_shard(
            lambda part: part.undo.op(op, step, target=target, by=by, seq=seq, left=left)
        )
        return sum(back for back, _ in found), sum(touched for _, touched in found)

    async def _configure(
        self, op: str, seq: int, changes: dict[str, str], since: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """In the first shard first, from which `_copy_settings` has what new shards get.

        What is another value there by now (not as ``since`` says, nor changed already, as by an
        undo that was interrupted) stays in the others, too.
        """

        async def everywhere() -> dict[str, str]:
            first, *others = self._all_shards()
            before = await first._configure(op, seq, changes, since)
            due = {
                name: value
                for name, value in changes.items()
                if before[name] in (value, (since or before).get(name, before[name]))
            }
            await together(part._configure(op, seq, due, since) for part in others if due)
            return before

        return await self._until_shards_stable(everywhere)

    @property
    def former_shard_keys(self) -> tuple[Keys, ...]:
        if not self.layout:
            return ()
        return tuple(self._shard(k).keys for k in range(len(self._all_shards()), MAX_SHARDS))

    @operation
    async def destroy_step(self, max: int = 100) -> int:
        gone = sum(await self._on_each_shard(lambda part: part.destroy_step.op(max)))
        if gone:
            return gone
        # Shards given up once: their fences would shut out a later queue of this name, and what
        # an interrupted change or an earlier release left there would come back in it.
        once = [self._shard(k) for k in range(len(self._all_shards()), MAX_SHARDS)]
        return sum(await together(self._forget(part, max) for part in once))

    def _forget(self, part: ShardT, max: int) -> Description[int]:
        """Remove what a shard that was given up has left."""
        return part.destroy_step.op(max)


def _minutes(reply: dict[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(n) for name, n in reply.items()}


def _counts(reply: list[bytes | None]) -> list[int]:
    return [int(value or 0) for value in reply]
