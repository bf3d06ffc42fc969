"""The dashboard's own settings; `settings_file` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from redisq_ops.ops.inspect.snapshot import View

from .screens.preview_pane import PreviewMode
from .theme import DARK
from .views.all_dead import COLUMN

if TYPE_CHECKING:
    from redisq_ops.ops.check.rules import Rules

NOTIFICATIONS: Final = ("bell", "osc9")


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """How to notify of new trouble, and by which rules."""

    rules: Rules
    notify: frozenset[str] = frozenset(NOTIFICATIONS)
    severity: str = "critical"
    """the least severity to notify of: ``warning`` or ``critical``"""


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """The user's choices of looks and keys."""

    theme: str = DARK.name
    refresh_s: float | None = None
    preview: PreviewMode = "auto"
    keys: Mapping[str, str] = field(default_factory=dict)
    """name of a binding -> its key"""
    columns: Mapping[View, frozenset[str]] = field(default_factory=dict)
    """view -> the keys of the columns that are shown"""
    dead_by: str = COLUMN
    """field that divides the dead letters of all queues; empty: none"""
    filters: Mapping[str, str] = field(default_factory=dict)
    """digit -> filter expression"""
    alerts: AlertSettings | None = None
