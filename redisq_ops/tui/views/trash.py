"""`0`: purged or cancelled entries, which can be restored until they expire."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.tui.table.table_model import TableColumn, TableRow
from redisq_ops.tui.theme import DIM

from .base import SortOrder
from .dead_letters import ago, by_error, error_cell
from .entry_view import BY_TASK, TASK, EntryView


class TrashView(EntryView):
    name_ = "trash"
    title = "trash"
    short = "trash"
    about = "Trash: what was purged"
    state = "trash"
    columns = (
        TableColumn("id", "entry", 30, flex=1),
        TASK,
        TableColumn("since", "purged", 9, align="right"),
        TableColumn("op", "change", 18, style=DIM, priority=2),
        TableColumn("attempts", "attempts", 8, align="right", priority=3),
        TableColumn("error", "last error", 12, flex=3, style=DIM, priority=1),
    )
    orders = (
        SortOrder("since", None, True, "newest first", "oldest first"),
        SortOrder("id", lambda e: e.id),
        BY_TASK,
        SortOrder("op", lambda e: e.op),
        SortOrder("attempts", lambda e: e.attempts, True),
        SortOrder("error", by_error),
    )
    empty = "the trash is empty: X puts entries here, and B restores them"

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        entry: Entry = item
        return TableRow(
            entry.id,
            (
                entry.id,
                entry.task or "",
                ago(entry.at_ms, snapshot),
                entry.op or "-",
                (str(entry.attempts), "" if entry.attempts else DIM),
                error_cell(entry),
            ),
        )
