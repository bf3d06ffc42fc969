"""Before an undo: what it could still take back."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.foreign import ForeignQueue
from redisq_ops.core.queue import Queue
from redisq_ops.core.states import EDIT
from redisq_ops.core.values import STATES

from .hint import hint
from .journal import Operation
from .language import parse
from .selection import Filter, Scan

FEW = 10_000
"""entries of the state that are looked through for an answer"""


async def untouched(queue: Queue[Any], operation: Operation) -> tuple[int | None, str]:
    """How many of an operation's entries nobody touched since, where the state they went to is
    small; None: not looked. And the command that lists them, empty where none can. Reads only."""
    state = operation.source if operation.target == EDIT else operation.target
    # An entry's line has its latest operation's name: of a part that is the part's own; what a move
    # brought elsewhere is told by its other queue.
    if operation.parts or operation.into or isinstance(queue, ForeignQueue):
        return None, ""
    if state not in STATES:
        return None, _listing(queue, f"op={operation.id}")
    listing = _listing(queue, f"state:{state} op={operation.id}")
    now = await queue.now.op()
    number = (await queue.counts.op(now)).of(state)
    if number is None or number > FEW:
        return None, listing
    filter = Filter(where=parse(f"op={operation.id}"))
    scan = Scan(queue, state, filter, now)
    while not scan.over:
        await scan.step()
    return scan.found, listing


def _listing(queue: Queue[Any], where: str) -> str:
    return hint("select", queue.name, where=where)
