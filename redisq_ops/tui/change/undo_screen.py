"""`U`: the latest changes, who made them, when and why; one is chosen to be undone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from redisq_ops.ops.terminal import age, count
from redisq_ops.tui.table.table import PagedTable
from redisq_ops.tui.table.table_model import RowWindow, TableColumn, TableRow
from redisq_ops.tui.theme import DIM
from redisq_ops.tui.views.audit_log import can_undo

if TYPE_CHECKING:
    from redisq_ops.ops.change.audit_log import Operation


class UndoScreen(ModalScreen["str | None"]):
    """The id of the operation chosen with Enter; None after Esc."""

    DEFAULT_CSS = """
    UndoScreen {
        align: center middle;
        background: $background 70%;
        #undo-changes {
            width: 112;
            max-width: 100%;
            height: auto;
            max-height: 100%;
            background: $surface;
            border: round $border;
            padding: 0 1;
        }
        #undo-changes Static { height: 1; }
        #asked { text-style: bold; }
        #hint { color: $secondary; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,n,U", "dismiss", "Back")]
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
        super().__init__()
        rows = tuple(_row(operation, now_ms) for operation in operations)
        self.table = PagedTable(self.COLUMNS)
        self._window = RowWindow(0, len(rows), rows)
        self._first = first

    def compose(self) -> ComposeResult:
        with Vertical(id="undo-changes"):
            yield Static("Undo which change?", id="asked", markup=False)
            yield self.table
            yield Static("Enter chooses, and asks once more; Esc goes back", id="hint")

    def on_mount(self) -> None:
        self.table.styles.height = min(len(self._window.rows), 16) + 1
        self.table.show(self._window)
        if self._first is not None:
            self.call_after_refresh(self.table.go_to, self._first)
        self.table.focus()

    @on(PagedTable.Opened)
    def choose(self, opened: PagedTable.Opened) -> None:
        opened.stop()
        # Not awaited: a screen's handler that waits for the end of the screen never returns.
        self.dismiss(opened.identity)  # type: ignore[unused-awaitable]

    @on(PagedTable.Wanted)
    @on(PagedTable.Moved)
    @on(PagedTable.Marked)
    @on(PagedTable.NothingSelected)
    @on(PagedTable.HeaderClicked)
    def keep(self, message: Message) -> None:
        message.stop()  # else the app would handle them as messages of its own table


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
