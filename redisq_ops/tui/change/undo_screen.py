"""`U`: the latest changes, who made them, when and why; one is chosen to be undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from redisq_ops.ops.terminal import age, count
from redisq_ops.tui.screens.list_screen import ListScreen
from redisq_ops.tui.table.table_model import TableColumn, TableRow
from redisq_ops.tui.theme import DIM
from redisq_ops.tui.views.audit_log import can_undo

if TYPE_CHECKING:
    from redisq_ops.ops.change.audit_log import Operation


class UndoScreen(ListScreen):
    """The id of the operation chosen with Enter; None after Esc."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("U", "dismiss", "Back", show=False)]
    title_ = "Undo which change?"
    hint = "Enter chooses, and asks once more; Esc goes back"
    COLUMNS = (
        TableColumn("ago", "ago", 7, align="right"),
        TableColumn("verb", "change", 8),
        TableColumn("done", "entries", 7, align="right"),
        TableColumn("undone", "undo", 7),
        TableColumn("queue", "queue", 10, flex=1),
        TableColumn("who", "who", 12, flex=2),
        TableColumn("why", "why", 8, flex=3, priority=2),
        TableColumn("what", "what", 8, flex=3, style=DIM, priority=3),
    )

    def __init__(self, operations: Sequence[Operation], now_ms: int, first: str | None) -> None:
        """``first``: the id of the operation on which the cursor begins."""
        super().__init__([_row(operation, now_ms) for operation in operations], first)


def _row(operation: Operation, now_ms: int) -> TableRow:
    return TableRow(
        operation.id,
        (
            age(max(0, now_ms - operation.started_ms)),
            "purge for good" if operation.verb == "hard" else operation.verb,
            count(operation.done) if operation.done else ("-", DIM),
            can_undo(operation),
            operation.queue,
            f"{operation.who}@{operation.whence}",
            operation.why or ("-", DIM),
            operation.about,
        ),
        "" if operation.undoable else DIM,
    )
