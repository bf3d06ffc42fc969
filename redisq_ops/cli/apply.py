"""Plans as files: `--plan FILE` writes one and changes nothing, `apply` does just what it says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.model.states import Verb
from redisq_ops.ops.change import impact
from redisq_ops.ops.change.apply import Apply, recorded
from redisq_ops.ops.change.audit_log import Author, ChangeOutcome, Operation, new_id
from redisq_ops.ops.change.bulk import PAST, Bulk, Plan, entries, meaning, typed
from redisq_ops.ops.change.canary import PacedApply
from redisq_ops.ops.change.plan import READ_AGAIN, Draft, PlanFile, PlanHeader, home, identity
from redisq_ops.ops.change.plan_progress import whereabouts
from redisq_ops.ops.change.transfer import MoveApply
from redisq_ops.ops.change.transfer_plan import planned_way
from redisq_ops.ops.filter.target import Target
from redisq_ops.ops.filter.time import per_second
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import age

from .canary import limits, ramped
from .confirm_and_run import agreed, drive, ended, shown, tell_recovered, untouched
from .outcome_report import its_own, reporting
from .output import count, emit, printable, progress, say, when
from .session import Session


def draft(verb: Verb, wanted: Sequence[Target], given: Mapping[str, Any]) -> Draft:
    """A plan's file, begun."""
    if given["dry_run"]:
        raise BadInput("--plan writes a file, --dry-run writes nothing: one of them")
    if len(wanted) > 1:
        raise BadInput("a plan is for one queue: " + ", ".join(t.queue.name for t in wanted))
    return Draft(given["plan"], new_id(verb))


def written(s: Session, file: Draft, bulk: Bulk, plan: Plan) -> int:
    """Finish a plan's file and say what is in it; exit code 0."""
    order, author = bulk.order, bulk.author
    queue = order.queue
    created_ms, server = s.run(identity(queue, s.deployment))
    header = PlanHeader(
        op=file.op, queue=queue.name, kind=queue.kind, prefix=s.deployment.prefix,
        created_ms=created_ms, server=server, verb=order.verb, state=order.state,
        consumer=order.consumer, argument=order.argument, high_water_ms=order.high_water_ms,
        filter=str(bulk.selection.filter), who=author.who, whence=author.whence, why=author.why,
        planned_ms=s.run(queue.now.op()), step=MAX_BATCH, rate=bulk.rate,
        **bulk.destination,
    )  # fmt: skip
    file.finish(header, plan.facts)
    if s.json and file.path != "-":
        emit({"plan": plan.title, "file": file.path, "op": file.op, **plan.facts})
    elif not s.json:
        say("\n".join(shown(plan)))
        if file.path != "-":
            say(printable(f"nothing was changed; do it with: {hint('apply', str(file.path))}"))
    return 0


def apply(s: Session, given: dict[str, Any]) -> int:
    """Carry a plan out, or the rest of it."""
    path, report = given["file"], given["report"]
    if path == "-":
        raise BadInput(READ_AGAIN)
    if not given["dry_run"]:
        s.writable()
    with suppress(OSError):  # what can't be read or isn't there yet is told of, or made, below
        if report is not None and os.path.samefile(report, path):
            raise BadInput(f"--report {report} would write over the plan")
    with untouched():
        with progress(f"checking {path}") as meter:
            plan = PlanFile(path, meter)
        header = plan.header
        if not given["dry_run"]:
            its_own(report, header.op)
        queue = s.run(home(s.deployment, header))
        before = s.run(recorded(queue, header))
    rate = header.rate if given["rate"] is None else per_second(given["rate"])
    into = f" to {header.into}" if header.into else ""
    what = f"{PAST[header.verb]} {header.state} entries of {header.queue}{into}"
    ramp = limits(s, given, rate, header.verb)
    if before is not None and before.ended:
        return _already(s, before, what)
    way = s.run(planned_way(s.deployment, queue, header)) if header.into else None
    if not agreed(s, [_proposal(s, plan, queue, before, given)], given):
        return 0
    made: Callable[..., Apply] = Apply if ramp is None else PacedApply
    more: dict[str, Any] = {}
    if way is not None:
        made, more = MoveApply, {"way": way}
    done = before.done if before is not None else 0
    with reporting(s, report, header.op, done) as told:
        change = told.change = made(
            plan, queue, Author.here(given["reason"]), rate=rate, most=given["max"],
            told=told.each, known=told.last, hand=told.hand, **more,
        )  # fmt: skip
        if ramp is not None:
            code = ramped(s, change, ramp, what)
            told.end(change.outcome, {"left": change.left})
            return code
        finished = drive(s, change, f"{header.verb} in {header.queue}", s.again)
        s.run(change.finish())
        outcome, left = change.outcome, change.left
        told.end(outcome, {"left": left})
    halted = {"halted": change.halted} if change.halted else {}
    ended(s, outcome, what, undo=header.verb != "hard", more={"left": left, **halted})
    tell_recovered(s, change.recovered)
    if left and not s.json:
        why = f" ({header.into} is {change.halted})" if change.halted else ""
        say(printable(f"{count(left)} left{why}; go on with: {s.again}"))
    if not finished:
        return 130
    if left and not change.halted and outcome.done == outcome.matched - left:
        return 0  # as many as were asked for
    return outcome.exit_code


def _proposal(
    s: Session,
    plan: PlanFile,
    queue: Queue[Any],
    before: Operation | None,
    given: Mapping[str, Any],
) -> Plan:
    """What applying it will do, now."""
    header, done = plan.header, before.span[1] if before else 0
    does = "remove for good" if header.verb == "hard" else header.verb
    into = f" to {header.into}" if header.into else ""
    title = f"apply {plan.path}: {does} {entries(plan.count, header.state)} of {header.queue}{into}"
    ago = age(s.run(queue.now.op()) - header.planned_ms)
    why = f": {header.why}" if header.why else ""
    lines = [
        f"planned {ago} ago by {header.who}@{header.whence}{why} (filter: {header.filter})",
        meaning(header.verb, queue),
        *impact.lines(plan.facts["consequences"]),
    ]
    if header.into:
        lines[1] = f"they go on in {header.into}; the trash of {header.queue} keeps a copy for undo"
    elif header.verb == "reschedule":
        lines[1] = f"they become ready at {when(header.argument, s.utc)}"
    elif header.verb == "claim":
        lines[1] = f"{header.consumer} has them then; who held them can't settle any more"
    if done:
        lines.append(f"{count(done)} of them were dealt with before: goes on behind them")
    facts: dict[str, Any] = {
        **plan.facts, "op": header.op, "file": plan.path, "before": done,
        "planned_ms": header.planned_ms, "planned_by": f"{header.who}@{header.whence}",
    }  # fmt: skip
    if given["dry_run"]:
        with untouched(), progress("looking again", plan.count) as meter:
            now = s.run(whereabouts(plan, queue, meter))
        lines.append("now: " + ", ".join(f"{count(n)} {word}" for word, n in now.most_common()))
        facts["now"] = dict(now)
    left = min(plan.count - done, given["max"] or plan.count)
    facts["matched"] = left
    return Plan(title, tuple(lines), typed(header.verb, left, header.queue), facts)


def _already(s: Session, before: Operation, what: str) -> int:
    """A plan that was applied to its end: nothing is done, and it says so."""
    outcome = ChangeOutcome(before.id, before.matched, before.done)
    if s.json:
        skipped = {"earlier": before.matched - before.done} if before.matched > before.done else {}
        outcome.skipped = skipped
        ended(s, outcome, what, more={"left": 0, "already": True})
    else:
        at = f"{when(before.started_ms, s.utc)} by {before.by}"
        done = f"{count(before.done)} of {count(before.matched)}"
        print(printable(f"already applied {at}: {what}: {done} (op {before.id})"))
    return 0
