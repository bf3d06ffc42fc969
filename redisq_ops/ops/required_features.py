"""A queue with a feature that only some kinds have; `WrongKind` says what it lacks."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.optional_features import (
    HasClients,
    HasConsumerGroups,
    HasDoneEntries,
    HasPeriodicEntries,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.core.queues.request import RequestQueue

from .terminal import kind_of


def requests_of(queue: Queue[Any]) -> RequestQueue[Any]:
    """The queue, if it has requests."""
    if isinstance(queue, RequestQueue):
        return queue
    raise _lacks(queue, "requests")


def with_clients(queue: Queue[Any]) -> HasClients[Any]:
    """The queue, if it has clients."""
    if isinstance(queue, HasClients):
        return queue
    raise _lacks(queue, "clients")


def with_consumer_groups(queue: Queue[Any]) -> HasConsumerGroups[Any]:
    """The queue, if independent groups of consumers read it."""
    if isinstance(queue, HasConsumerGroups):
        return queue
    raise _lacks(queue, "consumer groups")


def with_periodic(queue: Queue[Any]) -> HasPeriodicEntries[Any]:
    """The queue, if it can have periodic entries."""
    if isinstance(queue, HasPeriodicEntries):
        return queue
    if queue.no_schedules:
        raise WrongKind(f"queue {queue.name}: {queue.no_schedules}")
    raise _lacks(queue, "periodic entries")


def with_done(queue: Queue[Any]) -> HasDoneEntries[Any]:
    """The queue, if it lists done entries."""
    if isinstance(queue, HasDoneEntries):
        return queue
    raise WrongKind(f"queue {queue.name}: {done_unlisted(queue)}")


def done_unlisted(queue: Queue[Any]) -> str:
    """Why no done entry of a queue is listed."""
    if queue.keeps_results:
        return "of done entries only the results are kept (redisq results)"
    return f"done entries are not listed in a {queue.kind} queue"


def _lacks(queue: Queue[Any], what: str) -> WrongKind:
    return WrongKind(f"queue {queue.name} is {kind_of(queue.kind)}: it has no {what}")
