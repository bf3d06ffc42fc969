"""`4`: entries that workers hold, for how long, and the time left of their leases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.terminal import age
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import BAD, DIM, OK, WARN

from .base import QueueView, SortOrder
from .columns import Column, ages, texts
from .entry_view import ATTEMPTS, ERROR, ID, TASK, EntryView

if TYPE_CHECKING:
    from redisq_ops.core.model.worker_command import WorkerWord


def _lease(entry: Entry, view: QueueView) -> Cell:
    if entry.at_ms is None:
        return "-", DIM  # a stream's deliveries have no deadline
    left = entry.at_ms - view.now_ms
    return (f"over {age(-left)}", BAD) if left < 0 else (age(left), OK if left > 5000 else WARN)


def _held_for(entry: Entry) -> int | None:
    return None if entry.since_ms is None else -entry.since_ms


def _lost(entry: Entry, _: object) -> Cell:
    return str(entry.lost), WARN if entry.lost else DIM


class PendingView(EntryView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("K", "app.begin('request cancel')", "Stop the job", id="begin-request-cancel"),
    ]
    name_ = "pending"
    title = "pending"
    short = "pend"
    about = "Pending: held by workers"
    state = "pending"
    verbs = frozenset({"requeue", "claim", "purge"})
    tells: ClassVar[Mapping[str, WorkerWord]] = {"request cancel": "stop-job"}
    columns = (
        ID,
        TASK,
        texts("consumer", "consumer", 16, lambda e: e.consumer, flex=2),
        ages("held", "held for", 9, lambda e: e.since_ms, by=_held_for, falls=True),
        Column("lease", "lease left", 12, _lease, align="right"),
        # The number of this delivery: the ended ones and this.
        replace(
            ATTEMPTS, key="attempt", title="attempt", width=7, cell=lambda e, _: str(e.attempts + 1)
        ),
        Column("lost", "lost", 4, _lost, lambda e: e.lost, align="right", priority=3, falls=True),
        replace(ERROR, flex=2, priority=4),
    )
    usual = SortOrder("lease", words="least lease first", back="most lease first")
    empty = "nothing is being worked on: an entry is here while a worker has it"

    def row_style(self, item: Any) -> str:
        return BAD if item.at_ms is not None and item.at_ms < self.now_ms else ""
