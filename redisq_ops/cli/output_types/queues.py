"""JSON about queues, their settings and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from redisq_ops.core.model.entry import Consumer, Level
from redisq_ops.core.model.row_fields import INLINE, Bytes, Duration, Text, Time
from redisq_ops.core.model.task_figures import DeployMark
from redisq_ops.ops.check.standing import Standing
from redisq_ops.ops.doctor.diagnosis import Diagnosis
from redisq_ops.ops.inspect.queue_fields import QueueFields
from redisq_ops.ops.trouble.finding import Severity, Trouble

from .errors import CommandError


@dataclass(frozen=True, slots=True)
class QueueOutput:
    """A count is `null` if the layout of another program does not show it."""

    queue: QueueFields = field(metadata=INLINE)
    trouble: tuple[Trouble, ...]
    """what is known to be wrong, the worst first"""


class ClientOutput(TypedDict):
    """A client of a fair queue, in the order of names."""

    queue: str
    name: str
    """client"""
    waiting: int
    """entries that wait"""
    pending: int
    """entries that are pending"""
    weight: int
    """turns it gets where another client gets one"""
    blocked: bool
    """whether it is excluded from delivery"""
    cap: int | None
    """most entries it may have pending; `null`: no cap"""
    rate: str | None
    """how many entries it is handed, such as `10/s`; `null`: no limit"""
    rests: bool
    """whether it gets nothing now because of its rate"""


class PeriodicEntryOutput(TypedDict):
    """The one that runs next comes first."""

    queue: str
    name: str
    """name of the periodic entry; a run's id is `NAME@TIME`"""
    address: str
    """`QUEUE/NAME`, as commands take it"""
    program: str | None
    """the program that has the schedule; `null`: redisq"""
    cron: str | None
    """schedule, five fields; of another program: as that writes it"""
    zone: str | None
    """time zone of the schedule; `null`: it isn't in Redis"""
    task: str | None
    """of another program's schedule: the name of its runs' task"""
    missed: Literal["one", "all", "none"] | None
    """which missed runs are made up for"""
    overlap: bool | None
    """whether a run may begin before the run before has ended"""
    payload: Bytes | None
    """payload of the runs"""
    next_ms: Time | None
    """next run that is not scheduled yet; `null` while it is paused"""
    run: str | None
    """id of the latest run"""
    run_ms: Time | None
    """time for which the latest run was scheduled"""
    run_state: str | None
    """its state; `null`: it is done, or there was none"""
    missed_runs: int | None
    """times that passed without a run; 100: so many or more; `null`: unknown"""
    overdue: bool | None
    """whether it missed a run; `null`: unknown"""
    held: bool
    """whether the next run waits for the end of the latest one"""
    paused: bool
    """whether it is paused"""
    problem: Text | None
    """why it cannot be read; the fields of its definition are `null` then"""


class TaskOutput(TypedDict):
    """A task in a window of time. Unknown is `null`."""

    queue: str
    task: str | None
    """`null`: runs whose task is not kept; see `every`"""
    every: bool
    """whether it stands for all runs of the queue, of whatever task"""
    ended: int | None
    """runs that ended, failed ones too"""
    failed: int | None
    """of these, runs that failed; `source` says whether a run is an attempt or an entry"""
    ended_per_min: float | None
    """runs that ended per minute, on average"""
    p50_ms: Duration | None
    """run time that half of the runs that succeeded did not exceed; see `times`"""
    p95_ms: Duration | None
    """the same of 95 % of them"""
    timed: int
    """of how many runs `p50_ms` and `p95_ms` are"""
    times: Literal["exact", "at most"] | None
    """`at most`: from a histogram, the bounds of its buckets"""
    last_error: Text | None
    """latest error, of the entries that were read"""
    last_error_ms: Time | None
    """when that run ended"""
    since_ms: Time | None
    """when the window begins"""
    until_ms: Time
    """when it ends"""
    source: Text
    """what was read"""
    deploys: tuple[DeployMark, ...]
    """releases that the queue's program marked in the window"""


@dataclass(frozen=True, slots=True)
class QueueDetailsOutput:
    queue: QueueFields = field(metadata=INLINE)
    open_requests: int | None
    """requests that are not finished; `null` if the kind has no requests"""
    settled_requests: int | None
    """finished requests that are still kept"""
    levels: Sequence[Level]
    """priorities with tokens, 0 first"""
    shards: int
    """number of shards, 1 without sharding"""
    settings: dict[str, str]
    """every [setting](settings.md) and its value, as strings"""
    history: int
    """events in the history"""
    consumers: Sequence[Consumer]
    """consumers that hold entries"""
    known_faults: Sequence[Text]
    """known faults of this layout itself"""
    faults: Sequence[Text]
    """what is wrong in this queue now"""
    not_checked: Text | None
    """what was not checked"""
    clients: list[ClientOutput]
    """clients of a fair queue, the first 100 by name"""
    options: dict[str, Any]
    """options the queue was created with ([circular
    queue](../explanation/circular-queue.md#options))"""
    periodic_entries: list[PeriodicEntryOutput]
    """its periodic entries"""


class SettingOutput(TypedDict):
    queue: str
    name: str
    """[setting](settings.md)"""
    value: str
    """value in use"""
    default: bool
    """whether it is the default"""


class ConsistencyOutput(TypedDict):
    queue: str
    kind: str | None
    ok: bool | None
    """`true`: consistent, `false`: broken, `null`: could not be read"""
    faults: Sequence[Text]
    """what is inconsistent"""
    reads: int
    """how often the queue was read"""
    momentary: int
    """findings that a later read did not confirm"""
    only_shown: Text | None
    """as of a queue"""
    not_checked: Text | None
    """what was not checked"""


DiagnosisOutput = Diagnosis


class BrokenRule(TypedDict):
    severity: Severity
    """how bad it is"""
    queue: str | None
    """queue; `null`: the server"""
    rule: str
    """[rule](../how-to/check-with-a-monitor.md#the-rules)"""
    reason: Text
    """what broke it"""


class MonitorCheckOutput(TypedDict):
    """Exit code: 0 `ok`, 1 `warning`, 2 `critical`, 3 `unknown`."""

    status: Literal["ok", "warning", "critical", "unknown"]
    """the worst of the findings"""
    queues: int | None
    """queues that were checked; `null`: unknown"""
    findings: list[BrokenRule]
    """broken rules, the worst first"""
    error: CommandError | None
    """why the status is unknown, or a name means no queue"""


RuleStandingOutput = Standing


class NotifiedRecipientOutput(TypedDict):
    recipient: str
    """name of the [recipient](../how-to/be-told-of-trouble.md)"""
    reason: Text | None
    """why it got no test message; `null`: it did"""


class AclRuleOutput(TypedDict):
    role: Literal["viewer", "producer", "worker", "operator"]
    user: str
    rules: list[str]
    """rules, in their order"""
    command: str
    """the command that makes the user"""


@dataclass(frozen=True, slots=True)
class DiscoveredQueueOutput:
    queue: QueueFields = field(metadata=INLINE)
    at: str
    """what the queue's keys begin with"""
    full_name: str | None
    """the full name, if `name` is shortened"""
    registered: bool | None
    """whether it is in the registry; `null` if the registry cannot be read"""
    faults: Sequence[Text]
    """what is wrong in the queue now"""
    not_checked: Text | None
    """what was not checked"""


class ConditionOutput(TypedDict):
    """The counts when the condition holds."""

    name: str
    """queue"""
    waiting: int | None
    """entries that wait"""
    pending: int | None
    """entries that are pending"""
    delayed: int | None
    """entries that are delayed"""
    dead: int | None
    """dead letters"""
    done: int | None
    """entries settled since the queue was created"""
    trash: int | None
    """entries in the trash"""
