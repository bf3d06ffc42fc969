"""`9`: waiting entries, in the order of their delivery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.tui.table.table_model import TableColumn, TableRow
from redisq_ops.tui.theme import DIM

from .base import SortOrder
from .dead_letters import ago, by_error, error_cell
from .entry_view import BY_TASK, TASK, EntryView


class WaitingView(EntryView):
    name_ = "waiting"
    title = "waiting"
    short = "wait"
    about = "Waiting: what comes next"
    state = "waiting"
    verbs = frozenset({"purge"})
    reversible = False
    of_some_kinds: ClassVar[Mapping[str, str]] = {"client": "HasClients"}
    columns = (
        TableColumn("id", "entry", 30, flex=1),
        TASK,
        TableColumn("client", "client", 12, flex=1, priority=3),
        TableColumn("since", "waits", 9, align="right"),
        TableColumn("attempts", "attempts", 8, align="right", priority=2),
        TableColumn("error", "last error", 12, flex=3, style=DIM, priority=1),
    )
    orders = (
        SortOrder("id", words="next first", back="last first"),
        BY_TASK,
        SortOrder("client", lambda e: e.client),
        SortOrder("since", lambda e: e.since_ms),
        SortOrder("attempts", lambda e: e.attempts, True),
        SortOrder("error", by_error),
    )
    empty = "nothing waits: new, requeued (R) and replayed (P) entries come here"

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        entry: Entry = item
        return TableRow(
            entry.id,
            (
                entry.id,
                entry.task or "",
                entry.client or ("-", DIM),
                ("-", DIM) if entry.since_ms is None else ago(entry.since_ms, snapshot),
                (str(entry.attempts), "" if entry.attempts else DIM),
                error_cell(entry),
            ),
        )
