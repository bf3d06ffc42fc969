"""The places that the dashboard has shown, as a browser keeps its pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from redisq_ops.ops.inspect.snapshot import View

if TYPE_CHECKING:
    from redisq_ops.ops.filter.ast import Query

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
    title: str = field(default="", compare=False)
    """the view's, as the header shows it; empty: its name"""


class NavigationHistory:
    """The places left, latest last, and the places for `forward`."""

    def __init__(self) -> None:
        self._past: list[VisitedPlace] = []
        self._future: list[VisitedPlace] = []

    def leave(self, place: VisitedPlace) -> None:
        """Remember a place that is left for a new one, not by `back` or `forward`."""
        self._past = [*self._past, place][-MOST:]
        self._future.clear()

    def back(self, here: VisitedPlace) -> VisitedPlace | None:
        """The place before; None if there is none."""
        return self._step(self._past, self._future, here)

    def forward(self, here: VisitedPlace) -> VisitedPlace | None:
        """The place that `back` led away from."""
        return self._step(self._future, self._past, here)

    def crumbs(self, here: VisitedPlace) -> str:
        """The latest places, nearest first; each names its queue if that differs from the next."""
        words, queue = [], here.queue
        for place in reversed(self._past[-_SHOWN:]):
            other = place.queue is not None and place.queue != queue
            title = place.title or place.view
            words.append(f"‹ {place.queue} {title}" if other else f"‹ {title}")
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
