"""From what the server says to Arrow, a column at a time; rows that can't be read are kept aside.

The quick way decodes a column of thousands at once and gives up at the first value that isn't as
the core writes it; then those rows are read one by one by the core's own readers, and one that
these can't read either has its place, its id and the reason in ``_corrupt``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from redisq_ops.core import record
from redisq_ops.core.errors import WrongKind
from redisq_ops.core.request.outcomes import Outcome
from redisq_ops.core.scan import Sheet
from redisq_ops.core.values import Entry, Failure, Request, State
from redisq_ops.ops import fingerprint

from . import failures

Columns = dict[str, Any]
_INT = 2**31
_WORDS = {name: nth for nth, name in enumerate(record.FIELDS)}
_FROM_LINE = {
    "failures", "lost", "attempts", "first_at", "since_at", "consumer", "op", "reason",
    "fingerprint",
}  # fmt: skip
_FROM_ERROR = {"error_type", "error", "traceback", "fingerprint"}
_FROM_PAYLOAD = {"payload", "payload_bytes"}
_MOMENTS = {"since_at", "deadline_at", "ready_at"}
"""columns from an entry's place, which is known of one that can't be read too"""
_NEVER = 253_402_300_800_000
"""ms: the year 10000"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows come from."""

    queue: str
    kind: str | None
    shard: int
    requests: bool
    """whether ids are REQUEST/N"""


def wanted(names: Sequence[str], payloads: bool, requests: bool = False) -> frozenset[str]:
    """The columns of a `Sheet` that these columns of a table are made from."""
    columns = set(names)
    found = {
        "lines": bool(columns & _FROM_LINE),
        "errors": bool(columns & _FROM_ERROR),
        "payloads": payloads and bool(columns & _FROM_PAYLOAD),
        "clients": "client" in columns,
        "called": "called" in columns,
    }
    return frozenset(name for name, asked in found.items() if asked)


# --- entries -----------------------------------------------------------------------------------


def sheet(page: Sheet, place: Place, state: State, schema: pa.Schema) -> pa.RecordBatch:
    """A sheet's entries."""
    try:
        return _batch(_quickly(page, place, state, set(schema.names)), len(page.ids), schema)
    except (pa.ArrowException, ValueError):
        return entries(_one_by_one(page, state), place, schema)


def _quickly(page: Sheet, place: Place, state: State, names: set[str]) -> Columns:
    n = len(page.ids)
    ids = pa.array(page.ids, pa.binary()).cast(pa.string())
    at = pa.array(page.scores, pa.float64()).cast(pa.int64())
    if (pc.max(pc.abs(at)).as_py() or 0) >= _NEVER:
        raise ValueError("no moment")
    columns: Columns = {
        **_placed(place, n), "id": ids, "state": pa.repeat(state, n), "deadline_at": _moment(at),
        "ready_at": _moment(at),
    }  # fmt: skip
    if place.requests and {"request", "number"} & names:
        columns["request"], columns["number"] = _parted(ids)
    if page.lines is not None:
        _recorded(columns, page.lines, at, state)
    if page.errors is not None:
        if page.lines is not None and None in page.lines:
            odd = (e for e, line in zip(page.errors, page.lines, strict=True) if line is None)
            if any(error is not None for error in odd):
                raise ValueError("an error without a record")
        columns |= _failed(page.errors, "traceback" in names)
        if "fingerprint" in names:
            columns["fingerprint"] = _fingerprints(columns)
    if page.payloads is not None:
        columns["payload"] = pa.array(page.payloads, pa.binary())
        columns["payload_bytes"] = pc.binary_length(columns["payload"])
    if page.clients is not None:
        columns["client"] = pa.array(page.clients, pa.binary()).cast(pa.string())
    if page.called is not None:
        columns["called"] = pa.array(page.called, pa.string())
    return columns


def _placed(place: Place, n: int) -> Columns:
    return {
        "queue": pa.repeat(place.queue, n), "shard": pa.repeat(place.shard, n),
        "kind": pa.repeat(pa.scalar(place.kind, pa.string()), n),
    }  # fmt: skip


def _parted(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    """REQUEST/N; raises where an id is something else."""
    parts = pc.split_pattern(ids, "/", max_splits=1, reverse=True)
    return pc.list_element(parts, 0), pc.list_element(parts, 1).cast(pa.int32())


def _recorded(columns: Columns, lines: Sequence[bytes | None], at: pa.Array, state: State) -> None:
    """Columns from record lines; an entry without one was never touched."""
    words = pc.split_pattern(pa.array(lines, pa.binary()).cast(pa.string()), " ")
    lengths = pc.min_max(pc.list_value_length(words)).as_py()
    if set(lengths.values()) - {None, len(_WORDS)}:
        raise ValueError("a record line of another length")

    def word(name: str) -> pa.Array:
        return pc.list_element(words, _WORDS[name])

    known = pc.is_valid(words)
    failures, lost = (pc.fill_null(word(name).cast(pa.int32()), 0) for name in ("failures", "lost"))
    since = pc.if_else(known, at, None) if state in ("dead", "trash") else _nonzero(word("since"))
    columns |= {
        "failures": failures, "lost": lost, "attempts": pc.add(failures, lost),
        "first_at": _moment(_nonzero(word("first"))), "since_at": _moment(since),
        "consumer": _said(word("consumer")), "op": _said(word("op")),
        "reason": _said(word("reason")),
    }  # fmt: skip


def _nonzero(text: pa.Array) -> pa.Array:
    number = text.cast(pa.int64())
    return pc.if_else(pc.equal(number, 0), None, number)


def _said(word: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(word, "-"), None, word)


def _moment(ms: pa.Array) -> pa.Array:
    return ms.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


# Between two errors that are read as one list; what isn't known can't be in one of them.
_BETWEEN = secrets.token_hex(16)


def _failed(errors: Sequence[bytes | None], with_traceback: bool) -> Columns:
    """Columns from encoded `Failure`; raises where one is no object of texts."""
    names = dict(zip(("error_type", "error", "traceback"), failures.FIELDS, strict=True))
    if not with_traceback:
        del names["traceback"]
    found = failures.cut(errors, tuple(names.values())) or _parsed(errors, tuple(names.values()))
    return {column: found[name] for column, name in names.items()}


def _parsed(errors: Sequence[bytes | None], names: Sequence[str]) -> Columns:
    """The same from whatever JSON they are.

    All are parsed as one list. pyarrow's own reader is out of the question: anybody may write
    these bytes, and some make it crash.
    """
    there = [error for error in errors if error is not None]
    between = b',"%b",' % _BETWEEN.encode()
    parsed = json.loads(b"[" + between.join(there) + b"]") if there else []
    if len(parsed) != max(0, 2 * len(there) - 1) or set(parsed[1::2]) - {_BETWEEN}:
        raise ValueError("an error that isn't one JSON object")
    found: list[Any] = parsed[::2]
    if len(found) < len(errors):
        rows = iter(found)
        found = [_NOTHING if error is None else next(rows) for error in errors]
    try:
        # What isn't text raises, as what isn't there does.
        return {name: pa.array(list(map(itemgetter(name), found)), pa.string()) for name in names}
    except (KeyError, TypeError) as error:
        raise ValueError("an error that isn't as it is written") from error


_NOTHING = {"type": None, "message": None, "traceback": None}


def _fingerprints(columns: Columns) -> pa.Array:
    types, messages = columns["error_type"].to_pylist(), columns["error"].to_pylist()
    reasons = columns["reason"].to_pylist() if "reason" in columns else [None] * len(types)
    groups = _Groups()
    rows = zip(types, messages, reasons, strict=True)
    return pa.array([groups[told] for told in rows], pa.string())


class _Groups(dict[tuple[str | None, str, str | None], str | None]):
    """Fingerprints by type, message and reason: in a batch many are the same."""

    def __missing__(self, told: tuple[str | None, str, str | None]) -> str | None:
        type, message, reason = told
        unknown = type is None and reason is None
        self[told] = group = None if unknown else fingerprint.told(type, message, reason)
        return group


def _group(error: Failure | None, reason: str | None) -> str | None:
    if error is None:
        return None if reason is None else fingerprint.told(None, "", reason)
    return fingerprint.told(error.type, error.message, reason)


Read = tuple[Entry, str | None]
"""an entry, and why it couldn't be read"""


def _one_by_one(page: Sheet, state: State) -> list[Read]:
    n = len(page.ids)
    nothing: list[Any] = [None] * n
    found: list[Read] = []
    for id, score, line, error, payload, client, called in zip(
        page.ids, page.scores, page.lines or nothing, page.errors or nothing,
        page.payloads or nothing, page.clients or nothing, page.called or nothing, strict=True,
    ):  # fmt: skip
        name = _text(id)
        at = int(score) if abs(score) < _NEVER else None
        try:
            id.decode()
            if at is None:
                raise ValueError("no moment")
            if page.lines is None:
                entry = Entry(name, state, at_ms=int(score), payload=payload)
            else:
                entry = record.entry(name, state, score, line, error, payload)
                if not 0 <= entry.attempts < _INT:
                    raise ValueError("counts out of range")
            owner = None if client is None else client.decode()
            found.append((_with(entry, owner, called), None))
        except (ValueError, OverflowError) as wrong:
            spoilt = Entry(name, state, at_ms=at, since_ms=at if state == "dead" else None)
            found.append((spoilt, f"it can't be read: {why(wrong)}"))
    return found


def _with(entry: Entry, client: str | None, called: str | None) -> Entry:
    return entry if client is called is None else replace(entry, client=client, called=called)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def why(error: Exception) -> str:
    """What was wrong with a row, without a word of what is in it."""
    return str(error) if isinstance(error, WrongKind) else type(error).__name__


def _kept(make: Callable[[Any], pa.RecordBatch], rows: Any, spoilt: Callable[[Any], Any]) -> Any:
    """What is made of rows; in the place of one with a value that no column holds, ``spoilt``."""
    try:
        return make(rows)
    except (pa.ArrowException, OverflowError):
        if len(rows) == 1:
            return make([spoilt(rows[0])])
        half = len(rows) // 2
        return pa.concat_batches(
            [_kept(make, rows[:half], spoilt), _kept(make, rows[half:], spoilt)]
        )


def _request_of(entry: Entry) -> str | None:
    return entry.id.rpartition("/")[0] or None


def _number_of(entry: Entry) -> int | None:
    last = entry.id.rpartition("/")[2]
    return int(last) if "/" in entry.id and last.isdecimal() and int(last) < _INT else None


_OF_ENTRY: dict[str, Callable[[Entry], Any]] = {
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
    read: Sequence[Read], place: Place, schema: pa.Schema, payloads: bool = True
) -> pa.RecordBatch:
    """Entries that were decoded one by one, by the core."""
    return _kept(
        lambda rows: _entries(rows, place, schema, payloads),
        read,
        lambda row: (Entry(row[0].id, row[0].state), "it has a value out of range"),
    )


def _entries(
    read: Sequence[Read], place: Place, schema: pa.Schema, payloads: bool
) -> pa.RecordBatch:
    rows = [entry for entry, _ in read]
    columns: Columns = {**_placed(place, len(rows)), "id": [entry.id for entry in rows]}
    if place.requests:
        columns["request"] = [_request_of(entry) for entry in rows]
        columns["number"] = [_number_of(entry) for entry in rows]
    for name in schema.names:
        get = _OF_ENTRY.get(name)
        if get is None or (name in _FROM_PAYLOAD and not payloads):
            continue
        kept = name in _MOMENTS
        columns[name] = [None if wrong and not kept else get(entry) for entry, wrong in read]
    columns["_corrupt"] = [wrong for _, wrong in read]
    return _batch(columns, len(rows), schema)


def unread(
    request: str, number: int | None, why: str, place: Place, schema: pa.Schema
) -> pa.RecordBatch:
    """A row for what of a request could not be read: one sub-request, or all."""
    columns: Columns = {
        **_placed(place, 1), "id": [request if number is None else f"{request}/{number}"],
        "request": [request], "number": [number], "_corrupt": [why],
    }  # fmt: skip
    return _batch(columns, 1, schema)


# --- requests and results ----------------------------------------------------------------------

_OF_REQUEST: dict[str, Callable[[Request], Any]] = {
    "created_at": lambda r: r.created_ms or None,
    "added_at": lambda r: r.added_ms,
    "closed_at": lambda r: r.closed_ms,
}


def requests(
    found: Sequence[tuple[str, Request | Exception | None]], place: Place, schema: pa.Schema
) -> pa.RecordBatch:
    """Requests; those that went meanwhile are no rows."""
    rows = [(id, row) for id, row in found if row is not None]
    return _kept(
        lambda rows: _requests(rows, place, schema),
        rows,
        lambda row: (row[0], OverflowError()),
    )


def _requests(
    rows: Sequence[tuple[str, Request | Exception]], place: Place, schema: pa.Schema
) -> pa.RecordBatch:
    columns: Columns = {**_placed(place, len(rows)), "request": [id for id, _ in rows]}
    for name in schema.names:
        if name in columns or name == "_corrupt":
            continue
        get = _OF_REQUEST.get(name) or attrgetter(name)
        columns[name] = [get(row) if isinstance(row, Request) else None for _, row in rows]
    columns["_corrupt"] = [
        f"its record can't be read: {why(row)}" if isinstance(row, Exception) else None
        for _, row in rows
    ]
    return _batch(columns, len(rows), schema)


def results(
    request: str, found: Sequence[Outcome], place: Place, schema: pa.Schema
) -> pa.RecordBatch:
    """What came of a request's sub-requests."""
    columns: Columns = {
        **_placed(place, len(found)),
        "request": [request] * len(found),
        "number": [o.number for o in found],
        "state": [o.state for o in found],
        "result": [o.result for o in found],
        "error_type": [o.error.type if o.error else None for o in found],
        "error": [o.error.message if o.error else None for o in found],
    }
    return _batch(columns, len(found), schema)


# --- history -----------------------------------------------------------------------------------

RawEvent = tuple[bytes, Mapping[bytes, bytes]]
_ID_IS_REQUEST = ("submitted", "request-done")


def events(found: Sequence[RawEvent], place: Place, schema: pa.Schema) -> pa.RecordBatch:
    """History events, a row for each thing that each of them is about."""
    items: list[bytes] = []
    names: list[bytes] = []
    which: list[int] = []
    ids: list[bytes] = []
    at: list[int | None] = []
    by: list[bytes | None] = []
    corrupt: list[str | None] = []
    for id, fields in found:
        row = len(ids)
        ids.append(id)
        ms = _at(fields)
        if ms is not None:
            at.append(ms)
            by.append(fields[b"by"])
            corrupt.append(None)
        else:
            at.append(None)
            by.append(None)
            corrupt.append("the event doesn't say when or by whom")
        before = len(items)
        for name, said in fields.items():
            if corrupt[row] is None and name not in (b"t", b"by"):
                some = said.split(b" ")
                items += some
                names += [name] * len(some)
        if len(items) == before:  # an event about nothing is shown all the same
            items.append(b"")
            names.append(b"")
        which += [row] * (len(items) - before)
    rows = pa.array(which, pa.int32())
    columns: Columns = {**_placed(place, len(items))}
    columns["event_id"] = _strings(ids).take(rows)
    columns["at"] = _moment(pa.array(at, pa.int64())).take(rows)
    columns["by"] = _strings(by).take(rows)
    columns["_corrupt"] = pa.array(corrupt, pa.string()).take(rows)
    event = _strings(names)
    columns["event"] = pc.if_else(pc.equal(event, ""), None, event)
    if {"id", "request", "number", "run_ms", "detail"} & set(schema.names):
        columns |= _items(_strings(items), event, place)
    return _batch(columns, len(items), schema)


def _at(fields: Mapping[bytes, bytes]) -> int | None:
    said = fields.get(b"t", b"")
    return int(said) if said.isdigit() and len(said) < 15 and b"by" in fields else None


def when(event: RawEvent) -> int:
    """When it happened, ms; of one that doesn't say so, when it was written down."""
    id, fields = event
    at = _at(fields)
    return int(id.partition(b"-")[0]) if at is None else at


def _items(items: pa.Array, event: pa.Array, place: Place) -> Columns:
    """``id|more`` each; of an operator's change (``op``) all of it is detail."""
    operator = pc.equal(event, "op")
    # A bar behind each, so that every one has two parts; it is cut off again.
    padded = pc.binary_join_element_wise(items, "", "|")
    parts = pc.split_pattern(padded, "|", max_splits=1)
    first = pc.list_element(parts, 0)
    rest = pc.utf8_slice_codeunits(pc.list_element(parts, 1), 0, -1)
    id = pc.if_else(pc.or_(operator, pc.equal(first, "")), None, first)
    detail = pc.if_else(operator, items, rest)
    detail = pc.if_else(pc.equal(detail, ""), None, detail)
    runs = pc.and_(pc.equal(event, "done"), pc.match_substring_regex(rest, r"^\d{1,15}$"))
    columns: Columns = {
        "id": id, "detail": pc.if_else(runs, None, detail),
        "run_ms": pc.if_else(runs, rest, None).cast(pa.int64()),
    }  # fmt: skip
    if place.requests:
        named = pc.extract_regex(id, r"^(?P<request>[^/]+)/(?P<number>\d{1,9})$")
        whole = pc.is_in(event, pa.array(_ID_IS_REQUEST))
        columns["request"] = pc.if_else(whole, id, pc.struct_field(named, "request"))
        columns["number"] = pc.struct_field(named, "number").cast(pa.int32())
    return columns


def gap(place: Place, why: str, after: str, schema: pa.Schema) -> pa.RecordBatch:
    """A row that says that history is missing here."""
    columns: Columns = {
        **_placed(place, 1), "event_id": [after], "event": ["gap"], "detail": [why],
        "_corrupt": [why],
    }  # fmt: skip
    return _batch(columns, 1, schema)


def _strings(values: Sequence[bytes | None]) -> pa.Array:
    """Text; bytes that are none are escaped."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else _text(value) for value in values], pa.string())


# --- all ---------------------------------------------------------------------------------------


def _batch(columns: Mapping[str, Any], n: int, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the schema, in its order; what isn't there is null."""
    return pa.RecordBatch.from_arrays(
        [_fit(columns.get(field.name), n, field.type) for field in schema], schema=schema
    )


def _fit(column: Any, n: int, type: pa.DataType) -> pa.Array:
    if column is None:
        return pa.nulls(n, type)
    if isinstance(column, list):
        if pa.types.is_timestamp(type):
            return _moment(pa.array(column, pa.int64()))
        try:
            return pa.array(column, type)
        except UnicodeEncodeError:  # half a surrogate pair, in JSON of another program's
            return pa.array([_encodable(value) for value in column], type)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if column.type == type else column.cast(type)


def _encodable(value: str | None) -> str | None:
    return None if value is None else value.encode("utf-8", "backslashreplace").decode()
