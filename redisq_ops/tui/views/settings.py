"""`,`: the settings of the queue: what it keeps, how often it retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.ops.inspect.snapshot import ListedQueue, Snapshot
from redisq_ops.ops.terminal import age
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import DIM

from .base import Items, QueueView, SortOrder
from .columns import Column, texts

if TYPE_CHECKING:
    from redisq_ops.ops.change.control import QueueSetting


_MEANINGS = {
    "aging": "each n-th take begins at another priority; 0: strict priorities",
    "history": "which events the history records: off, ops or all",
    "history_max": "about how many history events are kept",
    "keep_ms": "how long finished requests and results are kept",
    "max_failures": "failures after which an entry is dead",
    "max_lost": "lost leases after which an entry is dead",
    "max_waiting": "how many entries may wait; 0: no bound",
    "rate": "how many entries are handed out: 10/s, 600/m, 5/h, or off",
    "trash_ms": "how long purged entries can be restored",
}


def _span(name: str, value: str) -> str:
    """A setting in ms as a span in words, in parentheses; else empty."""
    return f"  ({age(int(value))})" if name.endswith("_ms") and value else ""


def _ms(setting: QueueSetting) -> int | None:
    return int(setting.value) if setting.name.endswith("_ms") else None


def _duration(setting: QueueSetting, _: object) -> Cell:
    return "" if (ms := _ms(setting)) is None else age(ms)


def _meaning(setting: QueueSetting) -> str | None:
    return _MEANINGS.get(setting.name)


def _origin(setting: QueueSetting, _: object) -> Cell:
    return "default" if setting.default else "an operator"


class SettingsView(QueueView):
    name_ = "settings"
    title = "settings"
    short = "set"
    about = "Settings of the queue"
    at_once = True
    named_rows = True
    explains_rows = False
    columns = (
        texts("name", "setting", 14, lambda s: s.name),
        texts("value", "value", 11, lambda s: s.value, ("-", DIM)),
        Column("span", "duration", 10, _duration, _ms, style=DIM, priority=1),
        Column("default", "set by", 11, _origin, lambda s: s.default, style=DIM),
        texts("meaning", "meaning", 20, _meaning, "", flex=1, style=DIM, priority=2),
    )
    usual = SortOrder("name", lambda s: s.name)
    empty = "this queue has no settings of redisq's"

    @classmethod
    def offered_by(cls, queue: ListedQueue | None) -> bool:
        return queue is not None and queue.has_settings

    def items(self, snapshot: Snapshot) -> Items:
        return Items(0, len(snapshot.settings), snapshot.settings)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.name,)

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        setting: QueueSetting = item
        queue = snapshot.queue.name if snapshot.queue else ""
        how = f":settings {queue} {setting.name}="
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

    def identity(self, item: Any) -> str:
        return str(item.name)

    def row_style(self, item: Any) -> str:
        return DIM if item.default else ""
