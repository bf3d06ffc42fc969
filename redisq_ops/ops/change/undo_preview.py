"""Before an undo: what it could still restore."""

from __future__ import annotations

from typing import Any, cast

from redisq_ops.core.engine import transfer
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import STATES, State
from redisq_ops.core.model.errors import Forbidden
from redisq_ops.core.model.states import EDIT

from ..filter.filter import Filter
from ..filter.parser import parse
from ..filter.scan import Scan
from ..hint import hint
from ..terminal import age, count
from .audit_log import Operation
from .confirmation import typed_number
from .preview import Preview
from .transfer_plan import Route
from .transfer_undo import MoveUndoSteps, stays
from .undo import UndoSteps
from .wording import entries

FEW = 10_000
"""entries of the state that are looked through for an answer to `undo --dry-run`"""
FEWER = 500
"""the same where somebody is asked meanwhile"""


async def undo_preview(
    change: UndoSteps, now_ms: int, *, most: int = 0, listed: bool = False
) -> Preview:
    """What an undo will do. How many entries it can restore is counted among ``most`` at most;
    with ``listed`` there is also the command that lists them."""
    operation, n = change.operation, change.outcome.matched
    ago = age(now_ms - operation.started_ms)
    about = operation.what if operation.moved_back else operation.about
    if operation.moved_back:
        about = f"{entries(n, cast('State', operation.source))} (filter: {about})"
    lines = [about] if about else []
    lines.append(stays(operation, change))
    lines += [f"reason: {operation.why}"] if operation.why else []
    facts: dict[str, Any] = {
        "verb": "undo", "op": operation.id, "queue": change.queue.name, "matched": n,
    }  # fmt: skip
    if most and operation.moved_back:
        still, how = await untouched(change, most)
        facts |= {"untouched": still, "list": how} if listed else {}
        how = how if listed else ""
        known = "" if still is None else f"{count(still)} of them are unchanged"
        if still == 0:
            lines.append(f"nothing is left to undo: {count(n)} of {count(n)} changed since")
        elif listed or still != n:
            lines.append(f"{known or 'those that are unchanged'}: {how}" if how else known)
    return Preview(
        f"undo {operation.id}: {operation.verb} in queue {change.queue.name} by {operation.by} "
        f"{ago} ago",
        tuple(filter(None, lines)), typed_number(n), facts,
    )  # fmt: skip


async def untouched(change: UndoSteps, most: int = FEW) -> tuple[int | None, str]:
    """How many of an operation's entries nobody touched since, where the state they went to is
    small; None: not looked. And the command that lists them, empty where none can. Reads only."""
    queue, operation = change.queue, change.operation
    if isinstance(change, MoveUndoSteps):
        return await _across(change.route, operation, most)
    state = operation.source if operation.target == EDIT else operation.target
    # An entry's line has its latest operation's name: of a part that is the part's own.
    if operation.parts or not queue.marks_operations:
        return None, ""
    if state not in STATES:
        return None, _listing(queue, f"op={operation.id}")
    ids = await _of(queue, state, operation.id, most)
    listing = _listing(queue, f"state:{state} op={operation.id}")
    return None if ids is None else len(ids), listing


async def _across(route: Route, operation: Operation, most: int) -> tuple[int | None, str]:
    """Of a move: how many entries would come back, those on their way or destroyed in the target
    too."""
    here, listing = set[str](), ""
    if (into := route.into) is not None:
        # What was delayed and has become due meanwhile comes back as well.
        states = ("delayed", "waiting") if operation.source == "delayed" else (operation.source,)
        listing = _listing(into, f"state:{','.join(states)} op={operation.id}")
        for state in states:
            if (ids := await _of(into, cast("State", state), operation.id, most)) is None:
                return None, listing
            here |= ids
    if operation.done > most:
        return None, listing
    steps = range(1, operation.steps + 1)
    try:
        return sum([await _coming(route, operation.id, step, here) for step in steps]), listing
    except Forbidden:  # what it took out is found by a script, and who only looks may run none
        return None, listing


async def _coming(route: Route, op: str, step: int, here: set[str]) -> int:
    rows = await transfer.read_step(route.source, op, step, brief=True)
    marks = {} if route.into is None else await transfer.accepted_as(route.into, op, step)
    results = (marks.get(one.id, ("", "")) for one in rows if one.row)
    return sum(result != transfer.OK or place in here for result, place in results)


async def _of(queue: Queue[Any], state: State, op: str, most: int) -> set[str] | None:
    """The ids in a state that this operation touched last; None: there are too many to look."""
    now = await queue.now.op()
    number = (await queue.counts.op(now)).of(state)
    if number is None or number > most:
        return None
    scan, ids = Scan(queue, state, Filter(where=parse(f"op={op}")), now), set[str]()
    while not scan.over:
        ids |= {entry.id for entry in await scan.step()}
    return ids


def _listing(queue: Queue[Any], where: str) -> str:
    return hint("select", queue.name, where=where)
