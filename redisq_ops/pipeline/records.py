"""Values that the core has read, as Arrow: entries one by one, requests, results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from redisq_ops.core.model.entry import Entry, Failure, Request
from redisq_ops.core.queues.request.outcomes import SubRequestOutcome
from redisq_ops.ops.groups import fingerprint

from .batch import Columns, RowOrigin, aside, batch, kept, placed, why

INT = 2**31
FROM_PAYLOAD = {"payload", "payload_bytes"}
_MOMENTS = {"since_at", "deadline_at", "ready_at"}
"""columns from an entry's place, which is known of one that can't be read too"""

Read = tuple[Entry, str | None]
"""an entry, and why it couldn't be read"""


def _request_of(entry: Entry) -> str | None:
    return entry.id.rpartition("/")[0] or None


def _number_of(entry: Entry) -> int | None:
    last = entry.id.rpartition("/")[2]
    return int(last) if "/" in entry.id and last.isdecimal() and int(last) < INT else None


def _group(error: Failure | None, reason: str | None) -> str | None:
    if error is None:
        return None if reason is None else fingerprint.error_fingerprint(None, "", reason)
    return fingerprint.error_fingerprint(error.type, error.message, reason)


OF_ENTRY: dict[str, Callable[[Entry], Any]] = {
    "state": lambda e: e.state,
    "called": lambda e: e.called,
    "client": lambda e: e.client,
    "failures": lambda e: e.failures,
    "lost": lambda e: e.lost,
    "attempts": lambda e: e.attempts,
    "first_at": lambda e: e.first_ms,
    "since_at": lambda e: e.since_ms,
    "consumer": lambda e: e.consumer,
    "op": lambda e: e.op,
    "deadline_at": lambda e: e.at_ms,
    "ready_at": lambda e: e.at_ms,
    "deliveries": lambda e: e.deliveries,
    "reason": lambda e: e.reason,
    "error_type": lambda e: e.error.type if e.error else None,
    "error": lambda e: e.error.message if e.error else None,
    "traceback": lambda e: e.error.traceback if e.error else None,
    "fingerprint": lambda e: _group(e.error, e.reason),
    "payload": lambda e: e.payload,
    "payload_bytes": lambda e: None if e.payload is None else len(e.payload),
}


def entries(
    read: Sequence[Read], place: RowOrigin, schema: pa.Schema, payloads: bool = True
) -> pa.RecordBatch:
    """Entries that were decoded one by one, by the core."""
    return kept(
        lambda rows: _entries(rows, place, schema, payloads),
        read,
        lambda row: (Entry(row[0].id, row[0].state), "it has a value out of range"),
    )


def _entries(
    read: Sequence[Read], place: RowOrigin, schema: pa.Schema, payloads: bool
) -> pa.RecordBatch:
    rows = [entry for entry, _ in read]
    columns: Columns = {**placed(place, len(rows)), "id": [entry.id for entry in rows]}
    if place.requests:
        columns["request"] = [_request_of(entry) for entry in rows]
        columns["number"] = [_number_of(entry) for entry in rows]
    for name in schema.names:
        get = OF_ENTRY.get(name)
        if get is None or (name in FROM_PAYLOAD and not payloads):
            continue
        always = name in _MOMENTS
        columns[name] = [None if wrong and not always else get(entry) for entry, wrong in read]
    columns["_corrupt"] = [wrong for _, wrong in read]
    return batch(columns, len(rows), schema)


def unread(
    request: str, number: int | None, why: str, place: RowOrigin, schema: pa.Schema
) -> pa.RecordBatch:
    """A row for what of a request could not be read: one sub-request, or all."""
    id = request if number is None else f"{request}/{number}"
    return aside(why, place, schema, id=id, request=request, number=number)


_OF_REQUEST: dict[str, Callable[[Request], Any]] = {
    "created_at": lambda r: r.created_ms or None,
    "added_at": lambda r: r.added_ms,
    "closed_at": lambda r: r.closed_ms,
}


def requests(
    found: Sequence[tuple[str, Request | Exception | None]], place: RowOrigin, schema: pa.Schema
) -> pa.RecordBatch:
    """Requests; those that went meanwhile are no rows."""
    rows = [(id, row) for id, row in found if row is not None]
    return kept(
        lambda rows: _requests(rows, place, schema),
        rows,
        lambda row: (row[0], OverflowError()),
    )


def _requests(
    rows: Sequence[tuple[str, Request | Exception]], place: RowOrigin, schema: pa.Schema
) -> pa.RecordBatch:
    columns: Columns = {**placed(place, len(rows)), "request": [id for id, _ in rows]}
    for name in schema.names:
        if name in columns or name == "_corrupt":
            continue
        get = _OF_REQUEST.get(name) or attrgetter(name)
        columns[name] = [get(row) if isinstance(row, Request) else None for _, row in rows]
    columns["_corrupt"] = [
        f"its record can't be read: {why(row)}" if isinstance(row, Exception) else None
        for _, row in rows
    ]
    return batch(columns, len(rows), schema)


def results(
    request: str, found: Sequence[SubRequestOutcome], place: RowOrigin, schema: pa.Schema
) -> pa.RecordBatch:
    """What came of a request's sub-requests."""
    columns: Columns = {
        **placed(place, len(found)),
        "request": [request] * len(found),
        "number": [o.number for o in found],
        "state": [o.state for o in found],
        "result": [o.result for o in found],
        "error_type": [o.error.type if o.error else None for o in found],
        "error": [o.error.message if o.error else None for o in found],
    }
    return batch(columns, len(found), schema)
