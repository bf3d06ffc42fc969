"""From what the server says to Arrow, a column at a time; rows that can't be read are kept aside.

The quick way decodes a column of thousands at once and gives up at the first value that isn't as
the core writes it; then those rows are read one by one by the core's own readers, and one that
these can't read either has its place, its id and the reason in ``_corrupt``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redisq_ops.core.engine.state_scan import ColumnPage, Unread
from redisq_ops.core.model import record
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.ops.groups import fingerprint

from . import failures
from .batch import Columns, RowOrigin, aside, batch, moment, placed, text, why
from .byte_slices import Rows
from .records import FROM_PAYLOAD, INT, Read, entries

_WORDS = {name: nth for nth, name in enumerate(record.FIELDS)}
_SPACE = ord(" ")
_FROM_LINE = {
    "failures", "lost", "attempts", "first_at", "since_at", "consumer", "op", "reason",
    "fingerprint",
}  # fmt: skip
_FROM_ERROR = {"error_type", "error", "traceback", "fingerprint"}
_NEVER = 253_402_300_800_000
"""ms: the year 10000"""


def wanted(names: Sequence[str], payloads: bool, requests: bool = False) -> frozenset[str]:
    """The columns of a `ColumnPage` that these columns of a table are made from."""
    columns = set(names)
    found = {
        "lines": bool(columns & _FROM_LINE),
        "errors": bool(columns & _FROM_ERROR),
        "payloads": payloads and bool(columns & FROM_PAYLOAD),
        "clients": "client" in columns,
        "called": "called" in columns,
    }
    return frozenset(name for name, asked in found.items() if asked)


def sheet(page: ColumnPage, place: RowOrigin, state: State, schema: pa.Schema) -> pa.RecordBatch:
    """A sheet's entries."""
    try:
        found = batch(_quickly(page, place, state, set(schema.names)), len(page.ids), schema)
    except (pa.ArrowException, ValueError):
        found = entries(_one_by_one(page, state), place, schema)
    unread = [_unread(one, place, state, schema) for one in page.unread]
    return pa.concat_batches([found, *unread]) if unread else found


def _quickly(page: ColumnPage, place: RowOrigin, state: State, names: set[str]) -> Columns:
    n = len(page.ids)
    ids = pa.array(page.ids, pa.binary()).cast(pa.string())
    at = pa.array(page.scores, pa.float64()).cast(pa.int64())
    if (pc.max(pc.abs(at)).as_py() or 0) >= _NEVER:
        raise ValueError("no moment")
    columns: Columns = {
        **placed(place, n), "id": ids, "state": pa.repeat(state, n), "deadline_at": moment(at),
        "ready_at": moment(at),
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
        # Who owns a list has a name by now, who owns an entry has bytes.
        columns["client"] = pa.array(page.clients, pa.binary()).cast(pa.string())
    if page.called is not None:
        columns["called"] = pa.array(page.called, pa.string())
    return columns


def _parted(ids: pa.Array) -> tuple[pa.Array, pa.Array]:
    """REQUEST/N; raises where an id is something else."""
    parts = pc.split_pattern(ids, "/", max_splits=1, reverse=True)
    return pc.list_element(parts, 0), pc.list_element(parts, 1).cast(pa.int32())


def _recorded(columns: Columns, lines: Sequence[bytes | None], at: pa.Array, state: State) -> None:
    """Columns from record lines; an entry without one was never touched."""
    rows = Rows(lines)
    spaces = np.flatnonzero(rows.raw == _SPACE)
    if len(spaces) != rows.size * (len(_WORDS) - 1):
        raise ValueError("a record line of another length")
    between = spaces.reshape(rows.size, len(_WORDS) - 1).T
    if (between[0] < rows.first).any() or (between[-1] >= rows.last).any():
        raise ValueError("one has more words and another fewer")
    firsts, lasts = [rows.first, *(between + 1)], [*between, rows.last]

    def word(name: str) -> pa.Array:
        nth = _WORDS[name]
        return rows.back(rows.between(firsts[nth], lasts[nth]).cast(pa.string()))

    failures, lost = (word(name).cast(pa.int32()) for name in ("failures", "lost"))
    if rows.size < len(lines):
        failures, lost = pc.fill_null(failures, 0), pc.fill_null(lost, 0)
    attempts = pc.add_checked(failures, lost)
    if (pc.min(attempts).as_py() or 0) < 0:
        raise ValueError("counts out of range")
    since = word("since")
    if state in ("dead", "trash"):
        since = at if rows.size == len(lines) else pc.if_else(pc.is_valid(since), at, None)
    else:
        since = _unless(since, 0)
    columns |= {
        "failures": failures, "lost": lost, "attempts": attempts,
        "first_at": moment(_unless(word("first"), 0, record.REPLAYED)), "since_at": moment(since),
        "consumer": _said(word("consumer")), "op": _said(word("op")),
        "reason": _said(word("reason")),
    }  # fmt: skip


def _unless(text: pa.Array, *none: int) -> pa.Array:
    """Times, but for those that say there is none."""
    number = text.cast(pa.int64())
    return pc.if_else(pc.is_in(number, pa.array(none, pa.int64())), None, number)


def _said(word: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(word, "-"), None, word)


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


def _one_by_one(page: ColumnPage, state: State) -> list[Read]:
    n = len(page.ids)
    nothing: list[Any] = [None] * n
    found: list[Read] = []
    for id, score, line, error, payload, client, called in zip(
        page.ids, page.scores, page.lines or nothing, page.errors or nothing,
        page.payloads or nothing, page.clients or nothing, page.called or nothing, strict=True,
    ):  # fmt: skip
        name = text(id)
        at = None if score is None or abs(score) >= _NEVER else int(score)
        try:
            id.decode()
            if at is None and score is not None:
                raise ValueError("no moment")
            if isinstance(payload, Exception):
                raise payload
            if page.lines is None:
                entry = Entry(name, state, at_ms=at, payload=payload)
            else:
                entry = record.entry(name, state, score, line, error, payload)
                if not 0 <= entry.attempts < INT:
                    raise ValueError("counts out of range")
            owner = client.decode() if isinstance(client, bytes) else client
            found.append((_with(entry, owner, called), None))
        except (ValueError, OverflowError, LookupError, RedisqError) as wrong:
            spoilt = Entry(name, state, at_ms=at, since_ms=at if state == "dead" else None)
            found.append((spoilt, f"it can't be read: {why(wrong)}"))
    return found


def _with(entry: Entry, client: str | None, called: str | None) -> Entry:
    return entry if client is called is None else replace(entry, client=client, called=called)


def _unread(one: Unread, place: RowOrigin, state: State, schema: pa.Schema) -> pa.RecordBatch:
    """A row for what can't be read where it waits."""
    name = text(one.name)
    said = f"{_WAITS[one.what]} can't be read: {why(one.error)}"
    return aside(said, place, schema, state=state, **{"id": name, one.what: name})


_WAITS = {
    "id": "whether it waits", "request": "what waits of its request",
    "client": "what waits of its client",
}  # fmt: skip
