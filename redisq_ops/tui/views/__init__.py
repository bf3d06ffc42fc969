"""The views, one module each: rows and charts as functions of a snapshot."""

from .base import ChangeTarget, QueueView
from .consumers import Consumers
from .dead_letters import Dead
from .delayed import Delayed
from .groups import GroupsView
from .overview import OverviewView
from .pending import PendingView
from .priorities import Levels
from .requests import Requests
from .trash import TrashView
from .waiting import WaitingView

ALL: tuple[type[QueueView], ...] = (
    OverviewView, Levels, Requests, PendingView, Dead, Delayed, GroupsView, Consumers, WaitingView,
    TrashView,
)  # fmt: skip
"""in the order of their keys"""


def numbered() -> list[tuple[str, type[QueueView]]]:
    """The views with their digits: 1 to 9, and 0."""
    return [(str(number % 10), view) for number, view in enumerate(ALL, 1)]


__all__ = [
    "ALL",
    "ChangeTarget",
    "Consumers",
    "GroupsView",
    "OverviewView",
    "QueueView",
    "numbered",
]
