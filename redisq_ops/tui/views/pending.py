"""`4`: entries that workers hold, for how long, and the time left of their leases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import age
from redisq_ops.tui.table.table_model import TableColumn, TableRow
from redisq_ops.tui.theme import BAD, DIM, OK, WARN

from .base import SortOrder
from .dead_letters import ago, by_error, error_cell
from .entry_view import BY_TASK, TASK, EntryView

if TYPE_CHECKING:
    from redisq_ops.core.model.worker_command import WorkerWord


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
        TableColumn("id", "entry", 30, flex=1),
        TASK,
        TableColumn("consumer", "consumer", 16, flex=2),
        TableColumn("held", "held for", 9, align="right"),
        TableColumn("lease", "lease left", 12, align="right"),
        TableColumn("attempt", "attempt", 7, align="right", priority=2),
        TableColumn("lost", "lost", 4, align="right", priority=3),
        TableColumn("error", "last error", 12, flex=2, style=DIM, priority=4),
    )
    orders = (
        SortOrder("lease", words="least lease first", back="most lease first"),
        SortOrder("id", lambda e: e.id),
        BY_TASK,
        SortOrder("consumer", lambda e: e.consumer),
        SortOrder("held", lambda e: -(e.since_ms or 0), True),
        SortOrder("attempt", lambda e: e.attempts, True),
        SortOrder("lost", lambda e: e.lost, True),
        SortOrder("error", by_error),
    )
    empty = "nothing is being worked on: an entry is here while a worker has it"

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        entry: Entry = item
        left = None if entry.at_ms is None else entry.at_ms - snapshot.now_ms
        overdue = left is not None and left < 0
        lease = ("-", DIM)  # a stream's deliveries have no deadline
        if left is not None and overdue:
            lease = (f"over {age(-left)}", BAD)
        elif left is not None:
            lease = (age(left), OK if left > 5000 else WARN)
        return TableRow(
            entry.id,
            (
                entry.id,
                entry.task or "",
                entry.consumer or "-",
                ago(entry.since_ms, snapshot),
                lease,
                # The number of this delivery: the ended ones and this.
                str(entry.attempts + 1),
                (str(entry.lost), WARN if entry.lost else DIM),
                error_cell(entry),
            ),
            BAD if overdue else "",
        )
