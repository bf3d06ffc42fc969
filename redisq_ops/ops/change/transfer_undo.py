"""The undo of a move between two queues: `MoveUndoSteps`.

The entries are fetched back one by one: those that are unchanged leave the target and return to
their old place in the source; the others stay in the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from redisq_ops.core.engine import transfer, transfer_recovery
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_transfer import Transfer
from redisq_ops.core.engine.registry import find
from redisq_ops.core.engine.transfer import OK, TransferEntry
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.record import REPLAYED
from redisq_ops.core.model.settings import DAY_MS
from redisq_ops.core.redis.operation import together

from ..deployment import Deployment
from ..terminal import count
from . import audit_log
from .audit_log import Operation
from .transfer_plan import Route, trash_ms
from .undo import UndoSteps


class MoveUndoSteps(UndoSteps):
    """Undo a move, as far as its entries are unchanged in the queue they went to.

    If that queue was destroyed since, what was done there is unknown: all entries come back.
    """

    across = True

    def __init__(self, route: Route, operation: Operation) -> None:
        super().__init__(route.source, operation)
        # Scripts tell it by its name from other undos, which leave no entry in another queue.
        self.outcome.op = audit_log.new_id("undo-move")
        self.route = route
        self._held_ms = 0
        if route.into is not None:
            self.recovers = (route.into, self.queue)

    async def prepare(self) -> None:
        await super().prepare()
        self._held_ms = await transfer_recovery.list_unfinished(self.queue, self.operation.id)

    async def end(self) -> dict[str, str | int] | None:
        fields, into, id = await super().end(), self.route.into, self.operation.id
        last = (await into.unfinished_transfers.op()).get(id) if into is not None else None
        if await transfer_recovery.finish(self.queue, id, at_ms=self._held_ms) and into is not None:
            await transfer_recovery.finish(into, id, at_ms=last)
        return fields

    async def _take_back(self, id: str, step: int) -> tuple[int, ...]:
        route, source, by = self.route, self.queue, self.op
        state, seq = cast("State", self.operation.source), self._taken + 1
        self._held_ms = await transfer_recovery.list_unfinished(source, id, step)
        move = Transfer(source, route.into, route.into_ms, id, state, route.keep_ms)
        took = await move.revert(step, by, seq)
        rows, results, out, back, stay = took.rows, took.results, took.out, took.back, took.stay
        touched = [
            one.id
            for one in rows
            if not one.back and one.id not in out and results.get(one.id) == OK
        ]
        left = [*touched, *sorted(stay)]
        marks = await transfer.accepted_as(route.target, id, step) if left and route.into else {}
        called = {one: marks[one][1] if one in marks else one for one in left}
        self._touched += called.values()
        kept = [one for one in rows if one.row and one.id not in back]
        may_come = await self._may_come([one for one in kept if one.id in touched], called)
        self.rest += len(may_come)
        if may_come:
            over = [one for one in kept if one.id not in may_come]
            await transfer.drop_undo_entries(source, id, step, over)
        else:
            await transfer.drop_undo_list(source, id, step)
        return len(back), len(left)

    async def _may_come(self, stay: Sequence[TransferEntry], called: Mapping[str, str]) -> set[str]:
        """The ids of entries that stay only because an operator changed them in the target: another
        undo can fetch them once that change is undone. A worker's entry stays for good, even if the
        target is destroyed later."""
        found: list[Entry | None] = await together(
            self.route.target.get.op(called[one.id]) for one in stay
        )
        return {
            one.id
            for one, entry in zip(stay, found, strict=True)
            if entry is not None and _an_operators(entry, one)
        }


def _an_operators(entry: Entry, moved: TransferEntry) -> bool:
    """Whether an operator changed an entry since it was moved, and no worker got it."""
    _, failures, _, began, *_ = moved.row[2].split(b" ")
    if entry.state == "trash" and entry.op is None:
        # An entry that was cancelled with its request has no operation of its own.
        return entry.failures <= int(failures)
    first = entry.first_ms or (REPLAYED if entry.handed else 0)
    # An entry that was replayed in the target died there, unless it came as a dead letter.
    had = first != int(began) and not (first == REPLAYED and moved.row[0] == b"dead")
    return entry.op is not None and entry.state != "pending" and not had


async def undo_of(deployment: Deployment, queue: Queue[Any], operation: Operation) -> UndoSteps:
    """The steps that undo an operation, a move between two queues or any other."""
    if not operation.into:
        return UndoSteps(queue, operation)
    into = await deployment.named(operation.into)
    entry = await find(operation.into, deployment.prefix)
    if into is not None and (
        entry is None or entry.created_ms != operation.into_ms or into.kind != queue.kind
    ):
        into = None  # another queue of that name
    keep = await trash_ms(queue) + DAY_MS
    return MoveUndoSteps(Route(queue, into, operation.into_ms, keep), operation)


def stays(operation: Operation, change: UndoSteps) -> str:
    """What an undo does not bring back, in words. If the target was destroyed since: what it brings
    back although nobody knows what was done with it there."""
    if not isinstance(change, MoveUndoSteps):
        if operation.moved_back:
            return "entries that changed since then stay as they are"
        return "what was changed again since then stays as it is"
    if change.route.into is None:
        gone, n = f"queue {operation.into} was removed since", change.outcome.matched
        if operation.rest:
            left = count(min(n, operation.rest))
            return f"{gone}: what was done there since the last undo isn't known, {left} come back"
        return f"{gone}: what was done there isn't known, all {count(n)} come back"
    return f"from {operation.into}: those that somebody took or changed there stay there"
