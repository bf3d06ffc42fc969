"""The views, one module each: rows and charts as functions of a snapshot."""

from redisq_ops.ops.inspect.snapshot import View

from .all_dead import AllDeadView
from .audit_log import AuditLogView
from .base import ChangeTarget, QueueView
from .charts import ChartsView
from .clients import ClientsView
from .consumers import ConsumersView
from .dead_letters import DeadView
from .delayed import DelayedView
from .done import DoneView
from .groups import GroupsView
from .overview import OverviewView
from .pending import PendingView
from .periodic import PeriodicView
from .priorities import LevelsView
from .processes import ProcessesView
from .requests import RequestsView
from .settings import SettingsView
from .tasks import TasksView
from .trash import TrashView
from .waiting import WaitingView

ALL: tuple[type[QueueView], ...] = (
    OverviewView,
    AllDeadView,
    LevelsView,
    RequestsView,
    PendingView,
    DeadView,
    DelayedView,
    GroupsView,
    ConsumersView,
    WaitingView,
    DoneView,
    TrashView,
    ClientsView,
    ProcessesView,
    AuditLogView,
    SettingsView,
    PeriodicView,
    ChartsView,
    TasksView,
)
"""all views, in the order of their keys"""


def numbered() -> list[tuple[str, type[QueueView]]]:
    """The views with their keys: digits, then letters."""
    return list(zip("1d23456789n0cml,evx", ALL, strict=True))


def listing(state: str | None) -> View | None:
    """The view that lists the entries of a state; None: no view does."""
    return next((view.name_ for view in ALL if state is not None and view.state == state), None)


__all__ = [
    "ALL",
    "AllDeadView",
    "ChangeTarget",
    "ChartsView",
    "ConsumersView",
    "GroupsView",
    "OverviewView",
    "PeriodicView",
    "QueueView",
    "listing",
    "numbered",
]
