"""The views, one module each: rows and charts as functions of a snapshot."""

from .consumers import Consumers
from .dead import Dead
from .delayed import Delayed
from .groups import Groups
from .levels import Levels
from .overview import OverviewView
from .pending import Pending
from .requests import Requests
from .view import QueueView, Target

ALL: tuple[type[QueueView], ...] = (
    OverviewView, Levels, Requests, Pending, Dead, Delayed, Groups, Consumers,
)  # fmt: skip

__all__ = ["ALL", "Consumers", "Groups", "QueueView", "Target"]
