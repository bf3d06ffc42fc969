"""From a command's addresses to its targets: a queue, a state, and a filter that names entries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Request, State
from redisq_ops.core.model.errors import BadInput, NotFound
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import Description, together

from ..change.allowed import allowed
from ..deployment import Address, Deployment
from .filter import Filter


@dataclass(frozen=True, slots=True)
class Target:
    """The entries of one state of one queue that a filter accepts."""

    queue: Queue[Any]
    state: State
    filter: Filter


async def targets(
    deployment: Deployment,
    addresses: Sequence[str],
    filter: Filter,
    states: Sequence[State],
    queue: str | None = None,
    verb: Verb | None = None,
    check: Callable[[Queue[Any]], Awaitable[object]] | None = None,
) -> list[Target]:
    """A target for each queue addressed; every queue, request and entry named must exist.

    With ``queue`` the addresses are ids in it, whatever they look like; with neither it is the
    queue `default`. If several
    ``states`` are possible, the named entries or the filter's expression decide; if they don't, it
    is `BadInput`. Before that, ``check`` may refuse a queue, and a kind of queue without the
    ``verb`` is `Refused`.
    """
    if queue is None and addresses:
        places = await together(deployment.resolve(address) for address in addresses)
    else:
        in_queue = await deployment.queue(queue or "default")
        typed = map(in_queue.typed_id, addresses)
        places = [Address(in_queue, id) for id in typed] or [Address(in_queue)]
    queues = {place.queue.name: place.queue for place in places}
    found = []
    for name, each in queues.items():
        if check is not None:
            await check(each)
        named = [place.id for place in places if place.queue.name == name]
        ids = [id for id in named if id is not None]
        if ids and None in named:  # "mail r1" is hardly ever meant to be all of mail
            raise BadInput(
                f"{name} stands for the whole queue, and {ids[0]} for a part of it: write "
                f"{name}/{ids[0]} for that part alone"
            )
        found.append(await _target(each, ids, filter, states, verb))
    return found


async def _target(
    queue: Queue[Any],
    named: Sequence[str],
    filter: Filter,
    states: Sequence[State],
    verb: Verb | None,
) -> Target:
    ids = tuple(named)
    if verb is not None and len(states) > 1:
        # What is done runs again only where the entries or the expression name it.
        expressed = (filter.where is not None and filter.where.states) or ()
        can = () if verb == "replay" and not named else queue.actions.get(verb, ())
        states = [s for s in states if s != "done" or s in expressed or s in can]
    requests: tuple[str, ...] = ()
    reads: list[Description[Request | None]] = []
    if isinstance(queue, HasRequests):
        requests = tuple(id for id in ids if "/" not in id)
        ids = tuple(id for id in ids if "/" in id)
        reads = [queue.request.op(id) for id in requests]
    entries, records = await together(queue.get_many.op(ids), together(reads))
    for what, id, record in (
        *(("entry", *pair) for pair in zip(ids, entries, strict=True)),
        *(("request", *pair) for pair in zip(requests, records, strict=True)),
    ):
        if record is None:
            raise NotFound(f"no {what} {id} in queue {queue.name}")
    present = {entry.state for entry in entries if entry is not None}
    present |= {s for s in states for request in records if request and getattr(request, s)}
    fitting = [state for state in states if state in present] or list(states)
    if filter.where is not None and filter.where.states is not None:
        # The expression may narrow the states; if it excludes them all, nothing will match.
        possible = filter.where.states
        fitting = [state for state in fitting if state in possible] or fitting[:1]
    if len(fitting) > 1 and not (ids or requests):
        valid = states if verb is None else queue.actions.get(verb, ())
        if verb is not None and not valid:
            allowed(queue, verb, states[0])
        choices = ", ".join(state for state in states if state in valid)
        raise BadInput(
            f"queue {queue.name}: choose the state of the entries with --state: {choices}"
        )
    if len(fitting) > 1 and present.intersection(states):
        raise BadInput(f"these entries are {' and '.join(fitting)}: choose one with --state")
    return Target(queue, fitting[0], replace(filter, ids=ids, requests=requests))
