"""What operators change in a queue, and how each change is taken back.

Every change is one step of an operation: ``op`` is the operation's id in the audit log, ``step``
(or ``seq``) the number of the step. The same step sent again changes nothing and gets the same
answer.
Each raises `BadInput` for a bad id, `Forbidden`, `Unreachable`, and `Refused` where the kind of
queue doesn't support the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from ..model.entry import Entry, MovedRange, State
from ..model.errors import Refused, Superseded
from ..model.keys import checked_consumer, checked_name
from ..model.open_resize import OpenResize
from ..model.rate_limit import RateLimit
from ..model.settings import LEASE_MS
from ..model.states import EDIT, FIXED
from ..redis.operation import C_co, Call, Description, operation, together
from ..redis.parsers import scored, words
from .acknowledgement import ACKNOWLEDGE, replace_acknowledgement
from .parallel_reads import ParallelReads

T = TypeVar("T")

ARRIVALS = ("accepted", "imported", "importing")
"""inverses of operations that added an entry; ``importing``: it may not have been added"""


@dataclass(frozen=True, slots=True)
class MoveStep:
    """The arguments of `OperatorChanges.move`, checked."""

    op: str
    step: int
    ids: Sequence[str]
    source: State
    target: str
    high_water_ms: int
    consumer: str
    lease_ms: int
    times: Mapping[str, int]
    orphans: Collection[str]
    span: str
    stamps: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class EditStep:
    """The arguments of `OperatorChanges.edit`, checked."""

    op: str
    step: int
    rows: Sequence[tuple[str, bytes, bytes]]
    source: State
    high_water_ms: int


@dataclass(frozen=True, slots=True)
class UndoStep:
    """The arguments of `OperatorChanges.undo`."""

    op: str
    step: int
    target: str
    by: str
    seq: int
    left: Callable[[list[str]], None]


@dataclass(frozen=True, slots=True)
class ChangeUndo:
    """The arguments of `OperatorChanges.undo_change`."""

    op: str
    seq: int
    verb: str
    args: Sequence[str]
    left: Callable[[list[str]], None]


class OperatorChanges(ParallelReads[C_co]):
    """Changes that operators make, in bounded steps; `redisq` and `redisq-top` run these."""

    @operation
    async def only_shown(self) -> str | None:
        """Why redisq refuses every change of the queue: it doesn't know the release of the queue's
        program. None: it refuses none for that reason."""
        return None

    @operation
    async def check_owners_rights(self) -> None:
        """Raise `Forbidden` unless the user can change the settings of the queue's owner."""

    @operation
    async def would_move(
        self,
        ids: Sequence[str],
        source: State,
        target: str,
        orphans: Collection[str] = (),
        stamps: Mapping[str, bytes] | None = None,
    ) -> list[str]:
        """For each entry the word that `move` would return, as far as that is known without
        writing; empty: `move` would move it. ``orphans``, ``stamps``: as for `move`."""
        return [""] * len(ids)

    def selected_stamp(self, entry: Entry, target: str, high_water_ms: int) -> bytes:
        """What `move` needs to know of an entry that was selected, beside its id, so that it needs
        no second look at the entry's record; empty: it looks again."""
        return b""

    @operation
    def move(
        self,
        op: str,
        step: int,
        ids: Sequence[str],
        *,
        source: State,
        target: str,
        high_water_ms: int,
        consumer: str = "-",
        lease_ms: int = LEASE_MS,
        times: Mapping[str, int] | None = None,
        orphans: Collection[str] = (),
        span: str = "",
        stamps: Mapping[str, bytes] | None = None,
    ) -> Description[list[str]]:
        """Move entries, at most 500, from state ``source`` to ``target``: one step.

        Returns one word per id, in their order: ``moved``; ``changed``: it is in another state or
        another entry by now; ``late``: it entered the state after ``high_water_ms``; ``away``: the
        queue doesn't have it; ``theirs``: the same step moved it when another run sent it.

        ``consumer``, ``lease_ms``: who holds the entries afterwards, for target ``pending``.
        ``times``: id -> ready time, or creation time of the request, for entries without a record:
        an entry with another time is ``changed``. ``orphans``: the ids that were orphans
        (`Entry.orphan`) when they were chosen; an entry that became one or stopped being one since
        is ``changed``.
        ``span``: the plan's entries that this step is about (FROM-TO or FROM-TO-RUN), noted in the
        audit log. ``stamps``: id -> `selected_stamp`: an entry with another one is ``changed``.
        """
        checked_name(op, "operation")
        checked_consumer(consumer)
        return self._move(
            MoveStep(
                op,
                step,
                ids,
                source,
                target,
                high_water_ms,
                consumer,
                lease_ms,
                times or {},
                orphans,
                span,
                stamps or {},
            )
        )

    def _move(self, step: MoveStep) -> Description[list[str]]:
        return self._call_script(
            "move",
            words,
            [(id, step.times.get(id, "-")) for id in step.ids],
            caller=step.op,
            seq=step.step,
            **{"from": step.source, "to": step.target},
            high_water=step.high_water_ms,
            consumer=step.consumer,
            lease_ms=step.lease_ms,
            span=step.span,
        )

    @operation
    def move_range(
        self,
        op: str,
        step: int,
        n: int,
        *,
        source: State,
        target: str,
        high_water_ms: int,
        left: Sequence[int] = (0,),
        last: bool = False,
    ) -> Description[MovedRange]:
        """Move the first ``n`` entries of a state, without a list of their ids: one step.

        ``source``: one of `range_states`. Entries that entered it after ``high_water_ms`` stay.
        ``left``: the `MovedRange.left` of the step before. ``last``: the last step of the
        operation, which writes the rest of the history. Raises `Superseded` when an undo took the
        place of the step.
        """
        checked_name(op, "operation")

        def read(reply: list[bytes]) -> MovedRange:
            if not reply:  # an undo took the step's place
                raise Superseded(f"{op} was taken back meanwhile")
            moved, stuck, done = map(int, reply)
            return MovedRange(moved, (left[0] + stuck,), not moved + stuck, done)

        return self._call_script(
            "move_range",
            read,
            caller=op,
            seq=step,
            **{"from": source, "to": target},
            high_water=high_water_ms,
            n=n,
            left=left[0],
            last=int(last),
        )

    @operation
    async def would_edit(
        self, rows: Sequence[tuple[str, bytes, bytes]], *, source: State
    ) -> list[str]:
        """For each row of `edit` why it would not be edited, in a word or a phrase, as far as that
        is known without writing; empty: it would be."""
        return [""] * len(rows)

    @operation
    def edit(
        self,
        op: str,
        step: int,
        rows: Sequence[tuple[str, bytes, bytes]],
        *,
        source: State,
        high_water_ms: int,
    ) -> Description[list[str]]:
        """Change payloads of entries in state ``source``, one of `editable_states`: one step.

        ``rows``: (id, the payload as it was read, the new payload). Returns one word per row as
        `move` does, or a phrase as `would_edit`; ``changed`` also stands for another payload.
        """
        checked_name(op, "operation")
        return self._edit(EditStep(op, step, rows, source, high_water_ms))

    def _edit(self, edit: EditStep) -> Description[list[str]]:
        return self._call_script(
            "edit",
            words,
            [(id, sha1(was).hexdigest(), payload) for id, was, payload in edit.rows],
            caller=edit.op,
            seq=edit.step,
            **{"from": edit.source},
            high_water=edit.high_water_ms,
        )

    @operation
    def undo(
        self,
        op: str,
        step: int,
        *,
        target: str,
        by: str,
        seq: int,
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> Description[tuple[int, ...]]:
        """Take step ``step`` of operation ``op`` back: (put back, changed since and left alone).

        A third number, if there is one: out of reach now, for a later undo. ``target``: the state
        to which the step moved its entries, or ``edit``. ``by``, ``seq``: the undo's own operation
        and step. ``left`` is called with the ids that were left alone, perhaps repeatedly.
        """
        return self._undo(UndoStep(op, step, target, by, seq, left))

    def _undo(self, undo: UndoStep) -> Description[tuple[int, ...]]:
        if undo.target == EDIT:
            return self._undo_edit(undo)
        return self._undo_moves(undo, lambda back, stay, _: (back, stay))

    def _undo_edit(self, undo: UndoStep) -> Call[tuple[int, ...]]:
        def counted(reply: list[Any]) -> tuple[int, ...]:
            undo.left([id.decode() for id in reply[2:]])
            return int(reply[0]), int(reply[1])

        return self._call_script(
            "undo_edit", counted, caller=undo.by, seq=undo.seq, op=undo.op, step=undo.step
        )

    @operation
    def undo_steps(
        self,
        op: str,
        steps: int,
        *,
        target: str,
        by: str,
        seq: int,
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> Call[tuple[int, int, int]]:
        """Take an operation of ``steps`` steps back as `undo` does, newest first: as many steps as
        one call has room for, where `move_range` made them. Of a queue with one shard.

        Returns the numbers of entries put back, of those left alone, and of the steps that are
        left.
        """
        undo = UndoStep(op, steps, target, by, seq, left)
        return self._undo_moves(undo, lambda back, stay, next: (back, stay, next), gather=1)

    def _undo_moves(
        self, undo: UndoStep, counted: Callable[[int, int, int], T], gather: int = 0
    ) -> Call[T]:
        def read(reply: list[Any]) -> T:
            undo.left([id.decode() for id in reply[3:]])
            return counted(*map(int, reply[:3]))

        return self._call_script(
            "undo",
            read,
            caller=undo.by,
            seq=undo.seq,
            op=undo.op,
            step=undo.step,
            to=undo.target,
            gather=gather,
        )

    def transferred_id(self, op: str, id: str) -> str:
        """The id that an entry (or its request) has here once operation ``op`` moved it here."""
        return id

    @operation
    async def check_creatable(self) -> None:
        """Raise where no queue of this kind can be created under the name. Writes nothing."""
        await self._refuse_wrong_types()

    @operation
    async def transfer_obstacle(self, other: OperatorChanges[Any]) -> str:
        """Why entries of ``other``, a queue of this kind, can't be moved here; empty: they can."""
        return ""

    @operation
    async def open_resize(self) -> OpenResize | None:
        """See `ShardedQueue.open_resize`."""
        return None

    @operation
    async def configure(self, op: str, seq: int, changes: dict[str, str]) -> dict[str, str]:
        """Set settings and flags; an empty value removes one. Returns the values before, or "".

        Raises `BadInput` for a ``rate`` that is none, `Refused` where the queue can't have one.
        """
        if "rate" in changes:
            changes = {**changes, "rate": self.stored_rate(changes["rate"])}
        await self._ensure_registered()
        return await self._configure(op, seq, changes)

    def stored_rate(self, text: str) -> str:
        """A rate such as ``10/s`` as it is stored, empty for ``off``; raises as `configure`."""
        rate = RateLimit.read(text)
        if rate and not self.has_rate:
            raise Refused(
                f"queue {self.name} can't have a rate: {self.owner}'s workers take from it"
            )
        return str(rate or "")

    async def _configure(
        self, op: str, seq: int, changes: dict[str, str], since: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """``since``: name -> value; a name that has another value by now is not changed."""
        was = since or {}
        rows = [
            (name, _kept(value), _kept(was[name]) if name in was else "*")
            for name, value in changes.items()
        ]
        before = await self._call_registered("configure", words, rows, caller=op, seq=seq)
        return {
            name: "" if word == "-" else unquote(word)
            for name, word in zip(changes, before, strict=True)
        }

    @operation
    async def destroy_step(self, max: int = 100) -> int:
        """Delete a bounded part of a queue that is being destroyed; 0 when nothing is left.

        Big keys are unlinked: the server frees them beside its main thread.
        """
        gone = await self._destroy_entries(max)
        if gone:
            return gone
        ops = await scored(self.keys["ops"], "0", str(max - 1))
        parts = [f"{self.keys['op_']}{op}" for op, _ in ops]
        if not parts:
            parts = [self.keys[part] for part in (*FIXED, *self.key_types)]
            now = await self._now()
            parts += [*self._rate_keys(now), *self._task_keys(now)]
        else:
            key = self.keys["ops"]
            await Call(("ZREM", key, *(op for op, _ in ops)), int, key=key)
        return await Call(("UNLINK", *parts), int, key=parts[0])

    async def _destroy_entries(self, max: int) -> int:
        return 0

    @operation
    def undo_change(
        self,
        op: str,
        seq: int,
        verb: str,
        args: Sequence[str],
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> Description[int]:
        """Take back a change that moved no entries; returns how many things were changed back.

        ``verb``, ``args``: the inverse that the audit log keeps. ``left`` is called with the things
        that were changed since, and stay. `undo_change_size` says how many things there are.
        """
        undo = ChangeUndo(op, seq, verb, args, left)
        return self._undo_acknowledgement(undo) if verb == ACKNOWLEDGE else self._undo_change(undo)

    async def _undo_acknowledgement(self, undo: ChangeUndo) -> int:
        """Take an acknowledgement of dead letters back, of any kind of queue."""
        before, after = map(unquote, undo.args)
        if await replace_acknowledgement(self.name, after, before, self.prefix):
            return 1
        undo.left([ACKNOWLEDGE])
        return 0

    async def _undo_change(self, undo: ChangeUndo) -> int:
        op, seq, left = undo.op, undo.seq, undo.left
        if undo.verb in ARRIVALS:
            return await self._put_away(undo)
        if undo.verb != "set":
            raise Refused(f"queue {self.name} can't take back {undo.verb!r}")
        name, *values = undo.args
        before, after = map(unquote, values)
        was = (await self._configure(op, seq, {name: before}, {name: after}))[name]
        if was == after:
            return 1
        if was != before:
            left([name])
        return 0

    async def _put_away(self, undo: ChangeUndo) -> int:
        """Move an entry that an operation brought to the trash, unless it was touched since."""
        by, id, digest = undo.args
        now, entry = await together(self.now.op(), self.get.op(id))
        if entry is not None and entry.state == "trash":
            return int(entry.op == undo.op)  # this very step, sent again
        # An id is free again once its entry is done: another entry may have it by now.
        ours = entry is not None and entry.digest == digest
        if undo.verb == "accepted":  # ``by`` is the time of the acceptance
            now = int(by)
        else:
            ours = ours and entry is not None and entry.op == by
        if ours and entry is not None and entry.state in ("waiting", "delayed", "dead"):
            moved = await self.move.op(
                undo.op, undo.seq, [id], source=entry.state, target="trash", high_water_ms=now
            )
            if "moved" in moved:
                return 1
        if undo.verb != "importing":
            undo.left([id])
        return 0

    def undo_change_size(self, verb: str, args: Sequence[str]) -> int:
        """How many things an `undo_change` with these arguments tries to put back."""
        return 1


def _kept(value: str) -> str:
    """A setting's value as it is stored; a single ``-`` stands for no value."""
    return "%2D" if value == "-" else quote(value, safe="")
