"""Finds the queues and requests that the words of a command name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import BadInput, NotFound, Unreachable
from redisq_ops.ops.queue_names import check_named, has_pattern, is_named

from .output import printable, say
from .session import Session

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.core.queues.request import RequestQueue
    from redisq_ops.ops.deployment import Address

SHOWN = 10
"""number of queues that the error lists when none is chosen"""


def queue_named(s: Session, name: str | None) -> str:
    """The name of the chosen queue: ``name``, else the configuration's, else `default`."""
    from redisq_ops.core.engine.registry import all_queues

    if name is not None:
        return name
    name, config = s.config["queue"] or "default", s.config.values["queue"]
    if config.origin == "default" and s.run(s.deployment.named(name)) is None:
        names = [entry.name for entry in s.run(all_queues(s.deployment.prefix))]
        listed = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
        say = f"say which: {listed}" if names else "there are no queues here at all"
        raise NotFound(f"no queue is named, and none is called {name!r}: {say}")
    return name


def every_queue(s: Session) -> tuple[list[Queue[Any]], dict[str, str]]:
    """All queues, no entry in two of them, and by name why others can't be looked at."""
    refused = {name: str(why) for name, why in s.run(s.deployment.registered())[1].items()}
    queues = s.run(s.deployment.disjoint_queues())
    refused |= _unanswered(s, queues)
    return [queue for queue in queues if queue.name not in refused], refused


def queues_named(s: Session, names: Sequence[str]) -> tuple[list[Queue[Any]], dict[str, str]]:
    """The queues of these names and patterns; without names, all, no entry in two of them. Also by
    name why others can't be looked at."""
    if names and not has_pattern(names):
        return [s.run(s.deployment.queue(name)) for name in dict.fromkeys(names)], {}
    queues, refused = every_queue(s)
    check_named(names, (*refused, *(queue.name for queue in queues)))
    unread = {name: why for name, why in refused.items() if is_named(name, names)}
    return [queue for queue in queues if is_named(queue.name, names)], unread


def _unanswered(s: Session, queues: Sequence[Queue[Any]]) -> dict[str, str]:
    """Queues of a Cluster whose node doesn't answer, with the reason."""
    from redis import RedisCluster

    from redisq_ops.core.redis.operation import apart, together

    if not isinstance(s.client, RedisCluster):  # one server that doesn't answer fails the command
        return {}
    replies = s.run(together(apart(queue.counts.op()) for queue in queues))
    return {
        queue.name: str(reply)
        for queue, reply in zip(queues, replies, strict=True)
        if isinstance(reply, Unreachable)
    }


def tell_unread_queues(unread: Mapping[str, object]) -> bool:
    """Say which queues could not be looked at, and why; returns whether there are any."""
    for name, why in unread.items():
        say(printable(f"{name}: not looked at: {why}"))
    return bool(unread)


def place(s: Session, address: str, what: str) -> Address:
    """The request or entry of an address; ``what``: the word for it in an error."""
    found = s.run(s.deployment.resolve(address))
    if found.id is None:
        raise BadInput(f"{address} is a queue: name its {what} as {address}/…")
    return found


def request_of(address: Address) -> tuple[RequestQueue[Any], str]:
    """The request at an address."""
    from redisq_ops.ops.required_features import requests_of

    if address.id is None:
        name = address.queue.name
        raise BadInput(f"{name!r} is a queue; name a request, as QUEUE/REQUEST or by its id")
    return requests_of(address.queue), address.id
