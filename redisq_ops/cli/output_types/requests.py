"""JSON about requests and their results."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from redisq_ops.core.model.entry import State

from .entries import EntryError, EntryHistory, EntryOutput
from .queues import Holder
from .units import Bytes, Duration, Size, Text, Time


class SubmissionOutput(TypedDict):
    id: str
    """request; with `--per-line`, and of entries, what the ids begin with"""
    queue: str
    word: Literal["ok", "same", "dry-run"]
    """`ok`: submitted; `same`: it was there already; `dry-run`: nothing was sent"""
    total: int
    """sub-requests, requests or entries"""
    state: Literal["open", "sealed", "done", "cancelled"] | None
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
    error: EntryError | None
    """last error of a dead entry"""


class RequestOutput(TypedDict):
    queue: str
    id: str
    """request"""
    state: Literal["open", "sealed", "done", "cancelled"]
    """`open` may grow; `sealed` is complete"""
    priority: int
    """0 (first) to 99"""
    limit: int
    """most sub-requests pending at a time"""
    paused: bool
    """whether it is paused"""
    total: int
    """sub-requests: the sum of the next six"""
    waiting: int
    """sub-requests that wait"""
    pending: int
    """sub-requests that are pending"""
    delayed: int
    """sub-requests that are delayed"""
    done: int
    """sub-requests that are done"""
    dead: int
    """sub-requests that are dead"""
    trash: int
    """sub-requests that were purged, cancelled or moved"""
    moving: int
    """those in the trash that are on their way to another queue"""
    tokens: int
    """tokens in its priority's list"""
    created_ms: Time
    """when it was created"""
    added_ms: Time | None
    """when the last sub-request was added"""
    closed_ms: Time | None
    """when it ended"""
    results_bytes: Size
    """size of all results"""
    results_dropped: int
    """results that were not kept because they exceed the limit"""
    follows: str
    """the request that has to be done first; empty: none"""
    then: str
    """the request that follows it; empty: none"""


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


class RequestDetailsOutput(RequestOutput):
    tokens_free: int
    """tokens nobody holds"""
    tokens_held: int
    """tokens held by consumers"""
    stream: RequestStream
    """stream of its sub-requests"""
    consumers: list[Holder]
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
