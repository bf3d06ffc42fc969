"""Undo: operations of the audit log are reversed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from redisq_ops.core.engine.operator_changes import ARRIVALS
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import Refused, Superseded, Unreadable
from redisq_ops.core.model.states import EDIT
from redisq_ops.core.redis.operation import together

from . import audit_log
from .audit_log import Operation
from .outcome import OTHERS
from .steps import ChangeSteps

NAMED = 5
"""ids of entries left alone that are shown; `UndoSteps.report` gets all"""


class UndoSteps(ChangeSteps):
    """Reverse an operation, step by step, newest first.

    Entries that changed since stay (``changed``); entries whose record expired can't be restored
    (``expired``); entries too far inside another program's list stay for now (``deep``), and the
    operation can be undone again. The outcome counts the whole operation, with the entries that
    other undos restored earlier or at the same time (`OTHERS`).

    ``report`` gets the id of each entry that stays because it changed; ``sample`` has the first.
    ``unnamed`` counts entries with unknown ids: expired ones, and those that a layout only counts.
    """

    across = False
    """whether it undoes a move between two queues"""

    report: Callable[[str, str], None] | None = None
    rest = 0
    """for `Operation.rest`"""

    def __init__(self, queue: Queue[Any], operation: Operation) -> None:
        if not operation.undoable or bool(operation.into) != self.across:
            raise Refused(f"{operation.id} can't be undone: {why_not(operation)}")
        inverses = operation.inverse.split("\n") if operation.inverse else []
        about = sum(queue.undo_change_size(*_read(each)) for each in inverses)
        super().__init__(queue, "undo", about or operation.done - operation.undone, operation.id)
        self.recovers, self.subject = (queue,), operation.id
        self.operation = operation
        self._tried_before = bool(operation.undoing)
        """whether an undo that began earlier may have met entries that it left alone"""
        self._inverses = inverses
        """what is still to be undone of a change of anything but entries, newest last"""
        self._left: list[tuple[str, int]] = []
        """names under which its steps are numbered, and how many steps are still to be undone"""
        self._taken = 0
        one = not self.across and len(queue.shard_keys) == 1 and not operation.parts
        self._gathers = one and operation.target != EDIT and bool(queue.range_states)
        """whether a call takes back as many steps as it has room for"""
        self.sample: list[str] = []
        self._named = 0
        self._touched: list[str] = []

    @property
    def unnamed(self) -> int:
        """How many entries stayed whose ids are unknown."""
        known = ("changed", "deep", "expired")
        return max(0, sum(self.outcome.skipped.get(word, 0) for word in known) - self._named)

    async def begun(self) -> None:
        if not self.operation.inverse:
            await self._close()

    async def step(self, size: int) -> int | None:
        if self._inverses:
            # The note goes first: the step may count itself in the same field.
            _, handled = await together(
                audit_log.note(self.queue, self.op, **self._far), self._invert()
            )
            return handled
        while self._left and not self._left[-1][1]:
            self._left.pop()
        if not self._left:
            return None
        id, step = self._left[-1]
        back, touched, *more = await self._take_back(id, step)
        left, deep = (more[0], 0) if self._gathers else (step - 1, sum(more))
        self._name()
        self._left[-1] = id, left
        self._taken += 1
        return self.outcome.count({"moved": back, "changed": touched, "deep": deep})

    async def end(self) -> dict[str, str | int] | None:
        if self.operation.inverse:
            await audit_log.note(self.queue, self.operation.id, undone=1)
        else:
            await self._account()
        return self._far

    @property
    def _far(self) -> dict[str, str | int]:
        """How far it came, for its own entry in the audit log."""
        # A step that moves entries counts itself, in its own shard; what an import put in is moved
        # to the trash.
        inverse = self.operation.inverse
        counted = not inverse or inverse.partition(" ")[0] in ARRIVALS
        more = {} if counted else {"done": self.outcome.done}
        return {"matched": self.outcome.matched, **more}

    async def _account(self) -> None:
        """Count why entries were not restored: by other undos, because they changed or expired."""
        operation, outcome = self.operation, self.outcome
        changed, deep = (outcome.skipped.get(word, 0) for word in ("changed", "deep"))
        if not deep:  # a later undo may restore those
            await audit_log.note(self.queue, operation.id, tried=1, rest=self.rest)
        now = await audit_log.read(self.queue, operation.id) or operation
        outcome.matched = max(operation.done, outcome.done)
        others = max(0, now.undone - outcome.done)
        gone = max(0, outcome.matched - outcome.done - changed - deep)
        outcome.skip(OTHERS, min(gone, others))
        # Entries that other undos left alone have no inverse any more, and count as changed.
        left = others or operation.rest or self._tried_before
        outcome.skip("changed" if left else "expired", max(0, gone - others))

    async def _invert(self) -> int:
        """Undo one step of a change of anything but entries. Returns how many objects it had."""
        verb, args = _read(self._inverses[-1])
        try:
            back = await self.queue.undo_change.op(
                self.op, self._taken + 1, verb, args, left=self._touched.extend
            )
        except Unreadable:
            raise
        except ValueError as corrupt:
            what = f"what undoes {self.operation.id} is corrupt in the audit log"
            raise Unreadable(f"{what}: {len(self._inverses)} of its changes stay") from corrupt
        self._inverses.pop()
        self._taken += 1
        touched = self._name()
        same = self.queue.undo_change_size(verb, args) - back - touched
        return self.outcome.count({"moved": back, "changed": touched, "same": same})

    async def _take_back(self, id: str, step: int) -> tuple[int, ...]:
        """Undo one step as `Queue.undo` does, or gather steps as `Queue.undo_steps` does."""
        undo: Any = self.queue.undo_steps if self._gathers else self.queue.undo
        counts: tuple[int, ...] = await undo.op(
            id,
            step,
            target=self.operation.target,
            by=self.op,
            seq=self._taken + 1,
            left=self._touched.extend,
        )
        return counts

    def _name(self) -> int:
        """Report the entries that a step left alone, each once: a call that is sent again names
        them again. Returns their number."""
        ids = list(dict.fromkeys(self._touched))
        self._touched.clear()
        self._named += len(ids)
        self.sample += ids[: NAMED - len(self.sample)]
        if self.report is not None:
            for id in ids:
                self.report(id, "changed")
        return len(ids)

    async def _close(self) -> None:
        """Take the number of the operation's next step for an empty step. A run that still carries
        out the operation is then refused, so it moves nothing that this undo would miss."""
        queue, id = self.queue, self.operation.id
        await audit_log.note(queue, id, undoing=1, tried=0)
        if self.operation.parts:
            # Also of an ended one: a copy of a Spark task that was given up may still send a step.
            self._left = [
                await self._end_part(audit_log.part(id, k)) for k in range(self.operation.parts)
            ]
            now = await audit_log.read(queue, id)
        else:
            while (now := await audit_log.read(queue, id)) is not None and not now.ended:
                end = now.span[1]
                if await self._takes(id, now.steps + 1, f"{end}-{end}"):
                    break
        if now is not None:
            # Steps may have been carried out since it was read.
            self.outcome.matched += now.done - self.operation.done
            self.operation = now
        if not self.operation.parts:
            self._left = [(id, self.operation.steps)]

    async def _end_part(self, id: str) -> tuple[str, int]:
        while True:
            steps, _, _ = await audit_log.reached(self.queue, id)
            if await self._takes(id, steps + 1):
                return id, steps

    async def _takes(self, id: str, step: int, span: str = "") -> bool:
        """Send an empty step; whether it got this number, which no other step had."""
        operation = self.operation
        with suppress(Superseded):
            results = await self.queue.move.op(
                id,
                step,
                [],
                source=cast("State", operation.source),
                target=operation.target,
                high_water_ms=0,
                span=span,
            )
            return not results
        return False

    async def reached(self) -> int:
        return max(self.outcome.done, await super().reached())


def _read(inverse: str) -> tuple[str, list[str]]:
    verb, *args = inverse.split(" ")
    return verb, args


def why_not(operation: Operation) -> str:
    if operation.origin:
        return f"it is an operation of queue {operation.origin}"
    if operation.target == "gone":
        return "its entries were removed for good"
    if operation.undone or operation.tried:
        return "it was undone already, as far as its entries were untouched"
    if operation.verb == "undo":
        return "an undo can't be undone: repeat the change instead"
    if operation.done:
        return f"{operation.verb} can't be undone"
    return "it changed nothing"
