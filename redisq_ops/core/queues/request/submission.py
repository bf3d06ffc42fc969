"""Submissions of requests: the reply, the checks of arguments, and chunks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...model.batches import batches
from ...model.errors import BadInput, Exists, TooLarge
from ...model.keys import checked_name
from ...model.settings import MAX_LIMIT, MAX_PAYLOAD, PRIORITIES
from ...model.validation import PAYLOAD, mistaken

CHUNK = 100
CHUNK_BYTES = 256 * 1024
_TRACEPARENT = re.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class SubmittedRequest:
    """The reply to a submission."""

    id: str
    word: str
    """``ok``; ``same``: the same request was already there; ``trash``: it was, but sub-requests of
    it were purged or moved to another queue, and nothing was added"""
    total: int
    """sub-requests that the request has now"""
    state: str
    """open (more can be added) | sealed | done | cancelled"""
    gone: int = 0
    """for ``trash``: how many of its sub-requests were purged or moved"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one call adds to a request; the arguments of `RequestQueue.append`."""

    id: str
    start: int
    payloads: Sequence[bytes]
    before: str
    after: str
    seal: bool
    priority: int
    limit: int
    traceparent: str = ""
    op: str = ""
    follows: str = ""
    rehearse: int | None = None
    """how many payloads to assume; then nothing is written"""


def cut(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Chunks of at most `CHUNK` payloads and about `CHUNK_BYTES` bytes."""
    return batches(payloads, CHUNK, CHUNK_BYTES, len)


def checked_payload(payload: bytes, number: int, most: int = MAX_PAYLOAD) -> None:
    if not isinstance(payload, bytes):
        raise mistaken(payload, number, PAYLOAD)
    if len(payload) > most:
        raise TooLarge(
            f"sub-request {number} has {len(payload):,} bytes, over the limit of {most:,} "
            "(--max-payload)"
        )


def checked_priority(priority: int) -> int:
    if priority not in range(PRIORITIES):
        raise BadInput(f"priority {priority}: must be 0 (first) to {PRIORITIES - 1}")
    return priority


def checked_limit(limit: int) -> int:
    if limit not in range(1, MAX_LIMIT + 1):
        raise BadInput(f"limit {limit}: must be 1 to {MAX_LIMIT} (to stop a request, pause it)")
    return limit


def checked_traceparent(traceparent: str) -> None:
    if traceparent and not _TRACEPARENT.fullmatch(traceparent):
        raise BadInput(f"traceparent {traceparent!r} is no W3C trace context (00-…-…-01)")


def cancelled(id: str) -> Exists:
    return Exists(f"request {id} was cancelled: undo that, or use another id (--id)")


class Purged(Exists):
    """A request was submitted before, and some of it was purged or moved since."""


def purged(submitted: SubmittedRequest) -> Purged:
    gone, total = submitted.gone, submitted.total
    return Purged(
        f"request {submitted.id} was submitted before, but {gone:,} of its {total:,} sub-requests "
        "were purged or moved to another queue: undo that, or use another id (--id)"
    )


def checked_request(id: str, priority: int, limit: int) -> None:
    checked_name(id, "request id")
    checked_priority(priority)
    checked_limit(limit)
