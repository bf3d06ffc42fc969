"""Lines of the files that commands write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NotRequired, TypedDict

from redisq_ops.core.model.entry import Failure, State
from redisq_ops.core.model.row_fields import INLINE, OPTIONAL, Bytes, Text, Time
from redisq_ops.ops.change.outcome import ChangeOutcome
from redisq_ops.ops.change.plan_header import PlanHeader
from redisq_ops.ops.files.rejects import RejectedLine

from .changes import Consequences


@dataclass(frozen=True, slots=True)
class PlanFileHeaderOutput:
    """Line 1 of the NDJSON that `--plan` writes and `redisq apply` reads. Do not edit the file:
    every line has a digest that continues the one above."""

    redisq: Literal["plan"]
    """what the file is"""
    version: int
    """format, 1"""
    header: PlanHeader = field(metadata=INLINE)
    digest: str
    """digest of the line and all lines above"""


class PlanFileSummaryOutput(TypedDict):
    """Line 2 of a plan file: what a [plan](#plan) says."""

    verb: str
    """the change"""
    queue: str
    state: State
    """state of the entries"""
    filter: str
    """which entries"""
    matched: int
    """entries"""
    reasons: dict[str, int]
    """dead letters: reason → number"""
    sample: list[str]
    """up to ten entries"""
    into: NotRequired[str]
    """only a move: target queue"""
    remarks: NotRequired[list[Text]]
    """what to know about the selection"""
    consequences: NotRequired[Consequences]
    """what comes of it"""
    digest: str
    """digest of the line and all lines above"""


class PlanFileEntryOutput(TypedDict):
    """A line of a plan file for each entry."""

    id: str
    """entry"""
    since_ms: Time | None
    """when it came into the state"""
    at_ms: NotRequired[Time]
    """only delayed and waiting entries: ready time, or creation of the request"""
    orphan: NotRequired[bool]
    """true if only the id was left; if it has a record by now, it is skipped as `changed`"""
    stamp: NotRequired[str]
    """only of other programs: an entry that has another one by now is skipped as `changed`"""
    digest: str
    """digest of the line and all lines above"""


class PlanFileTrailerOutput(TypedDict):
    """The last line of a plan file."""

    redisq: Literal["end"]
    """what the line is"""
    entries: int
    """entries"""
    digest: str
    """digest of the line and all lines above"""


class ReportFileHeaderOutput(TypedDict):
    """Line 1 of the NDJSON that `apply --report` and `undo --report` write."""

    redisq: Literal["report", "undo report"]
    """what the file is"""
    version: int
    """format, 1"""
    op: str
    """operation"""


class ReportFileEntryOutput(TypedDict):
    """A line of a report file for each entry."""

    id: str
    """entry"""
    said: str
    """what became of it: [words](../how-to/review-a-change.md#apply-it)"""


@dataclass(frozen=True, slots=True)
class ReportFileTrailerOutput:
    """The last line of a report file, as an [outcome](#outcome)."""

    outcome: ChangeOutcome = field(metadata=INLINE)
    left: int = field(metadata=OPTIONAL)
    """only `apply`: not dealt with yet"""
    unnamed: int = field(metadata=OPTIONAL)
    """only `undo`: entries left as they are whose ids are not known"""


class ExportFileHeaderOutput(TypedDict):
    """The NDJSON of `redisq export` has for each queue and state a header, a line per entry, and a
    trailer. You may remove or change lines of entries with other tools."""

    redisq: Literal["export"]
    """what the line is"""
    version: int
    """format, 1"""
    queue: str
    kind: str
    state: State
    filter: str
    """which entries"""
    at_ms: Time
    """when the export began"""
    redacted: bool
    """whether values may be redacted"""


class ExportedRequest(TypedDict):
    priority: int
    """its priority"""
    limit: int
    """its limit"""
    total: int
    """its sub-requests"""


class ExportFileEntryOutput(TypedDict):
    """A line of an export file for each entry; fields as in [Entry](#entry)."""

    id: str
    state: State
    since_ms: Time | None
    """when it entered this state"""
    ready_ms: Time | None
    """ready time"""
    first_ms: Time | None
    """first delivery"""
    failures: int | None
    """attempts whose handler failed; `null`: not known"""
    lost: int | None
    """attempts whose lease expired"""
    attempts: int | None
    """`failures` + `lost`"""
    reason: str | None
    """why it is dead"""
    error: Failure | None
    """last error"""
    client: str | None
    task: str | None
    """name of its task; an import doesn't need it"""
    payload: Bytes | None
    redacted: NotRequired[bool]
    """only if some values are redacted"""
    request: NotRequired[ExportedRequest]
    """only a sub-request: its request"""


class ExportFileTrailerOutput(TypedDict):
    """The last line of a queue and state in an export file."""

    redisq: Literal["end"]
    """what the line is"""
    queue: str
    state: State
    entries: int
    """entries written"""
    scanned: int
    """entries read"""
    complete: bool
    """`false` if `--max` ended it"""
    left: int
    """entries that changed their state before they were read"""


InvalidLineOutput = RejectedLine


class FileWrittenOutput(TypedDict):
    """A file that a command wrote."""

    file: str
    """its path"""
