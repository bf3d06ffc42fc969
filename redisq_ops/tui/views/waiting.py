"""`9`: waiting entries, in the order of their delivery."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from redisq_ops.core.model.entry import Entry
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import DIM

from .base import QueueView, SortOrder
from .columns import Column, ago, texts
from .entry_view import ATTEMPTS, ERROR, ID, TASK, EntryView


def _waits(entry: Entry, view: QueueView) -> Cell:
    return ("-", DIM) if entry.since_ms is None else ago(entry.since_ms, view)


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
        ID,
        TASK,
        texts("client", "client", 12, lambda e: e.client, ("-", DIM), flex=1, priority=3),
        Column("since", "waits", 9, _waits, lambda e: e.since_ms, align="right"),
        ATTEMPTS,
        ERROR,
    )
    usual = SortOrder("id", words="next first", back="last first")
    empty = "nothing waits: new, requeued (R) and replayed (P) entries come here"
