"""Moves from one queue to another of its kind: whether they are possible, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine import transfer
from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import find
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput, NotFound, Refused, WrongKind
from redisq_ops.core.model.keys import known_name
from redisq_ops.core.model.settings import DAY_MS, DEFAULTS

from ..deployment import Deployment
from ..hint import hint
from ..terminal import age
from .impact import Consequences
from .plan_header import PlanHeader

COST_US = 50.0
"""server time of one entry, µs, in both queues together, as `python -m benchmarks moves` has it"""
CALLS = 4
"""calls of a step: take the entries out, read them, put them in, record the results"""
SHORTEST_MS = 600_000
"""shortest time that the source's trash must keep entries, since they are there during a move"""


@dataclass(frozen=True, slots=True)
class Route:
    """From one queue to another."""

    source: Queue[Any]
    into: Queue[Any] | None
    """None: it was destroyed since"""
    into_ms: int
    """when it was registered"""
    keep_ms: int
    """how long the target keeps the results of steps: longer than the source can ask for them"""

    @property
    def target(self) -> Queue[Any]:
        if self.into is None:
            raise NotFound("the queue they went to isn't there any more")
        return self.into


async def route_to(deployment: Deployment, source: Queue[Any], name: str) -> Route:
    """The route from a queue to the queue ``name``; refuses a move that is not possible."""
    movable(source)
    if known_name(name, "queue name") == source.name:
        raise BadInput(f"--to {name}: that is where they are")
    into = await deployment.named(name)
    if into is None:
        near = await deployment.similar(name)
        raise NotFound(
            f"no queue {name!r} here{near} (a move makes none; {hint('ls')} shows what there is)"
        )
    if not into.accepts_imports:
        raise Refused(f"queue {name} is kept by another program ({into.kind}): nothing goes in")
    if into.kind != source.kind:
        raise WrongKind(
            f"queue {source.name} is a {source.kind} queue and {name} a {into.kind} queue: moves, "
            "and redisq export and import, are between queues of one kind; submit the payloads of "
            "an export there"
        )
    if unlike := await into.transfer_obstacle.op(source):
        raise Refused(f"entries of {source.name} can't go on in {name}: {unlike}")
    await source.exists.op()
    for queue in (source, into):
        transfer.refuse_changing(queue)
    kept = await trash_ms(source)
    if kept < SHORTEST_MS:
        raise Refused(
            f"queue {source.name} keeps its trash for {age(kept)} only: a move goes through it and "
            f"wants {age(SHORTEST_MS)} ({hint('settings', source.name, 'trash_ms=10m')})"
        )
    entry = await find(name, deployment.prefix)
    return Route(source, into, entry.created_ms if entry else 0, kept + DAY_MS)


def movable(queue: Queue[Any]) -> None:
    """Refuse kinds whose entries can't go to another queue."""
    if not queue.transferable:
        raise Refused(
            f"queue {queue.name} is kept by another program ({queue.kind}): its entries are only "
            "moved by its own means"
        )


async def planned_route(deployment: Deployment, source: Queue[Any], header: PlanHeader) -> Route:
    """The route of a plan; refuses if the target isn't the queue that was planned for."""
    found = await route_to(deployment, source, header.into)
    if found.into_ms != header.into_ms:
        raise Refused(
            f"queue {header.into} isn't the one that was planned for: it was removed and created "
            "again; plan again"
        )
    return found


async def trash_ms(queue: Queue[Any]) -> int:
    return int((await queue.settings.op()).get("trash_ms", DEFAULTS.trash_ms))


async def look_ahead(weight: Consequences, route: Route, state: State) -> None:
    """Use the target's waiting entries and rate for the consequences: the entries wait there."""
    await weight.read_load(route.target)
    weight.goes_on = state == "waiting"
    weight.cost_us, weight.calls = COST_US, CALLS


def means(route: Route, state: State) -> str:
    """What a move does, in words."""
    then = {"dead": "dead", "delayed": "delayed to the same time", "waiting": "behind what waits"}
    keeps = age(route.keep_ms - DAY_MS)
    named = ", in requests of their own there, named after theirs and this move"
    return (
        f"they go to {route.target.name}, {then[state]} there, attempts kept"
        f"{named if isinstance(route.source, HasRequests) else ''}; the trash of "
        f"{route.source.name} keeps a copy for undo ({keeps})"
    )
