"""`n`: entries that are done, where their program keeps them."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import took
from redisq_ops.tui.table.table_model import TableColumn, TableRow
from redisq_ops.tui.theme import DIM

from .base import SortOrder
from .dead_letters import ago
from .entry_view import BY_TASK, TASK, EntryView


class DoneView(EntryView):
    name_ = "done"
    title = "done"
    short = "done"
    about = "Done: of other programs"
    state = "done"
    needs = "HasDoneEntries"
    verbs = frozenset({"replay", "purge"})
    columns = (
        TableColumn("id", "entry", 30, flex=2),
        TASK,
        TableColumn("since", "ended", 7, align="right"),
        TableColumn("run", "took", 8, align="right"),
        TableColumn("attempts", "failed", 8, align="right", priority=2),
        TableColumn("worker", "worker", 12, flex=1, style=DIM, priority=3),
    )
    orders = (
        SortOrder("since", None, True, "newest first", "oldest first"),
        SortOrder("id", lambda e: e.id),
        BY_TASK,
        SortOrder("run", lambda e: e.run_ms, True),
        SortOrder("attempts", lambda e: e.attempts if e.counted else None, True),
        SortOrder("worker", lambda e: e.consumer),
    )
    empty = "nothing that is done is kept: QUEUE's program may remove it at once"

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        entry: Entry = item
        return TableRow(
            entry.id,
            (
                entry.id,
                entry.task or "",
                ago(entry.since_ms, snapshot),
                ("-", DIM) if entry.run_ms is None else took(entry.run_ms),
                (str(entry.attempts) if entry.counted else "-", "" if entry.attempts else DIM),
                entry.consumer or "-",
            ),
        )
