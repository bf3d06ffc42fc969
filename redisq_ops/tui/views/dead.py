"""`5`: dead letters, why and whose."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.values import Entry
from redisq_ops.ops.snapshot import Snapshot
from redisq_ops.ops.terminal import age
from redisq_ops.tui.table import Cell, Column, Row
from redisq_ops.tui.theme import BAD, DEAD, DIM, WARN

from .view import EntryView, Order

_REASONS = {"failed": BAD, "lost": WARN, "rejected": DEAD}


def error_cell(entry: Entry) -> Cell:
    """An error in one line: its type, then the message."""
    error = entry.error
    if error is None:
        return entry.problem or ""
    return f"{error.type}: {error.message}" if error.message else error.type


class Dead(EntryView):
    name_ = "dead"
    title = "dead"
    about = "Dead letters"
    state = "dead"
    verbs = frozenset({"replay", "purge"})
    edits = True
    columns = (
        Column("id", "entry", 30, flex=1),
        Column("reason", "reason", 8),
        Column("error", "error", 20, flex=6),
        Column("attempts", "attempts", 8, align="right", priority=2),
        Column("first", "first", 7, align="right", style=DIM, priority=3),
        Column("since", "dead", 7, align="right"),
        Column("worker", "worker", 12, style=DIM, priority=4),
    )
    orders = (
        Order("since", "newest first", descending=True),
        Order("since", "oldest first"),
        Order("error", "by error", by=lambda e: (e.error.type, e.error.message) if e.error else ()),
        Order("attempts", "most attempts first", descending=True, by=lambda e: e.attempts),
        Order("id", "by id", by=lambda e: e.id),
    )
    empty = "no dead letters"

    def row(self, item: Any, snapshot: Snapshot) -> Row:
        entry: Entry = item
        return Row(
            entry.id,
            (
                entry.id,
                (entry.reason or "-", _REASONS.get(entry.reason or "", DIM)),
                error_cell(entry),
                str(entry.attempts),
                ago(entry.first_ms, snapshot),
                ago(entry.at_ms, snapshot),
                entry.consumer or "-",
            ),
        )


def ago(ms: int | None, snapshot: Snapshot) -> str:
    """How long ago a moment was, by the server's clock."""
    return "-" if ms is None else age(max(0, snapshot.now_ms - ms))
