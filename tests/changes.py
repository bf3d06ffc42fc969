"""Changes of entries that are chosen already, without the question before them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change.apply import PlanSteps
from redisq_ops.ops.change.audit_log import Author, find
from redisq_ops.ops.change.entry_steps import EntrySteps
from redisq_ops.ops.change.plan import PlanFile
from redisq_ops.ops.change.prepare import ChangeRequest, PreparedChange
from redisq_ops.ops.change.preview import Preview
from redisq_ops.ops.change.runner import ChangeRun
from redisq_ops.ops.change.scope import PlannedScope, WholeState
from redisq_ops.ops.change.transfer_plan import Route
from redisq_ops.ops.change.undo import UndoSteps
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.filter.selection import Selection, select

AUTHOR = Author("ann", "here")


def entry_change(
    scope: Selection | WholeState,
    verb: Verb,
    author: Author,
    *,
    rate: float | None = None,
    consumer: str = "",
    at_ms: int | None = None,
    route: Route | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> ChangeRun[EntrySteps]:
    """What a face would run for these entries."""
    request = ChangeRequest(
        verb, scope.queue, scope.state, scope.filter, rate, consumer, at_ms, route
    )
    steps = PreparedChange(request, scope, Preview("")).steps()
    return ChangeRun(steps, author, rate=rate, clock=clock)


def plan_change(
    plan: PlanFile,
    queue: Queue[Any],
    author: Author,
    *,
    rate: float | None = None,
    route: Route | None = None,
    clock: Callable[[], float] = time.perf_counter,
    **applying: Any,
) -> ChangeRun[PlanSteps]:
    """What `redisq apply` would run for this plan."""
    header = plan.header
    ready_ms = header.argument if header.verb == "reschedule" else None
    request = ChangeRequest(
        header.verb, queue, header.state, Filter(), rate, ready_ms=ready_ms, route=route
    )
    scope = PlannedScope(queue, header.state, header.filter, header.high_water_ms, plan.count)
    prepared = PreparedChange(request, scope, Preview(""), plan)
    steps = cast("PlanSteps", prepared.steps(**applying))
    return ChangeRun(steps, author, rate=rate, clock=clock)


def changed(
    queue: Queue[redis.Redis], verb: Verb, state: State, *ids: str, **more: Any
) -> ChangeRun[EntrySteps]:
    """An operator's change of these entries, or of all in the state, run to its end."""
    orphans = VERBS[verb][1] in ("trash", "gone")
    chosen = run(queue.client, select(queue, state, Filter(ids=ids), orphans=orphans))
    change = entry_change(chosen, verb, AUTHOR, **more)
    while run(queue.client, change.step()):
        pass
    return change


def undone(client: redis.Redis, change: ChangeRun[EntrySteps]) -> ChangeRun[UndoSteps]:
    """The undo of a change, run to its end."""
    queue, operation = run(client, find(Deployment(client), change.op))
    undo = ChangeRun(UndoSteps(queue, operation), AUTHOR)
    while run(client, undo.step()):
        pass
    return undo
