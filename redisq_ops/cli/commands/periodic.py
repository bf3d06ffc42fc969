"""`redisq periodic`: entries that run on a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import BadInput, RedisqError
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE
from redisq_ops.core.model.keys import checked_name, known_name
from redisq_ops.ops.filter.time import duration_ms

from ..address import tell_unread_queues
from ..confirm_and_run import confirm_and_run
from ..options import QUEUES, Go, argument, command, flag, option, options
from ..output import emit, say, table, when
from ..payload_argument import payload_bytes
from ..session import Session, redaction

if TYPE_CHECKING:
    from redisq_ops.core.engine.queue import Queue
    from redisq_ops.ops.inspect.periodic import PeriodicStatus

    from ..output_types.queues import PeriodicEntryOutput

commands = typer.Typer()
periodic = typer.Typer()
commands.add_typer(periodic, name="periodic")
_CHANGE = "Plan Outcome"
_ADDRESS = argument("QUEUE/NAME", "Periodic entry.")


@options
class Schedule:
    """When a periodic entry runs, and how runs go together."""

    cron: str | None = option(
        "--cron", "EXPR", "Schedule: minute, hour, day of month, month, day of week."
    )
    interval: str | None = option(
        "--every", "SPAN", "Schedule as an interval that divides an hour or a day: 15m."
    )
    zone: str | None = option("--zone", "ZONE", "Time zone of the schedule. [UTC]")
    missed: str | None = option(
        "--missed", "WHICH", "Missed runs to make up for: one (the latest), all, none."
    )
    overlap: bool | None = flag(
        "--overlap/--no-overlap",
        "Let a run start while the previous one is unfinished.",
        default=None,
    )


@command(periodic, "ls", prints="PeriodicEntry", repeats=True)
def ls(s: Session, *, names: list[str] | None = QUEUES) -> int:
    """List the periodic entries of queues: next run, latest run, missed runs. Exit 3 if
    an entry is corrupt or a queue could not be read; the others are shown. Schedules of other
    programs are listed too, and changed where their program can.

    Examples:
      redisq periodic ls
      redisq periodic ls later --json
    """
    from redisq_ops.core.redis.operation import apart, together
    from redisq_ops.ops.inspect.periodic import periodic_status

    queues, refused = _queues(s, names or ())
    unread = dict(refused)
    found = s.run(together(apart(periodic_status(queue)) for queue in queues))
    rows: list[PeriodicEntryOutput] = []
    problem = False
    for queue, entries in zip(queues, found, strict=True):
        if isinstance(entries, RedisqError) and not names:
            unread[queue.name] = entries
        elif isinstance(entries, Exception):
            raise entries
        else:
            rows += [periodic_row(queue.name, one) for one in entries]
            problem = problem or any(one.entry.problem for one in entries)
    if s.json:
        for row in rows:
            emit(row)
    elif rows:
        periodic_table(s, rows)
    elif not unread:
        say("no periodic entries")
    return PARTLY_DONE if tell_unread_queues(unread) or problem else DONE


def _queues(
    s: Session, names: Sequence[str]
) -> tuple[list[Queue[Any]], Mapping[str, RedisqError | str]]:
    """The named queues, or all that can have periodic entries; and the errors of others."""
    from redisq_ops.core.engine.optional_features import HasPeriodicEntries

    from ..address import queues_named

    if names:
        return queues_named(s, names)
    queues, refused = s.run(s.deployment.registered())
    return [queue for queue in queues if isinstance(queue, HasPeriodicEntries)], dict(refused)


def periodic_row(queue: str, status: PeriodicStatus) -> PeriodicEntryOutput:
    """A periodic entry as stable JSON names, redacted."""
    entry = status.entry
    told = Entry(entry.name, "delayed", payload=entry.payload, task=entry.task)
    spec, shown = entry.spec, redaction().entry(told)
    return {
        "queue": queue,
        "name": entry.name,
        "address": f"{queue}/{entry.name}",
        "program": entry.program,
        "cron": entry.cron,
        "zone": entry.zone,
        "task": shown.task,
        "next_ms": entry.next_ms,
        "run": entry.run,
        "run_ms": entry.run_ms,
        "run_state": status.run_state,
        "missed_runs": status.missed,
        "overdue": status.overdue,
        "held": status.held,
        "paused": entry.paused,
        "missed": spec.missed if spec else None,
        "overlap": spec.overlap if spec else None,
        "problem": entry.problem,
        "payload": shown.payload,
    }


def periodic_table(s: Session, rows: list[PeriodicEntryOutput]) -> None:
    """Rows of `periodic_row`, for people."""
    table(
        ["periodic entry", "task", "schedule", "zone", "next run", "latest run", "state", "flags"],
        [
            [
                row["address"],
                row["task"],
                row["cron"],
                row["zone"],
                when(row["next_ms"], s.utc),
                when(row["run_ms"], s.utc),
                row["run_state"],
                _flags(row),
            ]
            for row in rows
        ],
    )


def _flags(row: PeriodicEntryOutput) -> str:
    from redisq_ops.ops.inspect.periodic import missed_words

    flags = ["paused"] if row["paused"] else []
    if row["overdue"]:
        flags.append(f"{missed_words(row['missed_runs'])} missed")
    if row["held"]:
        flags.append("waits for the end of the latest run")
    return "; ".join([*flags, *filter(None, [row["problem"]])])


@command(periodic, "add", prints=_CHANGE)
def add(
    s: Session,
    *,
    address: str = _ADDRESS,
    payload: str | None = argument("[PAYLOAD|-]", "Payload of the runs; -: stdin."),
    schedule: Schedule,
    go: Go,
) -> int:
    """Add a periodic entry; creates the queue if it does not exist.

    Examples:
      redisq periodic add later/report --cron '0 6 * * mon-fri' --zone Europe/Berlin daily
      redisq periodic add later/poll --every 15m --missed none --yes
    """
    return _scheduled(s, "add", address, schedule, payload, go)


@command(periodic, "edit", prints=_CHANGE)
def edit(
    s: Session,
    *,
    address: str = _ADDRESS,
    payload: str | None = option("--payload", "PAYLOAD|-", "Payload of the runs; -: stdin."),
    schedule: Schedule,
    go: Go,
) -> int:
    """Change schedule, payload or options of a periodic entry.

    Examples:
      redisq periodic edit later/report --cron '30 6 * * *' --dry-run
    """
    return _scheduled(s, "edit", address, schedule, payload, go)


def _scheduled(
    s: Session, verb: str, address: str, asked: Schedule, payload: str | None, go: Go
) -> int:
    """Add a periodic entry, or change its schedule or payload."""
    from redisq_ops.core.queues.delay.periodic import every

    found = {name: getattr(asked, name) for name in ("cron", "zone", "missed", "overlap")}
    if asked.interval is not None:
        if asked.cron is not None:
            raise BadInput("--cron or --every: give one of them")
        found["cron"] = every(duration_ms(asked.interval))
    elif verb == "add" and asked.cron is None:
        raise BadInput("give either --cron or --every")
    if payload is not None:
        found["payload"] = payload_bytes(payload)
    fields = {name: value for name, value in found.items() if value is not None}
    return _change(s, verb, address, go, fields)


@command(periodic, "pause", prints=_CHANGE)
def pause(s: Session, *, address: str = _ADDRESS, go: Go) -> int:
    """Schedule no runs until it is resumed. Runs that are scheduled already stay.

    Examples:
      redisq periodic pause later/report --yes
    """
    return _change(s, "pause", address, go)


@command(periodic, "resume", prints=_CHANGE)
def resume(s: Session, *, address: str = _ADDRESS, go: Go) -> int:
    """Schedule runs again, from now on; runs due during the pause are skipped.

    Examples:
      redisq periodic resume later/report --yes
    """
    return _change(s, "resume", address, go)


@command(periodic, "run", prints=_CHANGE)
def run(s: Session, *, address: str = _ADDRESS, go: Go) -> int:
    """Run a periodic entry once, now, beside its schedule. Of another program's schedule, the next
    planned run may happen now instead: the preview says so.

    Examples:
      redisq periodic run later/report --yes
    """
    return _change(s, "run", address, go)


@command(periodic, "rm", prints=_CHANGE)
def rm(s: Session, *, address: str = _ADDRESS, go: Go) -> int:
    """Remove a periodic entry, also a corrupt one. Runs that are scheduled already stay.

    Examples:
      redisq periodic rm later/report --yes
    """
    return _change(s, "rm", address, go)


def _change(
    s: Session, verb: str, address: str, go: Go, fields: Mapping[str, Any] | None = None
) -> int:
    """Change a periodic entry; ``fields``: those of a `Periodic` that are set."""
    from redisq_ops.ops.change.periodic import carry_out, periodic_preview, prepare_change

    queue, name = _place(s, address, verb)
    prepared = s.run(prepare_change(queue, name, verb, dict(fields or {})))
    new = verb == "add" and not prepared.same and not s.run(queue.exists.op())
    preview = periodic_preview(prepared, new=new, utc=s.utc, shown=redaction().text)
    return confirm_and_run(s, preview, go, partial(carry_out, prepared))


def _place(s: Session, address: str, verb: str) -> tuple[Queue[Any], str]:
    from redisq_ops.core.queues.delay import DelaySet

    name, slash, entry = address.partition("/")
    if not slash:
        raise BadInput(f"{address!r} lacks a name: QUEUE/NAME")
    if verb != "add":
        from redisq_ops.core.model.quoting import legal, raw_of

        queue = s.run(s.deployment.queue(name))
        return queue, legal(raw_of(entry)) if queue.owner else checked_name(entry, "periodic name")
    there = s.run(s.deployment.named(known_name(name, "queue name")))
    return there or DelaySet(s.client, name, prefix=s.deployment.prefix), entry
