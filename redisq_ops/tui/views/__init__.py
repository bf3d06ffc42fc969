"""The views, one module each: rows and charts as functions of a snapshot."""

from .audit_log import AuditLogView
from .base import ChangeTarget, QueueView
from .charts import ChartsView
from .clients import ClientsView
from .consumers import Consumers
from .dead_letters import Dead
from .delayed import Delayed
from .groups import GroupsView
from .overview import OverviewView
from .pending import PendingView
from .periodic import PeriodicView
from .priorities import Levels
from .processes import ProcessesView
from .requests import Requests
from .settings import SettingsView
from .trash import TrashView
from .waiting import WaitingView

ALL: tuple[type[QueueView], ...] = (
    OverviewView,
    Levels,
    Requests,
    PendingView,
    Dead,
    Delayed,
    GroupsView,
    Consumers,
    WaitingView,
    TrashView,
    ClientsView,
    ProcessesView,
    AuditLogView,
    SettingsView,
    PeriodicView,
    ChartsView,
)
"""all views, in the order of their keys"""


def numbered() -> list[tuple[str, type[QueueView]]]:
    """The views with their keys: digits, then letters."""
    return list(zip("1234567890cml,ev", ALL, strict=True))


__all__ = [
    "ALL",
    "ChangeTarget",
    "ChartsView",
    "Consumers",
    "GroupsView",
    "OverviewView",
    "PeriodicView",
    "QueueView",
    "numbered",
]
