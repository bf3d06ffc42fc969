"""Why a queue does not move, a request does not finish, an entry does not run, or where it went.

Reasons are listed in the order in which they have to be dealt with: the first one is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.redis.operation import apart, together

from ..deployment import Address, Deployment
from ..inspect.history import history_of
from ..redaction import NO_REDACTION, Redaction
from ..terminal import count, quantity
from .entry_reasons import EntryReasons
from .observation import observe
from .queue_reasons import QueueReasons
from .reason import Explanation, Reason, Subject
from .reason_parts import FormatTime, utc
from .request_reasons import RequestReasons


async def explain_text(
    deployment: Deployment, text: str, when: FormatTime = utc, redaction: Redaction = NO_REDACTION
) -> Explanation:
    """Explain an address of the command line.

    A bare id that does not exist is searched for in the histories of all queues; `NotFound` says
    how many events were searched.
    """
    try:
        at = await deployment.resolve(text)
    except NotFound:
        at = await _find_in_histories(deployment, text)
    return await explain(at.queue, at.id, when, redaction)


async def _find_in_histories(deployment: Deployment, text: str) -> Address:
    queues = await deployment.queues()
    read = await together(apart(history_of(queue, text)) for queue in queues)
    histories = [history for history in read if not isinstance(history, Exception)]
    for queue, history in zip(queues, read, strict=True):
        if not isinstance(history, Exception) and history.events:
            return Address(queue, text)
    searched, total = sum(h.searched for h in histories), sum(h.total for h in histories)
    unread = len(read) - len(histories)
    but = f"; the history of {quantity(unread, 'queue')} can't be read" if unread else ""
    near = await deployment.similar(text.partition("/")[0])
    raise NotFound(
        f"no queue, request or entry is named {text!r}, and the latest {count(searched)} of "
        f"{count(total)} history events do not mention it{but}{near}"
    )


async def explain(
    queue: Queue[Any],
    id: str | None = None,
    when: FormatTime = utc,
    redaction: Redaction = NO_REDACTION,
) -> Explanation:
    """Explain a queue, or the request or entry ``id`` in it; reads only."""
    return _Explainer(await observe(queue, id), when, redaction).explanation()


class _Explainer(EntryReasons, RequestReasons, QueueReasons):
    """Puts the reasons for a queue, a request or an entry in order."""

    def explanation(self) -> Explanation:
        observed = self.observed
        what: Subject
        if observed.id is None:
            what, state = "queue", self._queue_state()
            reasons = [
                *self._unread(),
                *self._queue_reasons(),
                *self._unfinished_moves(),
                *self._open_resize(),
                *self._only_shown(),
            ]
        elif observed.request is not None:
            what, state, reasons = "request", observed.request.state, list(self._request_reasons())
        elif observed.entry is not None:
            what, state = "entry", observed.entry.state
            reasons = [*self._entry_reasons(observed.entry), *self._unread(), *self._only_shown()]
        elif observed.periodic:
            (one,) = observed.periodic
            what, state = "periodic", self._periodic_state(one)
            reasons = list(self._periodic_entry(one))
        else:
            is_request = isinstance(self.queue, HasRequests) and "/" not in observed.id
            what, state = "request" if is_request else "entry", None
            reasons = [self._gone(what)]
        return Explanation(
            self.address,
            self.queue.name,
            self.queue.kind,
            observed.id,
            what,
            state,
            self.now,
            reasons[0],
            tuple(_each_command_once(reasons))[1:],
        )


def _each_command_once(reasons: Sequence[Reason]) -> Iterator[Reason]:
    """Leave out a command that an earlier reason has (one resume ends a pause and a drain)."""
    known: set[str | None] = {None}
    for reason in reasons:
        yield replace(reason, verb=None, command=None) if reason.command in known else reason
        known.add(reason.command)
