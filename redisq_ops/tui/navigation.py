"""Where the dashboard has been: back, forward, and the way to any id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from redisq_ops.ops.inspect.snapshot import View

if TYPE_CHECKING:
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.ops.filter.ast import Query

    from .app import Top

MOST = 50
"""places that are remembered"""
_SHOWN = 2
"""places in the header"""


@dataclass(frozen=True, slots=True)
class VisitedPlace:
    """A view, its queue, and where in it the cursor was."""

    view: View
    queue: str | None = None
    filter: Query | None = field(default=None, compare=False)
    row: str | None = field(default=None, compare=False)


class NavigationHistory:
    """The places left, latest last, and those that were gone back from."""

    def __init__(self) -> None:
        self._past: list[VisitedPlace] = []
        self._future: list[VisitedPlace] = []

    def leave(self, place: VisitedPlace) -> None:
        """Remember a place that is left for another than the one before."""
        self._past = [*self._past, place][-MOST:]
        self._future.clear()

    def back(self, here: VisitedPlace) -> VisitedPlace | None:
        """The place before; None if there is none."""
        return self._step(self._past, self._future, here)

    def forward(self, here: VisitedPlace) -> VisitedPlace | None:
        """The place that `back` led away from."""
        return self._step(self._future, self._past, here)

    def crumbs(self, here: VisitedPlace) -> str:
        """The latest places, nearest first; the queue is named where it was another one."""
        words, queue = [], here.queue
        for place in reversed(self._past[-_SHOWN:]):
            other = place.queue is not None and place.queue != queue
            words.append(f"‹ {place.queue} {place.view}" if other else f"‹ {place.view}")
            queue = place.queue
        return " ".join(words)

    @staticmethod
    def _step(
        source: list[VisitedPlace], target: list[VisitedPlace], here: VisitedPlace
    ) -> VisitedPlace | None:
        while source:
            place = source.pop()
            if place != here:
                target.append(here)
                return place
        return None


class Navigation:
    """Remembers each place that the dashboard leaves, and leads back to it."""

    def __init__(self, app: Top) -> None:
        self._app = app
        self._history = NavigationHistory()
        self._left: VisitedPlace | None = None
        """the place that the present step leaves"""
        self._row: str | None = None
        """where the cursor goes once the rows are here"""

    @property
    def here(self) -> VisitedPlace:
        view = self._app.current
        queue = None if view.name_ == "overview" else self._app.queue
        return VisitedPlace(view.name_, queue, view.filter, view.table.identity)

    @property
    def crumbs(self) -> str:
        return self._history.crumbs(self.here)

    def leaving(self) -> None:
        """Another queue or view follows; both may change in one step."""
        if self._left is None:
            self._left = self.here

    def arrived(self) -> None:
        """The step that `leaving` began is over."""
        if self._left is not None and self._left != self.here:
            self._history.leave(self._left)
        self._left = self._row = None

    def fetched(self) -> None:
        """The rows of the view are here."""
        if self._row is not None:
            self._app.current.table.go_to(self._row)
            self._row = None

    def back(self) -> str:
        """Go to the place before; returns why not, if there is none."""
        return self._return(self._history.back(self.here))

    def forward(self) -> str:
        """Go to where `back` came from; returns why not, if there is none."""
        return self._return(self._history.forward(self.here))

    def _return(self, place: VisitedPlace | None) -> str:
        if place is None:
            return "there is no such place."
        self._left = place  # it is in the history already
        self._app.open_place(place.view, place.queue, place.filter)
        self._row = place.row
        return ""

    async def jump(self, address: str) -> str:
        """Open what an address or id names; returns why that can't be done, if so."""
        from redisq_ops.core.model.errors import RedisqError
        from redisq_ops.core.redis.operation import arun

        source = self._app.source
        if source.connected is None:
            return "there is no server yet."
        deployment = source.connected.deployment
        try:
            place = await arun(deployment.client, located(deployment, address))
        except RedisqError as error:
            return str(error)
        if source is self._app.source:
            self._app.open_place(place.view, place.queue)
            self._row = place.row
            if place.row is not None:
                self._app.open_detail(place.row)
        return ""


async def located(deployment: Deployment, address: str) -> VisitedPlace:
    """The view that shows what an address or id names, and its row; with no row: the queue.

    Raises the errors of `Deployment.resolve`, and `NotFound` for what is not there any more.
    """
    from redisq_ops.core.engine.optional_features import HasRequests
    from redisq_ops.core.model.errors import NotFound

    found = await deployment.resolve(address)
    queue, id = found.queue, found.id
    if id is None:
        return VisitedPlace("overview", queue.name)
    if isinstance(queue, HasRequests) and await queue.request.op(id) is not None:
        return VisitedPlace("requests", queue.name, row=id)
    entry = await queue.get.op(id)
    if entry is None:
        raise NotFound(f"{found} is not here: it never was, or it is done and removed")
    # What is done has no view of its own: its details open all the same.
    view: View = "waiting" if entry.state == "done" else entry.state
    return VisitedPlace(view, queue.name, row=id)
