"""What cancelled requests took along: trash by the counters, but one record, and listed nowhere."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import Unreadable, WrongKind
from redisq_ops.core.redis.operation import attempt, both

from ..change.audit_log import last
from ..hint import hint
from ..terminal import count

LOOKED = 20
"""operations of the journal in which the cancel is looked for"""


async def taken_along(queue: Queue[Any]) -> str:
    """How many entries in the trash are a cancelled request's, and what brings them back, in words;
    empty: none, or a kind of queue that has no requests."""
    if not isinstance(queue, HasRequests):
        return ""
    found = await attempt(both(queue.counts.op(), queue.page.op("trash", None, 1)))
    if isinstance(found, (Unreadable, WrongKind)):
        return f"how many entries in the trash belong to cancelled requests is unknown: {found}"
    if isinstance(found, Exception):
        raise found
    counts, page = found
    if (n := (counts.trash or 0) - page.total) <= 0:
        return ""
    done = [one for one in await last(queue, LOOKED) if one.verb == "cancel" and one.undoable]
    how = (
        hint("undo", done[0].id) if len(done) == 1 else f"{hint('log', queue=queue.name)} has them"
    )
    if len(done) > 1:
        how = f"{hint('undo', 'OP')}, one of " + ", ".join(one.id for one in done[:3])
    more = "entry in the trash belongs" if n == 1 else "entries in the trash belong"
    return f"{count(n)} more {more} to cancelled requests: {how}"
