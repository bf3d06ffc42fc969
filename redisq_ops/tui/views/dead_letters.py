"""`5`: dead letters, with their errors."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import age
from redisq_ops.tui.table.table_model import Cell, TableColumn, TableRow
from redisq_ops.tui.theme import BAD, DEAD, DIM, WARN

from .base import SortOrder
from .entry_view import BY_TASK, TASK, EntryView

_REASONS = {"failed": BAD, "lost": WARN, "rejected": DEAD}


def error_cell(entry: Entry) -> Cell:
    """An error in one line: its type, then the message."""
    return entry.error.line if entry.error else entry.problem or ""


def by_error(entry: Entry) -> tuple[str, str] | None:
    """Sort key of entries by their errors."""
    error = entry.error
    return None if error is None else (error.type, error.message)


class DeadView(EntryView):
    name_ = "dead"
    title = "dead"
    short = "dead"
    about = "Dead letters"
    state = "dead"
    verbs = frozenset({"replay", "purge"})
    edits = True
    columns = (
        TableColumn("id", "entry", 30, flex=1),
        TASK,
        TableColumn("reason", "reason", 8),
        TableColumn("error", "error", 44, flex=6),
        TableColumn("attempts", "attempts", 8, align="right", priority=2),
        TableColumn("first", "first", 7, align="right", style=DIM, priority=3),
        TableColumn("since", "dead", 7, align="right"),
        TableColumn("worker", "worker", 12, style=DIM, priority=4),
    )
    orders = (
        SortOrder("since", None, True, "newest first", "oldest first"),
        SortOrder("id", lambda e: e.id),
        BY_TASK,
        SortOrder("reason", lambda e: e.reason),
        SortOrder("error", by_error),
        SortOrder("attempts", lambda e: e.attempts, True),
        SortOrder("first", lambda e: e.first_ms),
        SortOrder("worker", lambda e: e.consumer),
    )
    empty = "no dead letters: entries that were rejected, or failed too often, come here"

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        entry: Entry = item
        return TableRow(
            entry.id,
            (
                entry.id,
                entry.task or "",
                (entry.reason or "-", _REASONS.get(entry.reason or "", DIM)),
                error_cell(entry),
                str(entry.attempts),
                ago(entry.first_ms, snapshot),
                ago(entry.at_ms, snapshot),
                entry.consumer or "-",
            ),
        )


def ago(ms: int | None, snapshot: Snapshot) -> str:
    """How long ago a time was, by the server's clock."""
    return "-" if ms is None else age(max(0, snapshot.now_ms - ms))
