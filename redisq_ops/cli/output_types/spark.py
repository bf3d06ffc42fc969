"""JSON of the commands about Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

from redisq_ops.core.model.row_fields import (
    INLINE,
    Duration,
    FractionalDuration,
    Share,
    Size,
    Text,
    Time,
)
from redisq_ops.pipeline.report.critical_path import PathSegment


class SparkDoctorOutput(TypedDict):
    check: str
    """what was checked"""
    ok: bool
    """whether it is right"""
    sentence: Text
    """what was found"""


class SparkTablesOutput(TypedDict):
    """Without a table."""

    table: str
    meaning: Text
    """its rows"""
    time: str | None
    """column that `since` and `until` apply to"""


class SparkColumnsOutput(TypedDict):
    """With a table."""

    name: str
    """column"""
    type: str
    """Spark type"""
    meaning: Text
    """its content"""


class SparkSubmissionOutput(TypedDict):
    queue: str
    word: NotRequired[str]
    """only `--dry-run`: `dry-run`"""
    requests: int | dict[str, Any]
    """`ok`, `same`, `trash` (purged), `exists` → requests; `--dry-run`: number of requests"""
    entries: int
    """sub-requests"""
    rows: NotRequired[int]
    """only `--dry-run`: rows that were read"""
    bytes: NotRequired[Size]
    """only `--dry-run`: size of the payloads"""
    refused: int
    """invalid rows"""
    corrupt: int
    """of these, unreadable"""
    samples: dict[str, Any] | list[Any]
    """requests that were left alone, by word; `--dry-run`: invalid rows, as text"""


class SparkExportOutput(TypedDict):
    run: str
    """name of the run"""
    table: str
    version: int
    """the Delta table's version with its rows"""
    rows: int
    """rows written"""
    files: int
    """files written"""
    bytes: Size
    """their size"""
    corrupt: int
    """unreadable rows written, with the reason in `_corrupt`"""
    since_ms: Time | None
    """begin of the range; `null`: from the beginning"""
    until_ms: Time
    """end of the range"""


class SparkResultsOutput(TypedDict):
    out: str
    """folder or file"""
    format: str
    """`parquet`, `json`, `csv` or `text`"""
    states: dict[str, int]
    """state → sub-requests"""
    results: int
    """results written"""


class QueueReportOutput(TypedDict):
    """The first object of `redisq report`. Rows of the tables below follow, with the
    table's name in `table`."""

    table: Literal["report"]
    begin_ms: Time | None
    """first event"""
    end_ms: Time | None
    """last event"""
    events: int
    """events that were read"""
    deliveries: int
    """deliveries in these"""
    notes: list[Text]
    """limits of the report"""
    missing: dict[str, str]
    """table → why it is empty"""


class QueueReportLatencyOutput(TypedDict):
    table: Literal["latency"]
    queue: str
    from_ms: Time
    """begin of the hour"""
    taken: int
    """deliveries"""
    waits: int
    """deliveries whose wait is known"""
    wait_p50_ms: FractionalDuration | None
    """median of the wait before the delivery"""
    wait_p95_ms: FractionalDuration | None
    """95th percentile of the wait before the delivery"""
    wait_p99_ms: FractionalDuration | None
    """99th percentile of the wait before the delivery"""
    wait_max_ms: FractionalDuration | None
    """maximum of the wait before the delivery"""
    runs: int
    """deliveries whose run time is known"""
    run_p50_ms: FractionalDuration | None
    """median of the run time"""
    run_p95_ms: FractionalDuration | None
    """95th percentile of the run time"""
    run_p99_ms: FractionalDuration | None
    """99th percentile of the run time"""
    run_max_ms: FractionalDuration | None
    """maximum of the run time"""


class QueueReportThroughputOutput(TypedDict):
    table: Literal["throughput"]
    queue: str
    from_ms: Time
    """begin of the minute"""
    submitted: int | None
    """entries submitted; `null`: unknown, as all below that can be, because the queue's history has
    failures only"""
    taken: int | None
    """deliveries"""
    done: int | None
    """deliveries that ended done"""
    failed: int
    lost: int
    dead: int
    bad: int
    """deliveries that were not done"""
    grown: int | None
    """entries open at the end, compared with the beginning"""
    peak: int | None
    """the most in between"""
    before: int | None
    """entries open at the beginning, at least"""


class QueueReportWorkersOutput(TypedDict):
    table: Literal["workers"]
    queue: str
    from_ms: Time
    """begin of the step, of which there are at most 100"""
    workers: int
    """consumers that held a delivery at some time of the step"""
    busy: float
    """deliveries in progress, on average"""


class QueueReportChangesOutput(TypedDict):
    table: Literal["changes"]
    queue: str
    at_ms: Time
    """when an operator made the change"""
    op: str
    """operation, as in `redisq log`"""
    change: str
    """states (`dead → waiting`), setting and its new value (`limit = 4`), `undo OP`,
    `edit STATE` or `transfer QUEUE`"""
    entries: int | None
    """entries that it changed"""


class QueueReportTasksOutput(TypedDict):
    """A task as [`redisq tasks`](#task) has it; not of a lake. Unknown is `null`."""

    table: Literal["tasks"]
    queue: str
    kind: str
    task: str | None
    every: bool
    ended: int | None
    failed: int | None
    p50_ms: Duration | None
    """run time that half of the runs that succeeded did not exceed"""
    p95_ms: Duration | None
    """the same of 95 % of them"""
    timed: int
    times: Literal["exact", "at most"] | None
    error_type: Text | None
    """type of the latest error"""
    error_ms: Time | None
    """when that run ended"""
    since_ms: Time | None
    """from when on all runs are counted"""
    until_ms: Time
    """when it was read"""
    source: Text
    """what was read"""
    remarks: Text | None
    """what is unknown, and why"""


class QueueReportSamplesOutput(TypedDict):
    """A sample of a recording, about one a minute; only with `--recording`. Unknown is `null`."""

    table: Literal["samples"]
    queue: str
    kind: str
    at_ms: Time
    """when the sample was taken"""
    oldest_ms: Time | None
    """since when the oldest waiting entry had waited"""
    waiting: int | None
    pending: int | None
    delayed: int | None
    dead: int | None
    in_per_min: int | None
    """entries that arrived in the minute before"""
    out_per_min: int | None
    """entries settled in the minute before"""
    failed_per_min: int | None
    """attempts that failed in the minute before"""


class QueueReportComparisonOutput(TypedDict):
    table: Literal["comparison"]
    """table; only with `--against`"""
    queue: str
    metric: str
    """`submitted`, `taken`, `done`, `failed`, `lost`, `dead`, `wait_p50_ms` … `run_p99_ms`,
    `workers` or `dead_letters`"""
    fingerprint: str | None
    """error group, of `dead_letters`"""
    value: float | None
    """value in the time of the report"""
    against: float | None
    """value in the other time"""


class QueueReportRetriesOutput(TypedDict):
    table: Literal["retries"]
    queue: str
    attempt: int
    """attempt, from 1"""
    n: int
    """deliveries"""
    done: int
    """ended done"""
    failed: int
    lost: int
    dead: int
    unsaid: int
    """end unknown"""
    bad_share: Share
    """share that was not done"""


class QueueReportAnomaliesOutput(TypedDict):
    table: Literal["anomalies"]
    queue: str
    metric: str
    """`submitted`, `done`, `failed`, `wait_ms` or `run_ms`"""
    side: Literal["above", "below"]
    """side of the usual"""
    from_ms: Time
    """begin of the span"""
    to_ms: Time
    """its end"""
    value: float
    """value farthest from the usual"""
    median: float
    """the usual"""
    mad: float
    """median absolute deviation"""
    z: float
    """robust z"""


class SparkDeadGroupFields(TypedDict):
    queue: str
    fingerprint: str
    """[error group](../how-to/find-error-groups.md)"""
    entries: int
    """dead letters"""
    share: Share
    """share of the queue's"""
    failed: int
    """dead letters whose reason is `failed`"""
    lost: int
    """dead letters whose reason is `lost`"""
    rejected: int
    """dead letters whose reason is `rejected`"""
    clients: int
    """different clients"""
    requests: int
    """different requests"""
    first_ms: Time | None
    """first death"""
    last_ms: Time | None
    """latest death"""
    sample: str
    """an entry"""
    error_type: str | None
    """type of its error"""
    form: Text
    """message with its variable parts replaced"""
    message: Text | None
    """its message"""


class QueueReportDeadGroupsOutput(SparkDeadGroupFields):
    table: Literal["dead_groups"]


class SparkContrast(TypedDict):
    field: str
    """field that is more frequent in this group"""
    value: str | None
    """its value"""
    share: Share
    """share of the group that has it"""
    rest: Share
    """share of the rest"""
    surely: Share
    """lower bound of the difference"""


class QueueReportContrastsOutput(SparkContrast):
    table: Literal["contrasts"]
    queue: str
    fingerprint: str
    """error group"""
    place: int
    """rank"""


class QueueReportFairnessOutput(TypedDict):
    table: Literal["fairness"]
    queue: str
    from_ms: Time
    """begin of the hour"""
    client: str
    weight: int
    demand: int
    """entries that waited or came"""
    taken: int
    """deliveries"""
    share: Share
    """share of all deliveries"""
    fair: float
    """fair part, deliveries"""
    ratio: float
    """`taken` / `fair`"""
    wait_p50_ms: FractionalDuration | None
    """median of the wait before the delivery"""
    jain: float
    """Jain's index of the hour"""


class QueueReportRequestsOutput(TypedDict):
    table: Literal["requests"]
    queue: str
    request: str
    """request that ended"""
    submitted_ms: Time | None
    """when it was submitted"""
    done_ms: Time
    """when it ended"""
    entries: int
    """sub-requests"""
    deliveries: int
    bad: int
    """of these, not done"""
    dead: int
    """dead sub-requests"""
    took_ms: Duration | None
    """time from submission to end"""


@dataclass(frozen=True, slots=True)
class SparkCriticalPathFields:
    queue: str
    request: str
    place: int
    """stretch, from 1"""
    segment: PathSegment = field(metadata=INLINE)
    took_ms: Duration
    """length"""


@dataclass(frozen=True, slots=True)
class QueueReportCriticalPathsOutput(SparkCriticalPathFields):
    table: Literal["critical_paths"]


class SparkErrorGroupOutput(SparkDeadGroupFields):
    contrast: list[SparkContrast]
    """what is more frequent in this group than in the others"""


@dataclass(frozen=True, slots=True)
class SparkCriticalPathOutput(SparkCriticalPathFields):
    """A stretch of the path, in the order of time."""
