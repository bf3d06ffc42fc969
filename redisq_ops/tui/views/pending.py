"""`4`: what workers hold, for how long, and for how long they still may."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.values import Entry
from redisq_ops.ops.snapshot import Snapshot
from redisq_ops.ops.terminal import age
from redisq_ops.tui.table import Column, Row
from redisq_ops.tui.theme import BAD, DIM, OK, WARN

from .dead import ago, error_cell
from .view import EntryView, Order


class Pending(EntryView):
    name_ = "pending"
    title = "pending"
    about = "Pending: what workers hold"
    state = "pending"
    verbs = frozenset({"requeue", "claim", "purge"})
    columns = (
        Column("id", "entry", 30, flex=1),
        Column("consumer", "consumer", 16, flex=2),
        Column("held", "held for", 9, align="right"),
        Column("lease", "lease left", 12, align="right"),
        Column("attempt", "attempt", 7, align="right", priority=2),
        Column("lost", "lost", 4, align="right", priority=3),
        Column("error", "last error", 12, flex=2, style=DIM, priority=4),
    )
    orders = (
        Order("lease", "least lease first"),
        Order("lease", "most lease first", descending=True),
        Order("held", "longest held first", descending=True, by=lambda e: -(e.since_ms or 0)),
        Order("consumer", "by consumer", by=lambda e: (e.consumer or "", e.id)),
        Order("attempt", "most attempts first", descending=True, by=lambda e: e.attempts),
    )
    empty = "nothing is being worked on"

    def row(self, item: Any, snapshot: Snapshot) -> Row:
        entry: Entry = item
        left = (entry.at_ms or 0) - snapshot.now_ms
        overdue = left < 0
        lease = f"over {age(-left)}" if overdue else age(left)
        return Row(
            entry.id,
            (
                entry.id,
                entry.consumer or "-",
                ago(entry.since_ms, snapshot),
                (lease, BAD if overdue else OK if left > 5000 else WARN),
                # Deliveries: those that ended, and this one.
                str(entry.attempts + 1),
                (str(entry.lost), WARN if entry.lost else DIM),
                error_cell(entry),
            ),
            BAD if overdue else "",
        )
