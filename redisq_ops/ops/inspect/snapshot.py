"""What the dashboard draws: the server at one moment, as pure data.

`snapshot_reader` fetches it; this module does no I/O and loads no Redis client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Literal, TypeAlias

from redisq_ops.core.engine.declared_features import DeclaredFeatures
from redisq_ops.core.model.entry import Client, Counts, Entry, Level, Request, State
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.model.task_figures import TaskReport

if TYPE_CHECKING:
    from redisq_ops.core.model.states import Verb
    from redisq_ops.core.model.worker_command import WorkerWord
    from redisq_ops.core.model.worker_process import Process

    from ..change.audit_log import Operation
    from ..change.control import QueueSetting
    from ..doctor.server_report import ServerReport
    from ..explain.reason import Explanation
    from ..filter.fields import Need
    from ..groups.error_groups import ErrorGroup
    from .client_details import ClientDetails
    from .consumers import ConsumerReport
    from .details import EntryDetails, RequestDetails
    from .overview import QueueRow
    from .periodic import PeriodicStatus

View: TypeAlias = Literal[
    "overview",
    "dead-all",
    "levels",
    "requests",
    "pending",
    "dead",
    "delayed",
    "groups",
    "consumers",
    "waiting",
    "done",
    "trash",
    "clients",
    "processes",
    "log",
    "settings",
    "periodic",
    "charts",
    "tasks",
]
GROUPED = 500
"""latest dead letters that are grouped at every refresh"""
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
BAR_WIDTHS = (
    _SECOND,
    2 * _SECOND,
    5 * _SECOND,
    10 * _SECOND,
    15 * _SECOND,
    30 * _SECOND,
    _MINUTE,
    2 * _MINUTE,
    5 * _MINUTE,
    10 * _MINUTE,
    15 * _MINUTE,
    30 * _MINUTE,
    _HOUR,
    2 * _HOUR,
    6 * _HOUR,
    12 * _HOUR,
    _DAY,
    2 * _DAY,
    7 * _DAY,
    30 * _DAY,
)
"""possible widths of a bar of the timeline (ms)"""


@dataclass(frozen=True, slots=True)
class ExplainSubject:
    """What to explain: a queue, or an entry or request in it."""

    queue: str
    id: str | None = None

    def __str__(self) -> str:
        return self.queue if self.id is None else f"{self.queue}/{self.id}"


@dataclass(frozen=True, slots=True)
class ChartScope:
    """What the charts show: the last ``minutes``, of the viewport's queue or of all queues."""

    minutes: int = 60
    all_queues: bool = False


@dataclass(frozen=True, slots=True)
class Viewport:
    """What the screen shows and so is read: a view, and its rows ``start`` to before ``end``."""

    view: View = "overview"
    queue: str | None = None
    start: int = 0
    end: int = 100
    descending: bool = False
    """rows are numbered from the end of the server's order"""
    buckets: int = 60
    """bars of the histogram of delayed entries"""
    detail: str | None = None
    """id of an entry or request, or name of a client, to read in full"""
    needs: frozenset[Need] = frozenset()
    """what the view's filter needs besides the entries' records"""
    explain: ExplainSubject | None = None
    zone: tzinfo | None = UTC
    """time zone of an explanation's dates; None: local"""
    in_sight: frozenset[str] = field(default=frozenset(), compare=False)
    """of the overview: the queues whose rows must be as they are now"""
    charts: ChartScope = ChartScope()
    servers: bool = False
    """whether the servers' own figures are shown"""
    bar_ms: int | None = None
    """width of a bar of the histogram of delayed entries; None: fit for most of them"""
    column: str = ""
    """for all dead letters: a field that they are grouped by, besides error and task"""


@dataclass(frozen=True, slots=True)
class ListedQueue:
    """An existing queue: the views it has and the verbs for its entries."""

    name: str
    kind: str
    features: frozenset[str] = frozenset()
    """the names of its `optional_features`, such as HasRequests"""
    actions: Mapping[Verb, tuple[State, ...]] = field(default_factory=dict)
    editable_states: tuple[State, ...] = ()
    has_settings: bool = True
    """whether it can be paused"""
    no_commands: Mapping[WorkerWord, str] = field(
        default_factory=lambda: DeclaredFeatures.no_commands
    )
    """as of `DeclaredFeatures`"""
    unlisted: Mapping[State, str] = field(default_factory=dict)
    """as of `DeclaredFeatures`"""


@dataclass(frozen=True, slots=True)
class Upcoming:
    """How many entries become ready in each ``step_ms`` from now on, and ``later``."""

    step_ms: int
    numbers: tuple[int, ...]
    later: int


@dataclass(frozen=True, slots=True)
class ChartData:
    """What the server knows of the past: rates, and the changes by operators."""

    scope: ChartScope
    rates: Rates
    """up to the minute of the snapshot; empty for queues without such counters"""
    operations: tuple[Operation, ...] = ()
    """the latest changes, newest first"""
    read: int = 1
    of: int = 1
    """of how many queues the rates are, and how many there are"""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The latest dead letters of each queue, in groups of one queue each, the largest first."""

    groups: tuple[ErrorGroup, ...]
    others: int
    """dead letters of groups too small to be kept"""
    looked: int
    """dead letters that were read"""
    total: int
    """dead letters that these queues have"""
    exact: bool
    """False: ``total`` is a lower bound"""
    queues: int
    """queues with dead letters that were read"""
    left: int
    """queues with dead letters that were not read yet, or only in part"""
    unread: Mapping[str, str]
    """queue -> why it can't be read"""
    step_ms: int
    """width of a bar of the chart"""
    deaths: tuple[int, ...]
    """how many of those looked at died in each bar; the last one is now"""
    earlier: int
    """how many died before the first bar"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The data for a `Viewport`. Only what its view shows is filled in."""

    viewport: Viewport
    now_ms: int
    queues: tuple[ListedQueue, ...] = ()
    problem: str | None = None
    """why the queue can't be shown"""
    overview: tuple[QueueRow, ...] = ()
    unread: int = 0
    """how many of them have only their name so far"""
    counts: Counts | None = None
    levels: tuple[Level, ...] = ()
    start: int = 0
    """rank of the first row"""
    total: int = 0
    """rows there are"""
    exact: bool = True
    """False: ``total`` is a lower bound"""
    requests: tuple[Request, ...] = ()
    open: int = 0
    """how many requests are not settled"""
    entries: tuple[Entry, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    """request -> priority, if the filter needs them"""
    upcoming: Upcoming | None = None
    entry: EntryDetails | None = None
    request: RequestDetails | None = None
    client: ClientDetails | None = None
    """one of them is the viewport's ``detail``; all None: nothing has that id"""
    groups: tuple[ErrorGroup, ...] = ()
    """error groups of the ``looked`` latest dead letters, of ``total``"""
    looked: int = 0
    dead: DeadLetters | None = None
    """of all queues"""
    worst: tuple[ErrorGroup, ...] = ()
    """the largest groups of dead letters in the queues that are worst"""
    worst_left: bool = False
    """whether some of these queues were not read yet"""
    reports: tuple[ConsumerReport, ...] = ()
    """who holds what: a report for each independent consumer group, otherwise one"""
    clients: tuple[Client, ...] = ()
    processes: tuple[Process, ...] = ()
    periodic: tuple[PeriodicStatus, ...] = ()
    operations: tuple[Operation, ...] = ()
    """the latest changes, newest first"""
    settings: tuple[QueueSetting, ...] = ()
    charts: ChartData | None = None
    tasks: TaskReport | None = None
    explanation: Explanation | None = None
    servers: tuple[ServerReport, ...] = ()
    """the server's own figures, or those of each node of a Cluster"""
    servers_problem: str | None = None
    """why they can't be read"""
    server: str = ""
    """what is unusual about the server, in a few words"""
    explain_error: str | None = None
    """why there is no explanation"""

    @property
    def incomplete(self) -> bool:
        """Whether something was never read yet: the next read then follows at once."""
        return self.unread > 0 or self.worst_left

    @property
    def queue(self) -> ListedQueue | None:
        """The viewport's queue, if it exists."""
        return next((queue for queue in self.queues if queue.name == self.viewport.queue), None)
