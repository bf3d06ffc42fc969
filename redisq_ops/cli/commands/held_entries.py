"""`redisq workers claim | ack | requeue | rm`: what happens to what a worker holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import BadInput, Refused
from redisq_ops.core.model.exit_codes import INTERRUPTED
from redisq_ops.ops.filter.time import duration_ms
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import kind_of

from ..completion import workers as workers_of
from ..confirm_and_run import agreed, drive, ended, nothing_matched, tell_interrupted
from ..options import PLAN, QUEUE, Go, argument, command, flag, option, options
from ..output import as_line, conclude, count, printable, reading, say, untouched
from ..session import Session
from .workers import commands, workers

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.ops.change.held_entries import HeldEntries
__all__ = ["commands"]
_TO = "Consumer that receives the entries."
_INSIDE = option("--group", "ID", "Only of this group, or of this request.")


@options
class ClaimHeldOptions:
    name: str = QUEUE
    consumer: str = argument("FROM")
    to: str = option("--to", "NAME", _TO, default=...)
    request: str | None = _INSIDE
    min_idle: str = option(
        "--min-idle",
        "SPAN",
        "Claim only entries that it has held at least this long.",
        default="5m",
    )
    go: Go
    plan: str | None = PLAN


@command(workers, "claim", prints="Plan Outcome")
def claim(s: Session, given: ClaimHeldOptions) -> int:
    """Give the entries that a consumer holds to another consumer. In a queue of redisq the old
    receipts become invalid.

    Examples:
      redisq workers claim mail w1 --to w2 --min-idle 10m --dry-run
      redisq workers claim stream:orders w1 --group billing --to w2 --yes
      redisq workers claim mail w1 --to w2 --plan p.ndjson
    """
    min_idle_ms = duration_ms(given.min_idle)
    if given.plan is not None:
        return _planned(s, given, given.plan, min_idle_ms)
    held = _held(s, given.name, given.consumer, given.request, min_idle_ms)
    return _changed(s, held, given.go, given.to, remove=False)


def _planned(s: Session, given: ClaimHeldOptions, plan: str, min_idle_ms: int) -> int:
    """Write the claim as a plan for the same entries, as `redisq claim --plan` does."""
    from redisq_ops.core.engine.optional_features import HasConsumerGroups
    from redisq_ops.ops.change.allowed import allowed
    from redisq_ops.ops.change.consumer_preview import left_out
    from redisq_ops.ops.change.held_entries import checked_receiver, held_filter
    from redisq_ops.ops.change.plan import free
    from redisq_ops.ops.change.prepare import ChangeRequest

    from ..change_entries import prepared_for
    from ..plan_output import draft, written

    name, consumer, to = given.name, given.consumer, given.to
    free(plan)
    queue = s.run(s.deployment.queue(name))
    if isinstance(queue, HasConsumerGroups):
        # The steps of such a claim are not numbered, so a plan could not be continued.
        words = ("workers", "claim", name, consumer, "--dry-run")
        dry_run = hint(*words, **{"to": to, "min-idle": given.min_idle})
        raise Refused(
            f"a claim in {kind_of(queue.kind)} can't be planned; to see what it would do: {dry_run}"
        )
    allowed(queue, "claim", "pending")
    held = _held(s, name, consumer, given.request, min_idle_ms)
    checked_receiver(held, to)
    request = ChangeRequest(
        "claim", queue, "pending", held_filter(held, s.redaction), consumer=to, by_ids=True
    )
    with draft(plan, "claim", [queue], dry_run=given.go.dry_run) as file:
        prepared = prepared_for(s, request, None, file.add)
        lines = (*prepared.preview.lines, *left_out(held))
        prepared = replace(prepared, preview=replace(prepared.preview, lines=lines))
        return written(s, file, prepared, given.go.reason)


@options
class SettleOptions:
    name: str = QUEUE
    consumer: str = argument("FROM")
    request: str | None = _INSIDE
    entry: list[str] | None = option("--entry", "ID", "Only this entry; repeatable.")
    min_idle: str = option(
        "--min-idle", "SPAN", "Only entries that it has held at least this long.", default="5m"
    )
    go: Go


@command(workers, "ack", prints="Plan Outcome")
def ack(s: Session, given: SettleOptions) -> int:
    """Acknowledge what a consumer of a plain stream holds: its group is done with these entries.
    They stay in the stream for other groups. Undo makes them pending again.

    Examples:
      redisq workers ack stream:orders w1 --group billing --entry 1795532724128-0
      redisq workers ack stream:orders w1 --min-idle 1h --dry-run
    """
    return _settled(s, given, acknowledge=True)


@command(workers, "requeue", prints="Plan Outcome")
def requeue(s: Session, given: SettleOptions) -> int:
    """Give what a consumer holds to no consumer in particular: it waits for a worker again. Of a
    plain stream it stays pending and nobody has it, which needs Redis 8.8.

    Examples:
      redisq workers requeue mail w1 --dry-run
      redisq workers requeue stream:orders w1 --group billing --yes
    """
    return _settled(s, given, acknowledge=False)


def _settled(s: Session, given: SettleOptions, *, acknowledge: bool) -> int:
    from redisq_ops.ops.change.held_entries import check_settleable

    idle_ms = 0 if given.entry else duration_ms(given.min_idle)
    queue = s.run(s.deployment.queue(given.name))
    s.run(check_settleable(queue, acknowledge=acknowledge))
    held = _held(s, given.name, given.consumer, given.request, idle_ms, given.entry or ())
    return _changed(s, held, given.go, None, remove=False, acknowledge=acknowledge)


@options
class RemoveOptions:
    name: str = QUEUE
    worker: str | None = argument("[NAME]", "Worker; default: all silent processes.", workers_of)
    to: str | None = option("--to", "NAME", _TO)
    request: str | None = _INSIDE
    older_than: str | None = option(
        "--older-than", "AGE", "Minimum silence: 30s, 5m; default: the owner's own limit."
    )
    rescue: bool | None = flag(
        "--rescue/--no-rescue",
        "Move the jobs of processes back to waiting, first in their queue. Without it "
        "Sidekiq loses them and Resque counts them as failed. [rescue]",
        default=None,
    )
    go: Go


@command(workers, "rm", prints="Plan Outcome")
def rm(s: Session, given: RemoveOptions) -> int:
    """Remove a worker that is gone, without losing what it holds.

    Of a queue of redisq, or a plain stream: a consumer. Its entries go to the consumer of --to
    first; without --to back to waiting, or in a plain stream to the consumer `operator`. It is
    removed once it holds nothing.

    Of Sidekiq or Resque: dead processes, from the program's register, and rescue their jobs. Each
    process is checked again in the step that removes it. There is no undo.

    Examples:
      redisq workers rm mail w1 --dry-run
      redisq workers rm stream:orders w1 --group billing --to w2 --yes
      redisq workers rm sidekiq --older-than 30s --yes
      redisq workers rm resque box:78:mail --reason rebooted --yes
    """
    from redisq_ops.core.engine.optional_features import HasConsumerGroups, HasWorkerProcesses

    with untouched():
        queue = s.run(s.deployment.queue(given.name))
    processes = isinstance(queue, HasWorkerProcesses)
    theirs, others = (
        ("a process", "--to and --group")
        if processes
        else ("a consumer", "--older-than and --no-rescue")
    )
    foreign = (given.to, given.request) if processes else (given.older_than, given.rescue)
    if any(value is not None for value in foreign):
        raise BadInput(f"{queue.name} has no use for {others}: what is removed is {theirs}")
    if processes:
        return _prune(s, queue, given)
    if given.worker is None:
        raise BadInput(f"name the consumer of {queue.name} ({hint('workers', 'ls', queue.name)})")
    held = _held(s, queue.name, given.worker, given.request, 0)
    to = given.to
    if to is None and isinstance(queue, HasConsumerGroups):
        to = "operator"  # delivered entries of a plain stream can't go back to waiting
    return _changed(s, held, given.go, to, remove=True)


def _prune(s: Session, queue: Queue[Any], given: RemoveOptions) -> int:
    """Remove silent processes from the register of another program."""
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.prune_processes import (
        PruneSteps,
        job_outcomes,
        prune_preview,
        select_processes,
    )
    from redisq_ops.ops.change.runner import ChangeRun

    silent_ms = None if given.older_than is None else duration_ms(given.older_than)
    with untouched():
        chosen = s.run(select_processes(queue, given.worker, silent_ms))
    rescue = given.rescue is not False
    preview = prune_preview(chosen, rescue)
    if not chosen.processes:
        return nothing_matched(s, [preview], given.go.dry_run)
    if not agreed(s, [preview], given.go):
        return 0
    steps = PruneSteps(chosen, rescue=rescue)
    change = ChangeRun(steps, Author.here(given.go.reason))
    what = f"prune processes of {queue.name}"
    finished = drive(s, change, what)
    ended(s, change.outcome, what, undo=False, more={"jobs": dict(steps.jobs)})
    if not s.json:
        for line in job_outcomes(steps.jobs):
            say(line)
    return change.outcome.exit_code if finished else INTERRUPTED


def _held(
    s: Session,
    name: str,
    consumer: str,
    request: str | None,
    min_idle_ms: int,
    only: Sequence[str] = (),
) -> HeldEntries:
    from redisq_ops.ops.change.held_entries import held_entries

    queue = s.run(s.deployment.queue(name))
    with reading(f"looking through {queue.name}") as meter:
        return s.run(
            held_entries(
                queue, consumer, request, min_idle_ms=min_idle_ms, only=only, progress=meter
            )
        )


def _changed(
    s: Session,
    held: HeldEntries,
    go: Go,
    to: str | None,
    *,
    remove: bool,
    acknowledge: bool = False,
) -> int:
    from redisq_ops.ops.change.audit_log import Author
    from redisq_ops.ops.change.consumer_preview import consumer_preview
    from redisq_ops.ops.change.consumer_steps import ConsumerSteps
    from redisq_ops.ops.change.runner import ChangeRun

    steps = ConsumerSteps(held, to, remove=remove, acknowledge=acknowledge)
    change = ChangeRun(steps, Author.here(go.reason))
    preview = consumer_preview(held, to, remove=remove, acknowledge=acknowledge)
    queue, outcome = held.queue.name, change.outcome
    if not (held.ids or remove):
        return nothing_matched(s, [preview], go.dry_run)
    if not agreed(s, [preview], go):
        return 0
    finished = drive(s, change, preview.what, s.again)
    if s.json:
        conclude(as_line(asdict(outcome) | {"removed": steps.removed}))
    else:
        skipped = ", ".join(f"{count(n)} {reason}" for reason, n in outcome.skipped.items())
        past = f"{'removed' if remove and steps.removed else 'took from'} {held.what} of {queue}"
        line = f"{past}: {count(outcome.done)} of {count(outcome.matched)} entries"
        line += f" to {to}" if to else " acknowledged" if acknowledge else " wait again"
        conclude(line + (f", skipped {skipped}" if skipped else "") + f" (op {outcome.op})")
        if outcome.done and outcome.op and steps.undoable:
            say(printable(f"undo with: {hint('undo', outcome.op)}"))
    if not finished:
        tell_interrupted(s, outcome, s.again)
    return outcome.exit_code if finished else INTERRUPTED
