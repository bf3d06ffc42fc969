"""What an undo would restore, shown before it begins."""

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
from .allowed import ensure_changeable
from .audit_log import Operation
from .confirmation import typed_number
from .preview import Preview
from .transfer_plan import Route
from .transfer_undo import MoveUndoSteps, stays
from .undo import UndoSteps
from .wording import state_entries

MOST_DRY = 10_000
"""entries of a state that `undo --dry-run` reads at most to count those it would restore"""
MOST_ASKED = 500
"""entries of a state that are read at most while a person waits for the question to confirm"""


async def undo_preview(
    change: UndoSteps, now_ms: int, *, most: int = 0, listed: bool = False
) -> Preview:
    """What an undo will do.

    ``most``: the entries that are read at most to count those it can restore; 0 counts none.
    ``listed``: name the command that lists them too.
    """
    await ensure_changeable(change.queue)
    operation, n = change.operation, change.outcome.matched
    ago = age(now_ms - operation.started_ms)
    about = operation.what if operation.moved_back else operation.about
    if operation.moved_back:
        about = f"{state_entries(n, cast('State', operation.source))} (filter: {about})"
    lines = [about] if about else []
    lines.append(stays(operation, change))
    lines += [f"reason: {operation.why}"] if operation.why else []
    facts: dict[str, Any] = {
        "verb": "undo",
        "op": operation.id,
        "queue": change.queue.name,
        "matched": n,
    }
    if most and operation.moved_back:
        still, how = await untouched(change, most)
        if listed:
            facts |= {"untouched": still, "list": how}
        known = "" if still is None else f"{count(still)} of them are unchanged"
        if still == 0:
            lines.append(f"nothing is left to undo: {count(n)} of {count(n)} changed since")
        elif listed or still != n:
            shown = listed and how
            lines.append(f"{known or 'those that are unchanged'}: {how}" if shown else known)
    return Preview(
        f"undo {operation.id}: {operation.verb} in queue {change.queue.name} by {operation.by} "
        f"{ago} ago",
        tuple(filter(None, lines)),
        typed_number(n),
        facts,
    )


async def untouched(change: UndoSteps, most: int = MOST_DRY) -> tuple[int | None, str]:
    """How many of an operation's entries nobody changed since, and the command that lists them.

    The number is None if the state they went to has more than ``most`` entries or can't tell; the
    command is empty if none lists them. Reads only.
    """
    queue, operation = change.queue, change.operation
    if isinstance(change, MoveUndoSteps):
        return await _still_moved(change.route, operation, most)
    state = operation.source if operation.target == EDIT else operation.target
    # An entry stores only its latest operation: after an operation in parts, the part.
    if operation.parts or not queue.marks_operations:
        return None, ""
    if state not in STATES:
        return None, _listing(queue, f"op={operation.id}")
    ids = await _touched_ids(queue, state, operation.id, most)
    listing = _listing(queue, f"state:{state} op={operation.id}")
    return None if ids is None else len(ids), listing


async def _still_moved(route: Route, operation: Operation, most: int) -> tuple[int | None, str]:
    """As `untouched`, for a move between queues.

    Entries still on their way, and those destroyed in the target, count: they would come back.
    """
    here, listing = set[str](), ""
    if (into := route.into) is not None:
        # An entry that was delayed and has become due meanwhile comes back as well.
        states = ("delayed", "waiting") if operation.source == "delayed" else (operation.source,)
        listing = _listing(into, f"state:{','.join(states)} op={operation.id}")
        for state in states:
            if (ids := await _touched_ids(into, cast("State", state), operation.id, most)) is None:
                return None, listing
            here |= ids
    if operation.done > most:
        return None, listing
    steps = range(1, operation.steps + 1)
    try:
        return sum([await _restorable(route, operation.id, step, here) for step in steps]), listing
    except Forbidden:  # the steps are read by a script, which a viewer may not run
        return None, listing


async def _restorable(route: Route, op: str, step: int, here: set[str]) -> int:
    """How many entries of a step would come back; ``here``: the ids unchanged in the target."""
    rows = await transfer.read_step(route.source, op, step, brief=True)
    marks = {} if route.into is None else await transfer.accepted_as(route.into, op, step)
    results = (marks.get(one.id, ("", "")) for one in rows if one.row)
    return sum(result != transfer.OK or place in here for result, place in results)


async def _touched_ids(queue: Queue[Any], state: State, op: str, most: int) -> set[str] | None:
    """The ids in a state that this operation changed last; None: the state is too large."""
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
