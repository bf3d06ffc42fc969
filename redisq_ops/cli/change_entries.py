"""Replay, requeue, claim, purge, restore, reschedule and move entries: all by one path."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer_recovery import recover
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.exit_codes import INTERRUPTED
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.ops.change.canary_rules import Limits
from redisq_ops.ops.change.entry_steps import unreadable
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.change.plan import free
from redisq_ops.ops.change.prepare import ChangeRequest, PreparedChange, prepare
from redisq_ops.ops.change.transfer_plan import Route, route_to
from redisq_ops.ops.change.watched_replay import check_watchable
from redisq_ops.ops.filter.selection import Keep
from redisq_ops.ops.filter.time import per_second
from redisq_ops.ops.hint import hint

from .canary import limits, ramped
from .confirm_and_run import (
    agreed,
    drive,
    ended,
    nothing_matched,
    tell_interrupted,
    tell_recovered,
    tell_unfinished,
)
from .entries import chosen_states, ready_time, targets_of, tell_cancelled
from .options import Go, Ramping, Selecting, When
from .output import reading, say
from .plan_output import draft, written
from .session import Session

if TYPE_CHECKING:
    from .commands.states import Changing


def changed(
    s: Session,
    verb: Verb,
    state: str | None,
    selecting: Selecting,
    changing: Changing,
    *,
    hard: bool = False,
    consumer: str = "",
    to: str = "",
    at: When | None = None,
    ramping: Ramping | None = None,
) -> int:
    """Prepare a change for each queue, ask, and carry the changes out one after the other."""
    plan, go = changing.plan, changing.go
    if plan is not None:
        free(plan)
    verb, states = _verb_and_states(verb, state, selecting, hard=hard)
    rate = None if changing.rate is None else per_second(changing.rate)
    ramp = None if ramping is None else limits(ramping, rate, plans=plan is not None)
    routes: dict[str, Route] = {}

    async def find_route(queue: Queue[Any]) -> None:
        routes[queue.name] = await route_to(s.deployment, queue, to)

    move = verb == "move"
    targets = targets_of(s, states, selecting, None if move else verb, find_route if move else None)
    if ramp is not None:
        for target in targets:
            check_watchable(target.queue, ramp)
    ready_ms = None if at is None else ready_time(s, at, s.run(targets[0].queue.now.op()))
    requests = [
        ChangeRequest(
            verb,
            target.queue,
            target.state,
            target.filter,
            rate,
            consumer=consumer,
            ready_ms=ready_ms,
            route=routes.get(target.queue.name),
            by_ids=plan is not None or ramp is not None,
            utc=s.utc,
        )
        for target in targets
    ]
    scan_rate = selecting.conditions.scan_rate
    if plan is not None:
        with draft(plan, verb, [request.queue for request in requests], dry_run=go.dry_run) as file:
            return written(s, file, prepared_for(s, requests[0], scan_rate, file.add), go.reason)
    prepared = [prepared_for(s, request, scan_rate) for request in requests]
    for target in targets:
        if target.state == "trash":
            tell_cancelled(s, target)
    if not any(each.scope.count for each in prepared):
        return _nothing_matched(s, prepared, dry_run=go.dry_run)
    if not agreed(s, [each.preview for each in prepared], go, changing.rate):
        return 0
    capped = selecting.conditions.max is not None
    return _carried_out(s, [each for each in prepared if each.scope.count], ramp, go, capped=capped)


def _verb_and_states(
    verb: Verb, state: str | None, selecting: Selecting, *, hard: bool
) -> tuple[Verb, Sequence[State]]:
    """The verb, changed by --hard, and the states to change: the command's, or that of --state."""
    if hard:
        verb = "hard"
    possible = [one for one in VERBS[verb][0] if one != "trash" or not hard]
    if hard and state == "trash":
        places = selecting.addresses or [selecting.queue or "QUEUE"]
        how = hint("trash", "rm", *places)
        raise BadInput(f"to remove what is in the trash for good, use {how}")
    return verb, chosen_states(verb, possible, state)


def prepared_for(
    s: Session,
    request: ChangeRequest,
    rate: str | None,
    keep: Keep | None = None,
) -> PreparedChange:
    """Prepare a change, with a progress line, at the rate of ``--scan-rate``."""
    with reading(f"looking through {request.queue.name}", rate=rate) as meter:
        return s.run(prepare(request, progress=meter, keep=keep, shown=s.redaction.text))


def _nothing_matched(s: Session, prepared: Sequence[PreparedChange], *, dry_run: bool) -> int:
    if not dry_run and not s.config.read_only:
        for each in prepared:  # an interrupted earlier move may hold the only entries
            if (route := each.request.route) is not None:
                for queue in (route.source, route.target):
                    tell_recovered(s, s.run(recover(queue)))
                tell_unfinished(s, route.source)
    left_out = sum((unreadable(each.scope) for each in prepared), Counter[str]())
    outcome = ChangeOutcome(None, left_out.total(), 0, dict(left_out))
    return nothing_matched(s, [each.preview for each in prepared], dry_run, outcome)


def _carried_out(
    s: Session, prepared: Sequence[PreparedChange], ramp: Limits | None, go: Go, *, capped: bool
) -> int:
    """Carry the changes out, one after another; returns one exit code for all.

    ``capped``: --max limits them to the first entries that match.
    """
    total = ChangeOutcome(None, 0)
    for nth, each in enumerate(prepared, 1):
        queue, verb, route = each.request.queue, each.request.verb, each.request.route
        done = each.preview.past
        change = each.run(go.reason)
        if ramp is not None:
            if code := ramped(s, change, ramp, done):
                if rest := [left.request.queue.name for left in prepared[nth:]]:
                    say(f"not begun: {', '.join(rest)}")
                return code
            continue
        finished = drive(s, change, f"{verb} in {queue.name}", s.again)
        ended(s, change.outcome, done, undo=verb != "hard", recovered=change.steps.recovered)
        if route is not None:
            tell_unfinished(s, queue)
        if "away" in change.outcome.skipped and not s.json:
            say("away: moved to another queue; only the undo of that move brings these back")
        if not finished:
            again, whose = s.again, "all entries"
            if capped and len(prepared) == 1:
                left = change.outcome.matched - change.outcome.handled
                again, whose = re.sub(r"--max[= ]\d+", f"--max {left}", again), "the first entries"
            tell_interrupted(s, change.outcome, again)
            if not s.json:
                say(f"it covers {whose} that match by then")
            return INTERRUPTED
        total.matched += change.outcome.matched
        total.done += change.outcome.done
    return total.exit_code
