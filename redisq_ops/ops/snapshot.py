"""What a dashboard draws: one picture of the server at one moment, as pure data.

Apart from `watch`, which fetches it, because this loads no Redis client: the dashboard draws its
first frame before it has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from redisq_ops.core.values import Counts, Entry, Level, Request

if TYPE_CHECKING:
    from .inspect import EntryView, RequestView
    from .look import Row

View: TypeAlias = Literal["overview", "levels", "requests", "pending", "dead", "delayed"]
VIEWS: tuple[View, ...] = ("overview", "levels", "requests", "pending", "dead", "delayed")


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


@dataclass(frozen=True, slots=True)
class Listed:
    """A queue there is, and what it can show."""

    name: str
    kind: str
    capabilities: frozenset[str] = frozenset()


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
    queues: tuple[Listed, ...] = ()
    problem: str | None = None
    """why the queue wished for can't be shown"""
    overview: tuple[Row, ...] = ()
    counts: Counts | None = None
    levels: tuple[Level, ...] = ()
    start: int = 0
    """the rank of the first of these rows"""
    total: int = 0
    """how many there are of them"""
    requests: tuple[Request, ...] = ()
    open: int = 0
    """how many of the requests are not settled"""
    entries: tuple[Entry, ...] = ()
    upcoming: Upcoming | None = None
    entry: EntryView | None = None
    request: RequestView | None = None
    """the detail wished for; with neither of them there is nothing of that id"""

    @property
    def queue(self) -> Listed | None:
        """The queue wished for, if there is one of that name."""
        return next((queue for queue in self.queues if queue.name == self.wish.queue), None)
