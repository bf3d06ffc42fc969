"""`,`: the settings of the queue: what it keeps, how often it retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.ops.inspect.snapshot import ListedQueue, Snapshot
from redisq_ops.ops.terminal import age
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import TableColumn, TableRow
from redisq_ops.tui.theme import DIM

from .base import Items, QueueView, SortOrder

if TYPE_CHECKING:
    from redisq_ops.ops.change.control import QueueSetting


_MEANINGS = {
    "aging": "each n-th take begins at another priority; 0: strict priorities",
    "history": "which events the history records: off, ops or all",
    "history_max": "history events that are kept, about",
    "keep_ms": "how long finished requests and results are kept",
    "max_failures": "failures after which an entry is dead",
    "max_lost": "lost leases after which an entry is dead",
    "max_waiting": "waiting entries above which none is added; 0: no bound",
    "trash_ms": "how long purged entries can be restored",
}


def _span(name: str, value: str) -> str:
    """A setting in ms as a span in words, in parentheses; else empty."""
    return f"  ({age(int(value))})" if name.endswith("_ms") and value else ""


class SettingsView(QueueView):
    name_ = "settings"
    title = "settings"
    short = "set"
    about = "Settings of the queue"
    named_rows = True
    explains_rows = False
    columns = (
        TableColumn("name", "setting", 14),
        TableColumn("value", "value", 11),
        TableColumn("span", "duration", 10, style=DIM, priority=1),
        TableColumn("default", "set by", 11, style=DIM),
        TableColumn("meaning", "meaning", 20, flex=1, style=DIM, priority=2),
    )
    orders = (
        SortOrder("name", lambda s: s.name),
        SortOrder("value", lambda s: s.value),
        SortOrder("span", lambda s: int(s.value) if s.name.endswith("_ms") else None),
        SortOrder("default", lambda s: s.default),
        SortOrder("meaning", lambda s: _MEANINGS.get(s.name)),
    )
    empty = "this queue has no settings of redisq's"

    @classmethod
    def offered_by(cls, queue: ListedQueue | None) -> bool:
        return queue is not None and queue.has_settings

    @property
    def window(self) -> tuple[int, int]:
        return 0, 1

    def items(self, snapshot: Snapshot) -> Items:
        return Items(0, len(snapshot.settings), snapshot.settings)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.name,)

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        setting: QueueSetting = item
        queue = snapshot.queue.name if snapshot.queue else ""
        how = f":retention {queue} {setting.name}="
        usual = str(getattr(DEFAULTS, setting.name))
        lines = [
            fact("what it is", _MEANINGS.get(setting.name, "")),
            fact("default", usual + _span(setting.name, usual)),
            fact("to change it", f"{how}…"),
        ]
        if not setting.default:
            lines.append(fact("to reset it", how))
        value = (setting.value or "-") + _span(setting.name, setting.value)
        return [fact_section("change", f"{setting.name}  {value}", lines)]

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        setting: QueueSetting = item
        span = age(int(setting.value)) if setting.name.endswith("_ms") else ""
        origin = "default" if setting.default else "an operator"
        return TableRow(
            setting.name,
            (
                setting.name,
                setting.value or ("-", DIM),
                span,
                origin,
                _MEANINGS.get(setting.name, ""),
            ),
            DIM if setting.default else "",
        )
