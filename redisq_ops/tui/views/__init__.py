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

ALL: tuple[type[QueueView], ...] = (
    OverviewView, Levels, Requests, PendingView, Dead, Delayed, GroupsView, Consumers,
)  # fmt: skip

__all__ = ["ALL", "ChangeTarget", "Consumers", "GroupsView", "OverviewView", "QueueView"]
