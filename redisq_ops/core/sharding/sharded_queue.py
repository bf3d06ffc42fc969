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
from typing import ClassVar

from ..engine.operator_changes import EditStep, MoveStep, UndoStep
from ..engine.reads import RATES_S
from ..engine.registry import MARK, Registered, amend, find
from ..model.entry import MovedRange, State
from ..model.errors import NotFound, Refused, Superseded
from ..model.keys import Keys, registry_key
from ..model.open_resize import OpenResize
from ..model.settings import MAX_BATCH
from ..redis import acl_rights
from ..redis.operation import C_co, Call, Description, attempt, operation, together
from ..redis.parsers import integers, scored
from .merge import MergedReads
from .shard_map import MAX_SHARDS, ShardT, checked_shards

_WORDS = ("moved", "theirs", "same", "away", "late", "changed")
_COUNTED = ("done", "undone", "told")
_HOLDING: tuple[State, ...] = ("waiting", "pending", "delayed", "dead", "trash")


class ShardedQueue(MergedReads[C_co, ShardT]):
    """A queue over several hash slots: `resize`, and the operators' changes in all shards."""

    public: ClassVar[tuple[str, ...]] = ("resize",)

    @operation
    async def resize(self, shards: int) -> int:
        """Change the number of shards (1 to 256), or continue a change that was interrupted.

        Returns how many entries are still in an old shard: pending ones stay until they are
        settled. Call it again until it returns 0; then the change is complete. Producers and
        workers go on meanwhile. Raises `NotFound`, and `Refused` during another resize or a
        transfer from or to another queue.

            while queue.resize(24): time.sleep(1)
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
            await acl_rights.to_replace_fields(registry_key(self.prefix))
            await self._refuse_unfinished_transfers()
            await self._copy_settings(range(entry.shards, shards))
            begun = replace(entry, shards=shards, old_shards=entry.shards, layout=entry.layout + 1)
            entry = await self._replace_entry(entry, begun)
        self._apply_registry(entry)
        await self._renew_marks(entry)
        # Again, now that every change of settings is made in the new shards, too.
        await self._copy_settings(range(entry.old_shards, shards))
        await self._reject_stale_producers()
        # A transfer may have begun before it could notice the change.
        await self._refuse_unfinished_transfers()
        left = await self._rebalance_step()
        if not left:
            await self._clear_given_up([self._shard(k) for k in range(shards, entry.old_shards)])
            ended = await self._replace_entry(entry, replace(entry, old_shards=0))
            await self._renew_marks(ended)
            self._apply_registry(ended)
        return left

    async def _renew_marks(self, entry: Registered) -> None:
        """Write a mark of the current registry entry into every shard."""
        keys = [each["cfg"] for each in self.shard_keys]
        await together(Call(("HSET", key, MARK, entry.mark), int, key=key) for key in keys)

    @operation
    async def open_resize(self) -> OpenResize | None:
        """The unfinished change of the number of shards, if this object has read of one in the
        registry; else None. One round trip, or none."""
        if not self.old_shards:
            return None
        now = await self._now()
        found = await together(part.counts.op(now) for part in self._all_shards()[self.shards :])
        sums = {state: sum(counts.of(state) or 0 for counts in found) for state in _HOLDING}
        left = {state: n for state, n in sums.items() if n}
        return OpenResize(self.old_shards, self.shards, left)

    async def _refuse_unfinished_transfers(self) -> None:
        """Raise `Refused` during a transfer from or to another queue: its undo lists and results
        are in the shards that had its entries when it began."""
        for op in await self.unfinished_transfers.op():
            raise Refused(
                f"{op} between queue {self.name} and another isn't finished: change the shards when"
                " it is (redisq fsck says how to finish it)"
            )

    async def _copy_settings(self, new: Iterable[int]) -> None:
        """Copy the first shard's settings and flags to other shards, until nothing changes.

        A shard that was given up before may have old ones. Every change of a setting goes to the
        first shard first: one that is too late to be copied reaches the other shards afterwards.
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
                if flat := [
                    w
                    for name in wanted
                    if wanted[name] != old.get(name)
                    for w in (name, wanted[name])
                ]:
                    changes.append(Call(("HSET", key, *flat), int, key=key))
            if not changes:
                return
            await together(changes)

    async def _replace_entry(self, before: Registered, after: Registered) -> Registered:
        # If the call was sent twice, the second fails although the first succeeded: read the entry.
        if (
            not await amend(before, after, self.prefix)
            and await find(self.name, self.prefix) != after
        ):
            raise Refused(f"the shards of queue {self.name} were changed by someone else just now")
        return after

    async def _reject_stale_producers(self) -> None:
        """Make every shard refuse producers that don't know of the change."""
        fence = self._script("reject_stale_layout")
        await together(
            fence.call(
                part.keys,
                self.clock,
                int,
                layout=self.layout,
                retired=int(part.shard >= self.shards),
            )
            for part in self._all_shards()
        )

    @abstractmethod
    async def _rebalance_step(self) -> int:
        """Move entries to their new homes; returns how many can't move yet."""

    async def _clear_given_up(self, parts: Sequence[ShardT]) -> None:
        """Delete the rest of shards that are given up, and add their counters to the first shard's.

        A crash between the two steps loses these counts, and nothing else.
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
        """Add the per-minute counters of these shards to the first shard's.

        A crash loses some hours of them rather than counting them twice. A key of another type
        stays as it is.
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
            there = [
                (*place, counted)
                for place, counted in zip(places, found, strict=True)
                if isinstance(counted, dict) and counted
            ]
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
        """Add what the audit log of these shards counted to the first shard's."""
        if not given_up:
            return
        listed, step = 0, max(1, MAX_BATCH // len(given_up))
        while page := await scored(self.keys["ops"], str(listed), str(listed + step - 1)):
            listed += len(page)
            places = [(op, keys["op_"] + op) for op, _ in page for keys in given_up]
            rows = await together(
                Call(("HMGET", key, *_COUNTED), integers, key=key) for _, key in places
            )
            there = [
                (op, key, row) for (op, key), row in zip(places, rows, strict=True) if any(row)
            ]
            await together(Call(("UNLINK", key), int, key=key) for _, key, _ in there)
            first = self.keys["op_"]
            await together(
                Call(("HINCRBY", first + op, name, n), int, key=first + op)
                for op, _, row in there
                for name, n in zip(_COUNTED, row, strict=True)
                if n
            )

    # --- what operators change -----------------------------------------------------------------

    async def _move(self, step: MoveStep) -> list[str]:
        def of(part: ShardT, some: Sequence[int]) -> Description[list[str]]:
            return part._move(replace(step, ids=[step.ids[i] for i in some]))

        return await self._step_in_shards(step.ids, of)

    async def _edit(self, edit: EditStep) -> list[str]:
        def of(part: ShardT, some: Sequence[int]) -> Description[list[str]]:
            return part._edit(replace(edit, rows=[edit.rows[i] for i in some]))

        return await self._step_in_shards([row[0] for row in edit.rows], of)

    async def _step_in_shards(
        self, ids: Sequence[str], ask: Callable[[ShardT, Sequence[int]], Description[list[str]]]
    ) -> list[str]:
        """Run a step in every shard that may have some of the ids (given by their index).

        A shard accepts one list for a step's number: with other ids it would repeat its first
        reply. So the number of shards is read before, and an entry that moves to another shard
        meanwhile is `changed`, as if somebody had touched it.
        """
        await self._refresh()
        places = await self._shards_of(ids)
        # The first shard has the audit log, so it gets every step. A step without ids goes to all:
        # it ends the operation, since no shard accepts another one with its number.
        asked: dict[int, list[int]] = {k: [] for k in range(1 if ids else len(self._all_shards()))}
        for i, id in enumerate(ids):
            for k in places[id]:
                asked.setdefault(k, []).append(i)
        replies = await together(ask(self._shard(k), some) for k, some in asked.items())
        best = [len(_WORDS)] * len(ids)
        for found, (k, some) in zip(replies, asked.items(), strict=True):
            if len(found) != len(some):
                raise Superseded(f"shard {k}: that step was carried out with other entries")
            for i, word in zip(some, found, strict=True):
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
        """As for one shard, in all at once: each moves its first ones, an equal share of ``n``.

        Shards that a resize adds meanwhile wait for the next step: ``n`` is shared out by then.
        """
        parts = self._all_shards()
        share = -(-n // len(parts))
        found, _ = await together(
            together(
                part.move_range.op(
                    op,
                    step,
                    share,
                    source=source,
                    target=target,
                    high_water_ms=high_water_ms,
                    left=left[k : k + 1] or (0,),
                    last=last,
                )
                for k, part in enumerate(parts)
            ),
            self._refresh(),
        )
        moved = sum(front.moved for front in found)
        behind = tuple(front.left[0] for front in found)
        done = sum(front.done for front in found)
        over = all(front.over for front in found) and len(self._all_shards()) <= len(parts)
        return MovedRange(moved, behind, over, done)

    async def _undo(self, undo: UndoStep) -> tuple[int, int]:
        found = await self._on_each_shard(lambda part: part._undo(undo))
        return sum(back for back, _ in found), sum(touched for _, touched in found)

    async def _configure(
        self, op: str, seq: int, changes: dict[str, str], since: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Change the first shard first: new shards copy its settings.

        A name whose value there is neither the one in ``since`` nor the new one stays unchanged in
        the others, too.
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
        # Shards that were given up: their marks would refuse a later queue of this name, and it
        # would get the entries that an interrupted resize left there.
        once = [self._shard(k) for k in range(len(self._all_shards()), MAX_SHARDS)]
        return sum(await together(self._forget(part, max) for part in once))

    def _forget(self, part: ShardT, max: int) -> Description[int]:
        """Delete what is left in a shard that was given up."""
        return part.destroy_step.op(max)


def _minutes(reply: dict[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(n) for name, n in reply.items()}
