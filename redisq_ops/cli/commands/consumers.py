"""`redisq consumers`: what each consumer holds, and giving it to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import Refused
from redisq_ops.core.model.exit_codes import INTERRUPTED, PARTLY_DONE
from redisq_ops.ops.filter.time import duration_ms
from redisq_ops.ops.hint import hint
from redisq_ops.ops.terminal import kind_of

from ..confirm_and_run import agreed, drive, nothing_matched, tell_interrupted
from ..options import ANY_QUEUE, MOST, PLAN, QUEUE, Go, argument, command, option, options
from ..output import age, age_or_none, count, emit, printable, reading, say, table, tell
from ..rows import tell_sentence
from ..session import Session

if TYPE_CHECKING:
    from redisq_ops.ops.change.held_entries import HeldEntries
    from redisq_ops.ops.inspect.consumers import ConsumerReport

    from ..output_types.consumers import ConsumerReportOutput

commands = typer.Typer()
consumers = typer.Typer()
commands.add_typer(consumers, name="consumers")
_TO = "Consumer that receives the entries."
_INSIDE = option("--group", "ID", "Only of this group, or of this request.")
AGES = ("<1m", "<10m", "<1h", "<1d", "≥1d")


@options
class ConsumerListOptions:
    name: str | None = ANY_QUEUE
    request: str | None = _INSIDE
    silent_for: str = option(
        "--silent-for", "SPAN", "Report a consumer as silent after this time.", default="5m"
    )
    poison: int = option(
        "--poison",
        "N",
        "Report an entry as poison from N deliveries on.",
        min=2,
        max=MOST,
        default=10,
    )


@command(consumers, "ls", prints="ConsumerReport", repeats=True)
def ls(s: Session, given: ConsumerListOptions) -> int:
    """List lag and pending entries of each group; the entries that each consumer holds, since when,
    and how often they were delivered; silent consumers, and poison entries.

    Examples:
      redisq consumers ls mail
      redisq consumers ls stream:orders --silent-for 15m --json
    """
    from redisq_ops.core.redis.operation import apart, together
    from redisq_ops.core.redis.server_errors import translate
    from redisq_ops.ops.inspect.consumers import consumer_reports

    silent, named = duration_ms(given.silent_for), given.name
    queues = [s.run(s.deployment.queue(named))] if named else s.run(s.deployment.queues())
    read = s.run(
        together(
            apart(consumer_reports(queue, given.request, silent_ms=silent, poison=given.poison))
            for queue in queues
        )
    )
    first, code = True, 0
    for queue, found in zip(queues, read, strict=True):
        if isinstance(found, Exception):
            if named or not isinstance(known := translate(found), Refused):
                raise found
            code = PARTLY_DONE  # the other queues are shown
            say(printable(f"{queue.name}: {known}"))
            continue
        first = print_reports(s, found, given.poison, first=first, all=bool(named))
    if first and not s.json:
        say("no consumer holds an entry")
    return code


def print_reports(
    s: Session, reports: Sequence[ConsumerReport], poison: int, *, first: bool, all: bool
) -> bool:
    """Print reports, those without consumers only with ``all``. ``first``, and the result: whether
    nothing was printed so far."""
    for report in reports:
        if s.json:
            emit(_row(report))
        elif all or report.pending or report.consumers:
            if not first:
                print()
            first = False
            _print(report, poison)
    return first


def _row(report: ConsumerReport) -> ConsumerReportOutput:
    from redisq_ops.ops.inspect.consumers import AGES_MS, DELIVERIES

    lags = [load.lag for load in report.loads]
    return {
        "queue": report.queue,
        "group": report.group,
        "lag": None if None in lags else sum(lag for lag in lags if lag is not None),
        "pending": report.pending,
        "groups": [
            {"name": load.group, "pending": load.pending, "lag": load.lag, "again": load.again}
            for load in report.loads
        ],
        "consumers": [
            {
                "name": one.name,
                "pending": one.pending,
                "idle_ms": one.idle_ms,
                "oldest_age_ms": one.oldest_ms,
                "late": one.late,
                "silent": one.silent_ms is not None,
                "silent_ms": one.silent_ms,
            }
            for one in report.consumers
        ],
        "heat": {
            "deliveries": [*DELIVERIES],
            "ages_ms": [*AGES_MS],
            "counts": [[*row] for row in report.heat],
        },
        "poison": [
            {
                "id": row.id,
                "consumer": row.consumer,
                "age_ms": row.age_ms,
                "deliveries": row.deliveries,
                "late_ms": row.late_ms,
            }
            for row in report.poison
        ],
        "scanned": report.looked,
    }


def _print(report: ConsumerReport, poison: int) -> None:
    from redisq_ops.ops.inspect.consumers import DELIVERIES

    inside = f", group {report.group}" if report.group else ""
    tell(f"queue {report.queue}{inside}")
    for load in report.loads[:20]:
        name = f"group {load.group}: " if load.group and load.group != report.group else ""
        lag = "unknown" if load.lag is None else count(load.lag)
        held = "unknown" if load.pending is None else count(load.pending)
        again = f", {count(load.again)} wait to run again" if load.again else ""
        tell_sentence(
            f"{name}lag {lag} (not delivered yet), pending {held} (delivered, not settled){again}"
        )
    if len(report.loads) > 20:
        tell(f"  … {len(report.loads) - 20:,} more groups")
    if report.consumers:
        print()
        table(
            ["consumer", "pending", "idle", "oldest", "leases over", ""],
            [
                [
                    one.name,
                    one.pending,
                    age_or_none(one.idle_ms),
                    age_or_none(one.oldest_ms),
                    one.late,
                    "" if one.silent_ms is None else f"silent for {age(one.silent_ms)}",
                ]
                for one in report.consumers
            ],
        )
    if report.looked:
        names = [
            f"{n}" if after == n + 1 else f"{n}-{after - 1}" for n, after in pairwise(DELIVERIES)
        ] + [f"{DELIVERIES[-1]}+"]
        print()
        table(
            ["deliveries", *AGES],
            [[name, *(n or "" for n in row)] for name, row in zip(names, report.heat, strict=True)],
        )
        tell(f"  of the first {count(report.looked)} of {count(report.pending)} pending")
    for row in report.poison[:20]:
        times = (
            "given up for good" if row.deliveries is None else f"delivered {row.deliveries} times"
        )
        tell_sentence(f"poison: {row.id}, {times}, {row.consumer or 'nobody'} has it")
    if len(report.poison) > 20:
        tell(f"  … {len(report.poison) - 20:,} more delivered {poison} times or more")


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


@command(consumers, "claim", prints="Plan Outcome")
def claim(s: Session, given: ClaimHeldOptions) -> int:
    """Give the entries that a consumer holds to another consumer. In a queue of redisq the old
    receipts become invalid.

    Examples:
      redisq consumers claim mail w1 --to w2 --min-idle 10m --dry-run
      redisq consumers claim stream:orders w1 --group billing --to w2 --yes
      redisq consumers claim mail w1 --to w2 --plan p.ndjson
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
        words = ("consumers", "claim", name, consumer, "--dry-run")
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


@command(consumers, "ack", prints="Plan Outcome")
def ack(s: Session, given: SettleOptions) -> int:
    """Acknowledge what a consumer of a plain stream holds: its group is done with these entries.
    They stay in the stream for other groups. Undo makes them pending again.

    Examples:
      redisq consumers ack stream:orders w1 --group billing --entry 1795532724128-0
      redisq consumers ack stream:orders w1 --min-idle 1h --dry-run
    """
    return _settled(s, given, acknowledge=True)


@command(consumers, "requeue", prints="Plan Outcome")
def requeue(s: Session, given: SettleOptions) -> int:
    """Give what a consumer holds to no consumer in particular: it waits for a worker again. Of a
    plain stream it stays pending and nobody has it, which needs Redis 8.8.

    Examples:
      redisq consumers requeue mail w1 --dry-run
      redisq consumers requeue stream:orders w1 --group billing --yes
    """
    return _settled(s, given, acknowledge=False)


def _settled(s: Session, given: SettleOptions, *, acknowledge: bool) -> int:
    from redisq_ops.ops.change.held_entries import check_settleable

    idle_ms = 0 if given.entry else duration_ms(given.min_idle)
    queue = s.run(s.deployment.queue(given.name))
    s.run(check_settleable(queue, acknowledge=acknowledge))
    held = _held(s, given.name, given.consumer, given.request, idle_ms, given.entry or ())
    return _changed(s, held, given.go, None, remove=False, acknowledge=acknowledge)


@command(consumers, "remove", prints="Plan Outcome")
def remove(
    s: Session,
    *,
    name: str = QUEUE,
    consumer: str = argument("NAME"),
    to: str | None = option("--to", "NAME", _TO),
    request: str | None = _INSIDE,
    go: Go,
) -> int:
    """Remove a consumer without losing its entries. They go to the consumer of --to first; without
    --to back to waiting, or in a plain stream to the consumer `operator`. The consumer is removed
    once it holds nothing.

    Examples:
      redisq consumers remove mail w1 --dry-run
      redisq consumers remove stream:orders w1 --group billing --to w2 --yes
    """
    from redisq_ops.core.engine.optional_features import HasConsumerGroups

    held = _held(s, name, consumer, request, 0)
    if to is None and isinstance(held.queue, HasConsumerGroups):
        to = "operator"  # delivered entries of a plain stream can't go back to waiting
    return _changed(s, held, go, to, remove=True)


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
        emit(asdict(outcome) | {"removed": steps.removed})
    else:
        skipped = ", ".join(f"{count(n)} {reason}" for reason, n in outcome.skipped.items())
        past = f"{'removed' if remove and steps.removed else 'took from'} {held.what} of {queue}"
        line = f"{past}: {count(outcome.done)} of {count(outcome.matched)} entries"
        line += f" to {to}" if to else " acknowledged" if acknowledge else " wait again"
        print(printable(line + (f", skipped {skipped}" if skipped else "") + f" (op {outcome.op})"))
        if outcome.done and outcome.op and steps.undoable:
            say(printable(f"undo with: {hint('undo', outcome.op)}"))
    if not finished:
        tell_interrupted(s, outcome, s.again)
    return outcome.exit_code if finished else INTERRUPTED
