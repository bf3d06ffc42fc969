"""Trashed entries of cancelled requests: counted as trash, kept in one record, listed nowhere."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import Unreadable, WrongKind
from redisq_ops.core.redis.operation import attempt, together

from ..change.audit_log import last
from ..hint import hint
from ..terminal import count

OPERATIONS = 20
"""latest audit log entries searched for the cancel"""


async def cancelled_trash(queue: Queue[Any]) -> str:
    """A sentence: how many trashed entries belong to cancelled requests, and how to restore them.

    Empty if there are none, or if queues of this kind have no requests.
    """
    if not isinstance(queue, HasRequests):
        return ""
    found = await attempt(together(queue.counts.op(), queue.page.op("trash", None, 1)))
    if isinstance(found, (Unreadable, WrongKind)):
        return f"how many entries in the trash belong to cancelled requests is unknown: {found}"
    if isinstance(found, Exception):
        raise found
    counts, page = found
    if (n := (counts.trash or 0) - page.total) <= 0:
        return ""
    cancels = [o for o in await last(queue, OPERATIONS) if o.verb == "cancel" and o.undoable]
    if len(cancels) > 1:
        restore = f"{hint('undo', 'OP')}, OP one of " + ", ".join(o.id for o in cancels[:3])
    elif cancels:
        restore = hint("undo", cancels[0].id)
    else:
        restore = f"see {hint('log', queue=queue.name)}"
    more = "entry in the trash belongs" if n == 1 else "entries in the trash belong"
    return f"{count(n)} more {more} to cancelled requests; to restore: {restore}"
