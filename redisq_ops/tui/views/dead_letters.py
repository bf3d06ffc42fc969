"""`5`: dead letters, with their errors."""

from __future__ import annotations

from dataclasses import replace

from redisq_ops.core.model.entry import Entry
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import BAD, DEAD, DIM, WARN

from .columns import Column, ages
from .entry_view import ATTEMPTS, ERROR, ID, NEWEST, TASK, WORKER, EntryView

_REASONS = {"failed": BAD, "lost": WARN, "rejected": DEAD}


def _reason(entry: Entry, _: object) -> Cell:
    return entry.reason or "-", _REASONS.get(entry.reason or "", DIM)


class DeadView(EntryView):
    name_ = "dead"
    title = "dead"
    short = "dead"
    about = "Dead letters"
    state = "dead"
    verbs = frozenset({"replay", "purge"})
    columns = (
        ID,
        TASK,
        Column("reason", "reason", 8, _reason, lambda e: e.reason),
        replace(ERROR, title="error", width=44, flex=6, style="", priority=0),
        replace(ATTEMPTS, cell=lambda e, _: str(e.attempts)),
        ages("first", "first", 7, lambda e: e.first_ms, style=DIM, priority=3),
        ages("since", "dead", 7, lambda e: e.at_ms),
        WORKER,
    )
    usual = NEWEST
    empty = "no dead letters: entries that were rejected, or failed too often, come here"
