"""Arrow batches from the core's `ColumnPage` of raw columns.

Thousands of values of a column are decoded at once. At the first value that the core would not have
written, the rows are decoded one by one by the core's parsers instead; a row that these can't parse
either has its place, its id and the reason in ``_corrupt``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from redisq_ops.core.engine.state_scan import ColumnPage, Unread
from redisq_ops.core.model import record
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.ops.groups import fingerprint

from .arrow_batch import (
    Columns,
    RowOrigin,
    corrupt_row,
    describe_error,
    lossy_text,
    make_batch,
    origin_columns,
    timestamp_array,
)
from .model_rows import INT_LIMIT, PAYLOAD_COLUMNS, entry_batch

_WORD_INDEX = {name: nth for nth, name in enumerate(record.FIELDS)}
_RECORD_COLUMNS = {
    "failures",
    "lost",
    "attempts",
    "first_at",
    "since_at",
    "consumer",
    "op",
    "reason",
    "fingerprint",
}
_ERROR_COLUMNS = {"error_type", "error", "traceback", "fingerprint"}
_MAX_MS = 253_402_300_800_000
"""year 10000, in ms"""


def needed_columns(names: Sequence[str], payloads: bool) -> frozenset[str]:
    """The columns of a `ColumnPage` that a table's columns are made from."""
    columns = set(names)
    found = {
        "lines": bool(columns & _RECORD_COLUMNS),
        "errors": bool(columns & _ERROR_COLUMNS),
        "payloads": payloads and bool(columns & PAYLOAD_COLUMNS),
        "clients": "client" in columns,
        "called": "called" in columns,
    }
    return frozenset(name for name, needed in found.items() if needed)


def decode_page(
    page: ColumnPage, origin: RowOrigin, state: State, schema: pa.Schema
) -> pa.RecordBatch:
    """A page's entries as a batch."""
    try:
        found = make_batch(
            _decode_columns(page, origin, state, set(schema.names)), len(page.ids), schema
        )
    except (pa.ArrowException, ValueError):
        found = entry_batch(_decode_rows(page, state), origin, schema)
    unread = [_unreadable_row(entry, origin, state, schema) for entry in page.unread]
    return pa.concat_batches([found, *unread]) if unread else found


def _decode_columns(page: ColumnPage, origin: RowOrigin, state: State, names: set[str]) -> Columns:
    n = len(page.ids)
    ids = pa.array(page.ids, pa.binary()).cast(pa.string())
    at = pa.array(page.scores, pa.float64()).cast(pa.int64())
    if (pc.max(pc.abs(at)).as_py() or 0) >= _MAX_MS:
        raise ValueError("not a time")
    columns: Columns = {
        **origin_columns(origin, n),
        "id": ids,
        "state": pa.repeat(state, n),
        "deadline_at": timestamp_array(at),
        "ready_at": timestamp_array(at),
    }
    if origin.requests and {"request", "number"} & names:
        columns["request"], columns["number"] = _split_ids(ids)
    if page.lines is not None:
        _record_columns(columns, page.lines, at, state)
    if page.errors is not None:
        if page.lines is not None and None in page.lines:
            unrecorded = (
                e for e, line in zip(page.errors, page.lines, strict=True) if line is None
            )
            if any(error is not None for error in unrecorded):
                raise ValueError("an error without a record")
        columns |= _error_columns(page.errors, "traceback" in names)
        if "fingerprint" in names:
            columns["fingerprint"] = _fingerprints(columns)
    if page.payloads is not None:
        columns["payload"] = pa.array(page.payloads, pa.binary())
        columns["payload_bytes"] = pc.binary_length(columns["payload"])
    if page.clients is not None:
        # The values may be text (the client of a list) or bytes (the client of an entry).
        columns["client"] = pa.array(page.clients, pa.binary()).cast(pa.string())
    if page.called is not None:
        columns["called"] = pa.array(page.called, pa.string())
    return columns


def _split_ids(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Request and number of ids REQUEST/N; raises for any other id."""
    parts = pc.split_pattern(ids, "/", max_splits=1, reverse=True)
    return pc.list_element(parts, 0), pc.list_element(parts, 1).cast(pa.int32())


def _record_columns(
    columns: Columns, lines: Sequence[bytes | None], at: pa.Array, state: State
) -> None:
    """Columns from record lines; an entry without a line was never delivered or changed."""
    text = pa.array(lines, pa.binary()).cast(pa.string())
    # The cast raises for a line with another number of words.
    words = pc.split_pattern(text, " ").cast(pa.list_(pa.string(), len(record.FIELDS)))

    def word(name: str) -> pa.Array:
        return pc.list_element(words, _WORD_INDEX[name])

    failures, lost = (word(name).cast(pa.int32()) for name in ("failures", "lost"))
    failures, lost = pc.fill_null(failures, 0), pc.fill_null(lost, 0)
    attempts = pc.add_checked(failures, lost)
    if (pc.min(attempts).as_py() or 0) < 0:
        raise ValueError("counts out of range")
    since = word("since")
    if state in ("dead", "trash"):
        since = pc.if_else(pc.is_valid(since), at, None)
    else:
        since = _times_except(since, 0)
    columns |= {
        "failures": failures,
        "lost": lost,
        "attempts": attempts,
        "first_at": timestamp_array(_times_except(word("first"), 0, record.REPLAYED)),
        "since_at": timestamp_array(since),
        "consumer": _null_if_dash(word("consumer")),
        "op": _null_if_dash(word("op")),
        "reason": _null_if_dash(word("reason")),
    }


def _times_except(text: pa.Array, *none: int) -> pa.Array:
    """Numbers from text, null for values that mean "none"."""
    number = text.cast(pa.int64())
    return pc.if_else(pc.is_in(number, pa.array(none, pa.int64())), None, number)


def _null_if_dash(word: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(word, "-"), None, word)


# Separates two errors in one list; random, so no error can contain it.
_SEPARATOR = secrets.token_hex(16)


def _error_columns(errors: Sequence[bytes | None], with_traceback: bool) -> Columns:
    """Columns from encoded `Failure`s, parsed as one list; raises if one is not an object of texts.

    Not with pyarrow's JSON reader: other programs may write these bytes, and some crash it.
    """
    names = {"error_type": "type", "error": "message"}
    if with_traceback:
        names["traceback"] = "traceback"
    present = [error for error in errors if error is not None]
    between = b',"%b",' % _SEPARATOR.encode()
    parsed = json.loads(b"[" + between.join(present) + b"]") if present else []
    if len(parsed) != max(0, 2 * len(present) - 1) or set(parsed[1::2]) - {_SEPARATOR}:
        raise ValueError("an error that isn't one JSON object")
    found: list[Any] = parsed[::2]
    if len(found) < len(errors):
        rows = iter(found)
        found = [_NO_ERROR if error is None else next(rows) for error in errors]
    try:
        # A value that is not text raises an error, like a missing one.
        return {
            column: pa.array(list(map(itemgetter(name), found)), pa.string())
            for column, name in names.items()
        }
    except (KeyError, TypeError) as error:
        raise ValueError("an error that isn't as it is written") from error


_NO_ERROR = {"type": None, "message": None, "traceback": None}


def _fingerprints(columns: Columns) -> pa.Array:
    types, messages = columns["error_type"].to_pylist(), columns["error"].to_pylist()
    reasons = columns["reason"].to_pylist() if "reason" in columns else [None] * len(types)
    cache = _FingerprintCache()
    rows = zip(types, messages, reasons, strict=True)
    return pa.array([cache[key] for key in rows], pa.string())


class _FingerprintCache(dict[tuple[str | None, str, str | None], str | None]):
    """Fingerprints by error type, message and reason; a batch repeats most of them."""

    def __missing__(self, key: tuple[str | None, str, str | None]) -> str | None:
        type, message, reason = key
        unknown = type is None and reason is None
        self[key] = group = (
            None if unknown else fingerprint.error_fingerprint(type, message, reason)
        )
        return group


def _decode_rows(page: ColumnPage, state: State) -> list[Entry]:
    n = len(page.ids)
    nulls: list[Any] = [None] * n
    found: list[Entry] = []
    for id, score, line, error, payload, client, called in zip(
        page.ids,
        page.scores,
        page.lines or nulls,
        page.errors or nulls,
        page.payloads or nulls,
        page.clients or nulls,
        page.called or nulls,
        strict=True,
    ):
        name = lossy_text(id)
        at = None if score is None or abs(score) >= _MAX_MS else int(score)
        try:
            id.decode()
            if at is None and score is not None:
                raise ValueError("not a time")
            if isinstance(payload, Exception):
                raise payload
            if page.lines is None:
                entry = Entry(name, state, at_ms=at, payload=payload)
            else:
                entry = record.entry(name, state, score, line, error, payload)
                if not 0 <= entry.attempts < INT_LIMIT:
                    raise ValueError("counts out of range")
            owner = client.decode() if isinstance(client, bytes) else client
            found.append(_with_owner(entry, owner, called))
        except (ValueError, OverflowError, LookupError, RedisqError) as problem:
            since_ms = at if state == "dead" else None
            why = f"it can't be read: {describe_error(problem)}"
            found.append(Entry(name, state, at_ms=at, since_ms=since_ms, problem=why))
    return found


def _with_owner(entry: Entry, client: str | None, called: str | None) -> Entry:
    return entry if client is called is None else replace(entry, client=client, called=called)


def _unreadable_row(
    entry: Unread, origin: RowOrigin, state: State, schema: pa.Schema
) -> pa.RecordBatch:
    """A row for a waiting entry that can't be read."""
    name = lossy_text(entry.name)
    reason = f"{_UNREADABLE[entry.what]} can't be read: {describe_error(entry.error)}"
    return corrupt_row(reason, origin, schema, state=state, **{"id": name, entry.what: name})


_UNREADABLE = {
    "id": "whether it waits",
    "request": "what waits of its request",
    "client": "what waits of its client",
}
