"""From addresses to what a command is about: queues, states, and filters that name entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Request, State
from redisq_ops.core.model.errors import BadInput, NotFound
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import Description, both, together

from ..change.bulk import allowed
from ..deployment import Address, Deployment
from .scan import Filter


@dataclass(frozen=True, slots=True)
class Target:
    """Entries of one state of one queue, as a filter tells them."""

    queue: Queue[Any]
    state: State
    filter: Filter


async def targets(
    deployment: Deployment,
    addresses: Sequence[str],
    filter: Filter,
    states: Sequence[State],
    queue: str | None = None,
    default: str = "default",
    verb: Verb | None = None,
    look: Callable[[Queue[Any]], Awaitable[object]] | None = None,
) -> list[Target]:
    """What is meant, a target for each queue; every queue, request and entry named must exist.

    With ``queue`` the addresses are inside it; with neither, the ``default`` queue is meant.
    Of several ``states`` the named entries choose, or the expression; `BadInput` when neither does.
    Nobody is asked for the state of what no ``verb`` is for in that kind of queue, or of what
    ``look``, at a queue as a whole, refuses.
    """
    if queue is None and addresses:
        places = await together(deployment.resolve(address) for address in addresses)
    else:
        inside = await deployment.queue(queue or default)
        own = f"{inside.name}/"
        ids = [address.removeprefix(own) for address in addresses if address != inside.name]
        places = [Address(inside, id) for id in ids if ids] or [Address(inside)]
    queues = {place.queue.name: place.queue for place in places}
    found = []
    for name, here in queues.items():
        if look is not None:
            await look(here)
        named = [place.id for place in places if place.queue.name == name]
        ids = [id for id in named if id is not None]
        if ids and None in named:  # "mail r1" hardly ever means all of mail
            raise BadInput(
                f"{name} means all of it, and {ids[0]} a part: say {name}/{ids[0]} for that alone"
            )
        found.append(await _target(here, ids, filter, states, verb))
    return found


async def _target(
    queue: Queue[Any],
    named: Sequence[str],
    filter: Filter,
    states: Sequence[State],
    verb: Verb | None,
) -> Target:
    ids = tuple(named)
    requests: tuple[str, ...] = ()
    reads: list[Description[Request | None]] = []
    if isinstance(queue, HasRequests):
        requests = tuple(id for id in ids if "/" not in id)
        ids = tuple(id for id in ids if "/" in id)
        reads = [queue.request.op(id) for id in requests]
    entries, records = await both(together(queue.get.op(id) for id in ids), together(reads))
    for what, id, there in (
        *(("entry", *pair) for pair in zip(ids, entries, strict=True)),
        *(("request", *pair) for pair in zip(requests, records, strict=True)),
    ):
        if there is None:
            raise NotFound(f"no {what} {id} in queue {queue.name}")
    present = {entry.state for entry in entries if entry is not None}
    present |= {s for s in states for request in records if request and getattr(request, s)}
    fitting = [state for state in states if state in present] or list(states)
    if filter.where is not None and filter.where.states is not None:
        # Of several, those the expression is about; where it is about none, nothing will match.
        about = filter.where.states
        fitting = [state for state in fitting if state in about] or fitting[:1]
    if len(fitting) > 1 and not (ids or requests):
        can = states if verb is None else queue.actions.get(verb, ())
        if verb is not None and not can:
            allowed(queue, verb, states[0])
        said = ", ".join(state for state in states if state in can)
        raise BadInput(f"which entries of {queue.name}? Say --state {said}")
    if len(fitting) > 1 and present.intersection(states):
        raise BadInput(f"these are {' and '.join(fitting)}: say which are meant with --state")
    return Target(queue, fitting[0], replace(filter, ids=ids, requests=requests))
