"""JSON about requests and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NotRequired, TypedDict

from redisq_ops.core.model.entry import Consumer, Failure, Request, RequestState, State
from redisq_ops.core.model.row_fields import INLINE, Bytes, Duration, Size, Text, Time

from .entries import EntryHistory, EntryOutput


class SubmissionOutput(TypedDict):
    id: str
    """request; with `--per-line`, and of entries, what the ids begin with"""
    queue: str
    word: Literal["ok", "same", "dry-run"]
    """`ok`: submitted; `same`: it was there already; `dry-run`: nothing was sent"""
    total: int
    """sub-requests, requests or entries"""
    state: RequestState | None
    """state of the request; `null` for a dry run, and for entries"""
    refused: int
    """lines left out by `--skip-invalid`, or that would be refused"""
    purged: int
    """only `--per-line`, and entries: those that were there before and were purged or moved"""
    lines: NotRequired[int]
    """only `--dry-run`: lines that were read"""
    bytes: NotRequired[Size]
    """only `--dry-run`: size of all payloads"""


class ScheduleOutput(TypedDict):
    queue: str
    id: str
    """entry"""
    word: Literal["ok", "same"]
    """`ok`: scheduled; `same`: it was there already"""
    ready_ms: Time
    """ready time"""


class EntryEndOutput(TypedDict):
    """How an entry of a delay set or fair queue ended."""

    queue: str
    id: str
    """entry"""
    state: State
    """`done`, `dead` or `trash`"""
    reason: str | None
    """why it is dead: `failed`, `lost` or `rejected`"""
    error: Failure | None
    """last error of a dead entry"""


@dataclass(frozen=True, slots=True)
class RequestOutput:
    queue: str
    request: Request = field(metadata=INLINE)


class RequestStream(TypedDict):
    key: str
    """key of its stream"""
    length: int
    """entries in the stream"""
    group: str
    """consumer group"""


class PendingSubRequest(EntryOutput):
    idle_ms: Duration | None
    """time since its consumer received it"""
    lease_left_ms: Duration
    """time left until the lease ends; negative: it has expired"""


class PendingDifference(TypedDict):
    consumer: str
    """consumer in the stream's list"""
    entries: int
    reason: Text
    """why they differ"""


@dataclass(frozen=True, slots=True)
class RequestDetailsOutput(RequestOutput):
    tokens_free: int
    """tokens nobody holds"""
    tokens_held: int
    """tokens held by consumers"""
    stream: RequestStream
    """stream of its sub-requests"""
    consumers: Sequence[Consumer]
    """consumers that hold sub-requests"""
    pending_entries: list[PendingSubRequest]
    """the first 100 pending sub-requests"""
    pel_differs: list[PendingDifference]
    """where the stream's pending entries list differs from the records"""
    history: EntryHistory
    """events about it"""


class ResultError(TypedDict):
    reason: Literal["failed", "lost", "rejected", "invalid"] | None
    """why it is dead"""
    type: str | None
    """type of the error"""
    message: str | None


class ResultOutput(TypedDict):
    """In the order of the sub-requests; printed without `--json` too."""

    n: int
    """number of the sub-request, from 1; of an entry 1"""
    state: State
    """its [state](states.md)"""
    result: NotRequired[Bytes | None]
    """only if it is not dead: what the handler returned"""
    error: NotRequired[ResultError]
    """only if it is dead: last error"""
