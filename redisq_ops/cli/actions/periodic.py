"""`redisq periodic`: entries that run on a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from redisq_ops.core.engine.optional_features import HasPeriodicEntries
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.schedule import OwnersSchedule
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.errors import BadInput, RedisqError
from redisq_ops.core.model.exit_codes import DONE, PARTLY_DONE
from redisq_ops.core.model.keys import checked_name, known_name
from redisq_ops.core.model.quoting import legal, raw_of
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.delay.periodic import every
from redisq_ops.core.redis.operation import apart, together
from redisq_ops.ops.change.periodic import carry_out, periodic_preview, prepare_change
from redisq_ops.ops.filter.time import duration_ms
from redisq_ops.ops.inspect.periodic import PeriodicStatus, missed_words, periodic_status

from ..confirm_and_run import confirm_and_run
from ..options import Go
from ..output import emit, printable, say, table, when
from ..payload_argument import payload_bytes
from ..session import Session, redaction

if TYPE_CHECKING:
    from ..commands.periodic import Schedule


def listed(s: Session, name: str | None) -> int:
    queues, unread = _queues(s, name)
    found = s.run(together(apart(periodic_status(queue)) for queue in queues))
    rows, problem = list[dict[str, Any]](), False
    for queue, entries in zip(queues, found, strict=True):
        if isinstance(entries, RedisqError) and not name:
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
    for unknown, why in unread.items():
        say(printable(f"{unknown}: not looked at: {why}"))
    return PARTLY_DONE if unread or problem else DONE


def _queues(s: Session, name: str | None) -> tuple[list[Queue[Any]], dict[str, RedisqError]]:
    """The queue of that name, or all that can have periodic entries; and the errors of others."""
    if name is not None:
        return [s.run(s.deployment.queue(name))], {}
    queues, refused = s.run(s.deployment.registered())
    return [queue for queue in queues if isinstance(queue, HasPeriodicEntries)], dict(refused)


def periodic_row(queue: str, status: PeriodicStatus) -> dict[str, Any]:
    """A periodic entry as stable JSON names, redacted."""
    entry = status.entry
    spec = None if isinstance(entry, OwnersSchedule) else entry.spec
    return {
        "queue": queue,
        "name": entry.name,
        "address": f"{queue}/{entry.name}",
        "program": entry.program if isinstance(entry, OwnersSchedule) else None,
        "cron": entry.cron,
        "zone": entry.zone,
        "task": entry.task if isinstance(entry, OwnersSchedule) else None,
        "next_ms": entry.next_ms,
        "run": entry.run,
        "run_ms": entry.run_ms,
        "run_state": status.run_state,
        "missed_runs": status.missed,
        "overdue": status.overdue,
        "held": status.held,
        "paused": entry.paused,
        "missed": spec and spec.missed,
        "overlap": spec and spec.overlap,
        "problem": entry.problem,
        "payload": redaction().entry(Entry(entry.name, "delayed", payload=entry.payload)).payload,
    }


def periodic_table(s: Session, rows: list[dict[str, Any]]) -> None:
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


def _flags(row: Mapping[str, Any]) -> str:
    flags = ["paused"] if row["paused"] else []
    if row["overdue"]:
        flags.append(f"{missed_words(row['missed_runs'])} missed")
    if row["held"]:
        flags.append("waits for the end of the latest run")
    return "; ".join([*flags, *filter(None, [row["problem"]])])


def scheduled(
    s: Session, verb: str, address: str, asked: Schedule, payload: str | None, go: Go
) -> int:
    """Add a periodic entry, or change its schedule or payload."""
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
    return change(s, verb, address, go, fields)


def change(
    s: Session, verb: str, address: str, go: Go, fields: Mapping[str, Any] | None = None
) -> int:
    """Change a periodic entry; ``fields``: those of a `Periodic` that are set."""
    queue, name = _place(s, address, verb)
    prepared = s.run(prepare_change(queue, name, verb, dict(fields or {})))
    new = verb == "add" and not prepared.same and not s.run(queue.exists.op())
    preview = periodic_preview(prepared, new=new, utc=s.utc)
    return confirm_and_run(s, preview, go, partial(carry_out, prepared))


def _place(s: Session, address: str, verb: str) -> tuple[Queue[Any], str]:
    name, slash, entry = address.partition("/")
    if not slash:
        raise BadInput(f"{address!r} lacks a name: QUEUE/NAME")
    if verb != "add":
        queue = s.run(s.deployment.queue(name))
        return queue, legal(raw_of(entry)) if queue.owner else checked_name(entry, "periodic name")
    there = s.run(s.deployment.named(known_name(name, "queue name")))
    return there or DelaySet(s.client, name, prefix=s.deployment.prefix), entry
