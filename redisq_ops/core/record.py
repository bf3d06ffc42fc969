"""Reading the record lines that `record.lua` writes; the two files are one format."""

from __future__ import annotations

from .values import Entry, Failure, State


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
    at = None if score is None else int(score)
    if line is None:
        return Entry(id, state, at_ms=at, payload=payload, deliveries=deliveries)
    receipt, failures, lost, first, since, consumer, op, reason, _ready = line.decode().split(" ")
    return Entry(
        id,
        state,
        at_ms=at,
        since_ms=at if state in ("dead", "trash") else int(since) or None,
        payload=payload,
        failures=int(failures),
        lost=int(lost),
        first_ms=int(first) or None,
        consumer=_some(consumer),
        receipt=_some(receipt),
        reason=_some(reason),
        error=Failure.decoded(error),
        op=_some(op),
        deliveries=deliveries,
    )


def _some(word: str) -> str | None:
    return None if word == "-" else word
