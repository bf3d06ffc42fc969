"""Arrow batches of values that the core has parsed one by one: entries, requests, results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from redisq_ops.core.model.entry import Counts, Entry, Failure, Request, State
from redisq_ops.core.model.task_figures import TaskReport
from redisq_ops.core.queues.request.outcomes import SubRequestOutcome
from redisq_ops.ops.groups import fingerprint
from redisq_ops.ops.inspect.periodic import PeriodicStatus

from .arrow_batch import (
    Columns,
    RowOrigin,
    build_with_placeholders,
    corrupt_row,
    describe_error,
    make_batch,
    origin_columns,
)

INT_LIMIT = 2**31
_COUNTED: tuple[State, ...] = ("waiting", "pending", "delayed", "dead", "trash", "done")
PAYLOAD_COLUMNS = {"payload", "payload_bytes"}
_PLACE_TIMES = {"since_at", "deadline_at", "ready_at"}
"""times from the key that lists the entry, known even if its record can't be read"""

Row = dict[str, Any]
"""values by column; times in ms"""
_OF_TASK = ("task", "every", "ended", "failed", "p50_ms", "p95_ms", "timed")
_OF_SCHEDULE = ("name", "program", "cron", "zone", "task", "run", "paused", "payload")


def _request_of(entry: Entry) -> str | None:
    return entry.id.rpartition("/")[0] or None


def _number_of(entry: Entry) -> int | None:
    last = entry.id.rpartition("/")[2]
    return int(last) if "/" in entry.id and last.isdecimal() and int(last) < INT_LIMIT else None


def _fingerprint(error: Failure | None, reason: str | None) -> str | None:
    if error is None:
        return None if reason is None else fingerprint.error_fingerprint(None, "", reason)
    return fingerprint.error_fingerprint(error.type, error.message, reason)


ENTRY_COLUMNS: dict[str, Callable[[Entry], Any]] = {
    "state": attrgetter("state"),
    "called": attrgetter("called"),
    "task": attrgetter("task"),
    "client": attrgetter("client"),
    "failures": lambda e: e.failures if e.counted else None,
    "lost": lambda e: e.lost if e.counted else None,
    "attempts": lambda e: e.attempts if e.counted else None,
    "first_at": attrgetter("first_ms"),
    "since_at": attrgetter("since_ms"),
    "consumer": attrgetter("consumer"),
    "op": attrgetter("op"),
    "deadline_at": attrgetter("at_ms"),
    "ready_at": attrgetter("at_ms"),
    "deliveries": attrgetter("deliveries"),
    "run_ms": attrgetter("run_ms"),
    "reason": attrgetter("reason"),
    "error_type": lambda e: e.error.type if e.error else None,
    "error": lambda e: e.error.message if e.error else None,
    "traceback": lambda e: e.error.traceback if e.error else None,
    "fingerprint": lambda e: _fingerprint(e.error, e.reason),
    "payload": attrgetter("payload"),
    "payload_bytes": lambda e: None if e.payload is None else len(e.payload),
}


def entry_batch(
    entries: Sequence[Entry], origin: RowOrigin, schema: pa.Schema, payloads: bool = True
) -> pa.RecordBatch:
    """Entries that the core has decoded one by one. Of one with a ``problem`` only its id and its
    times in the state are known."""
    return build_with_placeholders(
        lambda rows: _entry_batch(rows, origin, schema, payloads),
        entries,
        lambda entry: Entry(entry.id, entry.state, problem="it has a value out of range"),
    )


def _entry_batch(
    rows: Sequence[Entry], origin: RowOrigin, schema: pa.Schema, payloads: bool
) -> pa.RecordBatch:
    whole = not any(entry.problem for entry in rows)
    columns: Columns = {**origin_columns(origin, len(rows)), "id": [entry.id for entry in rows]}
    if origin.requests:
        columns["request"] = [_request_of(entry) for entry in rows]
        columns["number"] = [_number_of(entry) for entry in rows]
    for name in schema.names:
        get = ENTRY_COLUMNS.get(name)
        if get is None or (name in PAYLOAD_COLUMNS and not payloads):
            continue
        if whole or name in _PLACE_TIMES:
            columns[name] = list(map(get, rows))
        else:
            columns[name] = [None if entry.problem else get(entry) for entry in rows]
    columns["_corrupt"] = [entry.problem for entry in rows]
    return make_batch(columns, len(rows), schema)


def unreadable_row(
    request: str, number: int | None, reason: str, origin: RowOrigin, schema: pa.Schema
) -> pa.RecordBatch:
    """A row for a sub-request, or a whole request (``number`` None), that can't be read."""
    id = request if number is None else f"{request}/{number}"
    return corrupt_row(reason, origin, schema, id=id, request=request, number=number)


_REQUEST_COLUMNS: dict[str, Callable[[Request], Any]] = {
    "created_at": lambda r: r.created_ms or None,
    "added_at": lambda r: r.added_ms,
    "closed_at": lambda r: r.closed_ms,
}


def request_batch(
    found: Sequence[tuple[str, Request | Exception | None]], origin: RowOrigin, schema: pa.Schema
) -> pa.RecordBatch:
    """Requests; None, a request deleted meanwhile, is left out."""
    rows = [(id, row) for id, row in found if row is not None]
    return build_with_placeholders(
        lambda rows: _request_batch(rows, origin, schema),
        rows,
        lambda row: (row[0], OverflowError()),
    )


def _request_batch(
    rows: Sequence[tuple[str, Request | Exception]], origin: RowOrigin, schema: pa.Schema
) -> pa.RecordBatch:
    columns: Columns = {**origin_columns(origin, len(rows)), "request": [id for id, _ in rows]}
    for name in schema.names:
        if name in columns or name == "_corrupt":
            continue
        get = _REQUEST_COLUMNS.get(name) or attrgetter(name)
        columns[name] = [get(row) if isinstance(row, Request) else None for _, row in rows]
    columns["_corrupt"] = [
        f"its record can't be read: {describe_error(row)}" if isinstance(row, Exception) else None
        for _, row in rows
    ]
    return make_batch(columns, len(rows), schema)


def result_batch(
    request: str, found: Sequence[SubRequestOutcome], origin: RowOrigin, schema: pa.Schema
) -> pa.RecordBatch:
    """Results of a request's sub-requests."""
    columns: Columns = {
        **origin_columns(origin, len(found)),
        "request": [request] * len(found),
        "number": [o.number for o in found],
        "state": [o.state for o in found],
        "result": [o.result for o in found],
        "error_type": [o.error.type if o.error else None for o in found],
        "error": [o.error.message if o.error else None for o in found],
    }
    return make_batch(columns, len(found), schema)


def count_rows(counts: Counts) -> list[Row]:
    return [
        {state: counts.of(state) for state in _COUNTED}
        | {
            "oldest_at": counts.oldest_ms,
            "paused": counts.paused,
            "closed": counts.closed,
            "_corrupt": counts.problem,
        }
    ]


def task_rows(report: TaskReport) -> list[Row]:
    """A row per task, with what was read of the queue and what it lacks."""
    shared: Row = {
        "since_at": report.since_ms,
        "until_at": report.until_ms,
        "source": report.source,
        "remarks": "; ".join(report.remarks) or None,
    }
    return [
        shared
        | {name: getattr(one, name) for name in _OF_TASK}
        | {
            "times": report.times if one.timed else None,
            "error_type": one.error and one.error.type,
            "error": one.error and one.error.message,
            "error_at": one.error_ms,
        }
        for one in report.tasks
    ]


def schedule_rows(found: Sequence[PeriodicStatus]) -> list[Row]:
    return [
        {name: getattr(one.entry, name) for name in _OF_SCHEDULE}
        | {
            "next_at": one.entry.next_ms,
            "run_at": one.entry.run_ms,
            "run_state": one.run_state,
            "missed_runs": one.missed,
            "overdue": one.overdue,
            "held": one.held,
            "payload_bytes": None if one.entry.payload is None else len(one.entry.payload),
            "_corrupt": one.entry.problem,
        }
        for one in found
    ]


def queue_batch(
    rows: Sequence[Row], origin: RowOrigin, schema: pa.Schema, payloads: bool
) -> pa.RecordBatch:
    """Rows about one shard or queue."""
    columns: Columns = {name: [row.get(name) for row in rows] for name in schema.names}
    if not payloads:
        columns |= dict.fromkeys(PAYLOAD_COLUMNS)
    return make_batch({**columns, **origin_columns(origin, len(rows))}, len(rows), schema)
