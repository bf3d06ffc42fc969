"""Reads the record lines of entries, in the format that `record.lua` writes."""

from __future__ import annotations

from dataclasses import replace

from ..redis.parsers import moment
from .cut_element import is_cut, length, unread_name
from .entry import Entry, Failure, State, not_read, task_of
from .errors import Unreadable
from .quoting import bytes_of

FIELDS = (
    "receipt",
    "failures",
    "lost",
    "first",
    "since",
    "consumer",
    "op",
    "reason",
    "ready",
)
"""the fields of a line, in order"""
REPLAYED = 1
"""``first`` of an entry that was delivered before its replay, and not since"""


def entry(
    id: str,
    state: State,
    score: float | None,
    line: bytes | None,
    error: bytes | None = None,
    payload: bytes | None = None,
    deliveries: int | None = None,
) -> Entry:
    """An `Entry` from its sorted-set score, record line, error bytes and payload."""
    at = moment(score)
    if line is None:
        return Entry(id, state, at_ms=at, payload=payload, deliveries=deliveries, task=task_of(id))
    try:
        receipt, failures, lost, first, since, consumer, op, reason, _ = line.decode().split(" ")
        return Entry(
            id,
            state,
            at_ms=at,
            since_ms=at if state in ("dead", "trash") else int(since) or None,
            payload=payload,
            failures=int(failures),
            lost=int(lost),
            first_ms=int(first) if int(first) not in (0, REPLAYED) else None,
            handed=int(first) != 0,
            consumer=_some(consumer),
            receipt=_some(receipt),
            reason=_some(reason),
            error=Failure.decoded(error),
            op=_some(op),
            deliveries=deliveries,
            task=task_of(id),
            put_ms=int(since) or None,
        )
    except ValueError as spoilt:
        raise Unreadable(f"the record of {id} is corrupt") from spoilt


def readable(
    id: str,
    state: State,
    score: float | None,
    line: bytes | None,
    error: bytes | None = None,
    payload: bytes | None = None,
) -> Entry:
    """As `entry`, but a corrupt record, or an id or payload that is too long to be read, becomes a
    ``problem``. An error that is too long is left out; then `Entry.partly` says so."""
    if error is not None and is_cut(error):
        long = f"error: {not_read(length(error))}"
        return replace(readable(id, state, score, line, None, payload), partly=long)
    try:
        return without_cut(entry(id, state, score, line, error, payload))
    except Unreadable as corrupt:
        return Entry(id, state, at_ms=moment(score), payload=payload, problem=str(corrupt))


def without_cut(entry: Entry) -> Entry:
    """The entry, with a ``problem`` if its id or payload is too long to be read."""
    name, payload = bytes_of(entry.id), entry.payload
    if is_cut(name):
        entry = replace(entry, id=unread_name(name), problem=not_read(length(name)))
    if payload is not None and is_cut(payload):
        entry = replace(entry, payload=None, problem=not_read(length(payload)))
    return entry


def line(entry: Entry) -> str:
    """The record line of an entry that isn't pending: its counts, times and reason."""
    began, since = entry.first_ms or (REPLAYED if entry.handed else 0), entry.since_ms or 0
    counts = f"{entry.failures} {entry.lost} {began} {since}"
    return f"- {counts} - - {entry.reason or '-'} 0"


def _some(word: str) -> str | None:
    return None if word == "-" else word
