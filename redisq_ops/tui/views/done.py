"""`n`: entries that are done, where their program keeps them."""

from __future__ import annotations

from dataclasses import replace

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.terminal import took
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import DIM

from .columns import Column, ages
from .entry_view import ATTEMPTS, ID, NEWEST, TASK, WORKER, EntryView


def _took(entry: Entry, _: object) -> Cell:
    return ("-", DIM) if entry.run_ms is None else took(entry.run_ms)


def _failed(entry: Entry, _: object) -> Cell:
    return str(entry.attempts) if entry.counted else "-", "" if entry.attempts else DIM


class DoneView(EntryView):
    name_ = "done"
    title = "done"
    short = "done"
    about = "Done: of other programs"
    state = "done"
    needs = "HasDoneEntries"
    verbs = frozenset({"replay", "purge"})
    columns = (
        replace(ID, flex=2),
        TASK,
        ages("since", "ended", 7, lambda e: e.since_ms),
        Column("run", "took", 8, _took, lambda e: e.run_ms, align="right", falls=True),
        replace(
            ATTEMPTS, title="failed", cell=_failed, by=lambda e: e.attempts if e.counted else None
        ),
        replace(WORKER, flex=1, priority=3),
    )
    usual = NEWEST
    empty = "nothing that is done is kept: QUEUE's program may remove it at once"
