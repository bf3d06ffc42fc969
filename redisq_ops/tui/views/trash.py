"""`0`: purged or cancelled entries, which can be restored until they expire."""

from __future__ import annotations

from dataclasses import replace

from redisq_ops.tui.theme import DIM

from .columns import ages, texts
from .entry_view import ATTEMPTS, ERROR, ID, NEWEST, TASK, EntryView


class TrashView(EntryView):
    name_ = "trash"
    title = "trash"
    short = "trash"
    about = "Trash: what was purged"
    state = "trash"
    columns = (
        ID,
        TASK,
        ages("since", "purged", 9, lambda e: e.at_ms),
        texts("op", "change", 18, lambda e: e.op, style=DIM, priority=2),
        replace(ATTEMPTS, priority=3),
        ERROR,
    )
    usual = NEWEST
    empty = "the trash is empty: X puts entries here, and B restores them"
