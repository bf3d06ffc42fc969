"""A short list over the view, of which one row is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from redisq_ops.tui.keys.key_footer import KeyFooter
from redisq_ops.tui.table.table import PagedTable
from redisq_ops.tui.table.table_model import RowWindow, TableColumn, TableRow


class ListScreen(ModalScreen["str | None"]):
    """The identity of the row chosen with Enter; None after Esc."""

    DEFAULT_CSS = """
    ListScreen {
        align: center middle;
        background: $background 70%;
        #listed {
            width: 112;
            max-width: 100%;
            height: auto;
            max-height: 100%;
            background: $surface;
            border: round $border;
            padding: 0 1;
        }
        #listed Static { height: 1; }
        #asked { text-style: bold; }
        #hint { color: $secondary; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,n", "dismiss", "Back")]
    COLUMNS: ClassVar[tuple[TableColumn, ...]]
    title_: ClassVar[str]
    hint: ClassVar[str]

    def __init__(self, rows: Sequence[TableRow], first: str | None = None) -> None:
        """``first``: the row on which the cursor begins."""
        super().__init__()
        self.table = PagedTable(self.COLUMNS)
        self._window = RowWindow(0, len(rows), tuple(rows))
        self._first = first

    def compose(self) -> ComposeResult:
        with Vertical(id="listed"):
            yield Static(self.title_, id="asked", markup=False)
            yield self.table
            yield Static(self.hint, id="hint", markup=False)
        yield KeyFooter()  # over that of the screen below, whose keys do nothing now

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
