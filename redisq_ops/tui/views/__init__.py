"""The six views, one module each: rows and charts as functions of a snapshot."""

from .dead import Dead
from .delayed import Delayed
from .levels import Levels
from .overview import OverviewView
from .pending import Pending
from .requests import Requests
from .view import QueueView

ALL: tuple[type[QueueView], ...] = (OverviewView, Levels, Requests, Pending, Dead, Delayed)

__all__ = ["ALL", "QueueView"]
