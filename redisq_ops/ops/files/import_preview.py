"""Where the entries of a file go by an import, and what it will do, in words."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import queue_class
from redisq_ops.core.engine.queue_types import KINDS
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import Refused, WrongKind
from redisq_ops.core.model.keys import known_name
from redisq_ops.core.queues.request import RequestQueue

from ..change.confirmation import typed_number
from ..change.preview import Preview
from ..deployment import Deployment
from ..terminal import count, entries, kind_of, size
from .import_check import Content

UNDOABLE = 10_000
"""entries up to which an import can be undone; each is named in the audit log"""
_LOST = "the file doesn't end as an export does: it may be cut off"


async def receiver(deployment: Deployment, content: Content, name: str | None) -> Queue[Any]:
    """The queue that a file's entries go to; the first entry creates one that isn't there."""
    to = known_name(name or content.queue, "queue name")
    queue = await deployment.named(to)
    if content.kind not in KINDS:
        raise Refused(
            f"these are entries of {kind_of(content.kind)}: other programs' queues are exported "
            "only, for their owners to fill"
        )
    if queue is None:
        made = queue_class(content.kind)
        assert made is not None
        new = made(
            deployment.client,
            to,
            prefix=deployment.prefix,
            clock=deployment.clock,
            callers=deployment.callers,
        )
        await new.check_creatable.op()
        return new
    if not queue.accepts_imports:
        raise Refused(
            f"queue {to} is kept by another program ({queue.kind}): redisq can't add entries to it"
        )
    if queue.kind != content.kind:
        raise WrongKind(
            f"queue {to} is {kind_of(queue.kind)}, and these are entries of {kind_of(content.kind)}"
        )
    return queue


def import_preview(
    content: Content, queue: Queue[Any], *, new: bool, as_waiting: bool, whole: bool
) -> Preview:
    """What an import of one queue's part of a file will do. ``new``: it creates the queue;
    ``whole``: the file ends as an export does. `Refused` for entries this kind can't take in."""
    undo, n = undoable(content), content.entries
    facts = {
        "verb": "import",
        "queue": queue.name,
        "kind": queue.kind,
        "from_queue": content.queue,
        "matched": n,
        "states": content.states,
        "bytes": content.bytes,
        "undoable": undo,
    }
    title = f"import {entries(n)} into {queue.name}" + (" (new)" if new else "")
    return Preview(title, tuple(_lines(content, queue, as_waiting, whole)), typed_number(n), facts)


def _lines(content: Content, queue: Queue[Any], as_waiting: bool, whole: bool) -> list[str]:
    taken = accepted(queue)
    n = content.states
    will = [", ".join(f"{count(k)} {state}" for state, k in n.items()) + f", {size(content.bytes)}"]
    for state in ("dead", "trash"):
        if n.get(state) and state not in taken and not as_waiting:
            raise Refused(
                f"{count(n[state])} of them are {'in the trash' if state == 'trash' else state}, "
                f"and {kind_of(queue.kind)} can't take such entries in: with --as-waiting they "
                "wait for a worker"
            )
    become = [s for s in n if s != "waiting" and (as_waiting or s not in taken)]
    if become:
        those = " and ".join(f"{count(n[s])} {s}" for s in become)
        will.append(f"{those} wait for a worker here")
    if n.get("pending"):
        will.append("consumers may have the pending ones where they come from: twice is possible")
    if content.kind == RequestQueue.kind:
        parts = [
            rid for rid, places in content.requests.items() if len(places[0]) < content.totals[rid]
        ]
        n_requests = len(content.requests)
        as_requests = "1 request" if n_requests == 1 else f"{count(n_requests)} requests"
        will.append(f"as {as_requests}, sealed, attempts afresh")
        if doubles := sum(content.doubles.values()):
            lines = "1 line has" if doubles == 1 else f"{count(doubles)} lines have"
            will.append(f"{lines} a later one of the same entry, which counts")
        if parts:
            some = ", ".join(parts[:3]) + (", …" if len(parts) > 3 else "")
            will.append(f"{count(len(parts))} of them in part, numbered afresh: {some}")
    if content.entries > UNDOABLE:
        will.append(f"more than {count(UNDOABLE)}: there is no undo")
    if not whole:
        will.append(_LOST)
    return will


def accepted(queue: Queue[Any]) -> frozenset[State]:
    """States that imported entries keep in this queue."""
    if isinstance(queue, RequestQueue):
        return frozenset({"waiting"})
    return queue.importable_states


def undoable(content: Content) -> bool:
    """Whether an import of it can be undone."""
    return content.entries <= UNDOABLE
