"""Plans as files: `--plan FILE` writes one and changes nothing, `apply` does just what it says."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.exit_codes import INTERRUPTED
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.filter.time import per_second

from ..confirm_and_run import agreed, drive, ended
from ..options import MOST, RATE, Go, Ramping, argument, command, option, options
from ..outcome_report import check_report_file, reporting
from ..output import count, printable, reading, say, when
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.change.audit_log import Operation
    from redisq_ops.ops.change.canary_rules import Limits
    from redisq_ops.ops.change.plan_header import PlanHeader
    from redisq_ops.ops.change.prepare import PreparedChange

commands = typer.Typer()


@options
class ApplyOptions:
    file: str = argument("FILE", "Plan file that --plan wrote.")
    rate: str | None = RATE
    max: int | None = option(
        "--max", None, "Stop after N entries; run again to continue.", min=1, max=MOST
    )
    report: str | None = option(
        "--report", "FILE", "Write the result for each entry to FILE, as NDJSON."
    )
    ramping: Ramping
    go: Go


@command(commands, "apply", prints="Plan Outcome")
def apply(s: Session, given: ApplyOptions) -> int:
    """Carry out a plan file on the entries that it lists. Each is checked again, and skipped if it
    changed or entered its state later. Run again to continue where it stopped.

    Examples:
      redisq apply p.ndjson --dry-run
      redisq apply p.ndjson --max 100 --report r.ndjson
      redisq apply p.ndjson --rate 200/s --reason 'smtp is back' --yes
    """
    from redisq_ops.ops.change.plan import READ_AGAIN, PlanFile
    from redisq_ops.ops.change.prepare import prepare_plan
    from redisq_ops.ops.change.watched_replay import check_watchable

    from ..canary import limits

    path, dry_run = given.file, given.go.dry_run
    if path == "-":
        raise BadInput(READ_AGAIN)
    if not dry_run:
        s.writable()
    with suppress(OSError):  # an unreadable or missing file raises an error below
        if given.report is not None and os.path.samefile(given.report, path):
            raise BadInput(f"--report {given.report} would overwrite the plan")
    with reading(f"checking {path}") as meter:
        plan = PlanFile(path, meter)
    header = plan.header
    if not dry_run:
        check_report_file(given.report, header.op)
    rate = None if given.rate is None else per_second(given.rate)
    with reading("looking again", plan.count) as meter:
        preparing = prepare_plan(
            s.deployment,
            plan,
            rate=rate,
            most=given.max,
            utc=s.utc,
            look_again=dry_run,
            progress=meter,
            shown=s.redaction.text,
        )
        prepared = s.run(preparing)
    before, request = prepared.before, prepared.request
    ramp = limits(given.ramping, request.rate, header.verb)
    if ramp is not None:
        check_watchable(request.queue, ramp)
    done = prepared.preview.past
    if before is not None and before.ended:
        return _already(s, before, done)
    if not agreed(s, [prepared.preview], given.go, given.rate):
        return 0
    return carried_out(s, prepared, header, ramp, given)


def carried_out(
    s: Session,
    prepared: PreparedChange,
    header: PlanHeader,
    ramp: Limits | None,
    given: ApplyOptions,
) -> int:
    """Carry a confirmed plan out, from where an earlier run stopped; returns the exit code."""
    from redisq_ops.ops.change.apply import PlanSteps

    from ..canary import ramped

    before, done = prepared.before, prepared.preview.past
    begun = 0 if before is None else before.done
    with reporting(s, given.report, header.op, begun) as report:
        change = prepared.run(
            given.go.reason,
            most=given.max,
            report=report.each,
            last=report.last,
            hand=report.hand,
        )
        steps = change.steps
        assert isinstance(steps, PlanSteps)
        report.change = change
        if ramp is not None:
            code = ramped(s, change, ramp, done)
            report.end(change.outcome, {"left": steps.left})
            return code
        finished = drive(s, change, f"{header.verb} in {header.queue}", s.again)
        s.run(steps.finish())
        outcome, left = change.outcome, steps.left
        report.end(outcome, {"left": left})
    halted = {"halted": steps.halted} if steps.halted else {}
    ended(
        s,
        outcome,
        done,
        undo=header.verb != "hard",
        more={"left": left, **halted},
        recovered=steps.recovered,
    )
    if left and not s.json:
        why = f" ({header.into} is {steps.halted})" if steps.halted else ""
        say(printable(f"{count(left)} left{why}; continue with: {s.again}"))
    if not finished:
        return INTERRUPTED
    if left and not steps.halted and outcome.done == outcome.matched - left:
        return 0  # --max was reached
    return outcome.exit_code


def _already(s: Session, before: Operation, what: str) -> int:
    """Report that the plan was carried out before; change nothing."""
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
