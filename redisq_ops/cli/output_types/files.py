"""Lines of the files that commands write."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from redisq_ops.core.model.entry import Failure, State
from redisq_ops.core.model.row_fields import Bytes, FileInternal, Text, Time

from .changes import Consequences


class PlanFileHeaderOutput(TypedDict):
    """Line 1 of the NDJSON that `--plan` writes and `redisq apply` reads. Do not edit the file:
    every line has a digest that continues the one above."""

    redisq: Literal["plan"]
    """what the file is"""
    version: int
    """format, 1"""
    op: str
    """operation that all runs of the plan share"""
    queue: str
    kind: str
    prefix: str
    """prefix of the keys"""
    created_ms: Time | None
    """when the queue was created"""
    server: FileInternal
    """run id of the server"""
    verb: str
    """the change"""
    state: State
    """state of the entries"""
    consumer: str
    """consumer that receives claimed entries"""
    argument: int
    """lease of a claim (ms) or new ready time (ms UTC)"""
    high_water_ms: Time
    """entries that came into the state later are left alone"""
    filter: str
    """which entries"""
    who: str
    """author"""
    whence: str
    """host"""
    why: str
    """reason"""
    planned_ms: Time
    """when"""
    step: FileInternal
    """most entries of one step"""
    rate: float | None
    """entries per second"""
    into: NotRequired[str]
    """only a move: target queue"""
    into_ms: NotRequired[Time | None]
    """only a move: when that queue was created"""
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


class ReportFileTrailerOutput(TypedDict):
    """The last line of a report file, as an [outcome](#outcome)."""

    op: str | None
    """operation"""
    matched: int
    """entries selected"""
    done: int
    """entries changed"""
    skipped: dict[str, int]
    """reason → number left as they were"""
    left: NotRequired[int]
    """only `apply`: not dealt with yet"""
    unnamed: NotRequired[int]
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


class InvalidLineOutput(TypedDict):
    """A line of the NDJSON that `--skip-invalid` writes, for each line that was left out."""

    file: str
    row: int
    """line in it, from 1"""
    request: str | None
    reason: Text
    """why it was left out"""


class FileWrittenOutput(TypedDict):
    """A file that a command wrote."""

    file: str
    """its path"""
