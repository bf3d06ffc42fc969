"""What a dashboard draws: one picture of the server at one moment, as pure data.

Apart from `watch`, which fetches it, because this loads no Redis client: the dashboard draws its
first frame before it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Literal, TypeAlias

from redisq_ops.core.model.entry import Counts, Entry, Level, Request, State

if TYPE_CHECKING:
    from redisq_ops.core.model.states import Verb

    from ..explain.explanation import Explanation
    from ..filter.fields import Need
    from ..groups.error_groups import ErrorGroup
    from .consumers import ConsumerReport
    from .details import EntryDetails, RequestView
    from .overview import QueueRow

View: TypeAlias = Literal[
    "overview", "levels", "requests", "pending", "dead", "delayed", "groups", "consumers"
]
VIEWS: tuple[View, ...] = (
    "overview", "levels", "requests", "pending", "dead", "delayed", "groups", "consumers",
)  # fmt: skip
GROUPED = 500
"""the latest dead letters, which are grouped at every refresh"""


@dataclass(frozen=True, slots=True)
class About:
    """What is to be explained: a queue, or an entry or request in it."""

    queue: str
    id: str | None = None

    def __str__(self) -> str:
        return self.queue if self.id is None else f"{self.queue}/{self.id}"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is on the screen, and therefore worth fetching: rows ``start`` to before ``end``."""

    view: View = "overview"
    queue: str | None = None
    start: int = 0
    end: int = 100
    descending: bool = False
    """count the rows from the end of the server's order"""
    buckets: int = 60
    """of the histogram of what becomes due"""
    detail: str | None = None
    """the id of an entry or a request to fetch with all that is known of it"""
    needs: frozenset[Need] = frozenset()
    """what the filter of the view looks at, besides entries' own records"""
    why: About | None = None
    """what to explain"""
    zone: tzinfo | None = UTC
    """in which times are told; None: the local one"""


@dataclass(frozen=True, slots=True)
class ListedQueue:
    """A queue there is, what it can show, and what can be done with its entries."""

    name: str
    kind: str
    features: frozenset[type] = frozenset()
    """its `optional_features`"""
    actions: Mapping[Verb, tuple[State, ...]] = field(default_factory=dict)
    editable_states: tuple[State, ...] = ()
    has_settings: bool = True
    """whether it can be held: it has flags of ours"""


@dataclass(frozen=True, slots=True)
class Upcoming:
    """How many entries become due in each ``step_ms`` from ``start_ms`` on, and after the last."""

    start_ms: int
    step_ms: int
    numbers: tuple[int, ...]
    later: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The answer to a `Wish`. Only what its view shows is filled in."""

    wish: Wish
    now_ms: int
    queues: tuple[ListedQueue, ...] = ()
    problem: str | None = None
    """why the queue wished for can't be shown"""
    overview: tuple[QueueRow, ...] = ()
    counts: Counts | None = None
    levels: tuple[Level, ...] = ()
    start: int = 0
    """the rank of the first of these rows"""
    total: int = 0
    """how many there are of them"""
    exact: bool = True
    """False: there may be more, these were seen"""
    requests: tuple[Request, ...] = ()
    open: int = 0
    """how many of the requests are not settled"""
    entries: tuple[Entry, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    """of the entries' requests, where the filter asks"""
    upcoming: Upcoming | None = None
    entry: EntryDetails | None = None
    request: RequestView | None = None
    """the detail wished for; with neither of them there is nothing of that id"""
    groups: tuple[ErrorGroup, ...] = ()
    """of the ``looked`` latest dead letters of ``total``"""
    looked: int = 0
    reports: tuple[ConsumerReport, ...] = ()
    """who holds what: one for each group that reads for itself, else one"""
    explanation: Explanation | None = None
    unexplained: str | None = None
    """why there is no explanation of what was wished for"""

    @property
    def queue(self) -> ListedQueue | None:
        """The queue wished for, if there is one of that name."""
        return next((queue for queue in self.queues if queue.name == self.wish.queue), None)
