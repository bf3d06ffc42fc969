"""A payload in an editor of the dashboard's own, where no other program can have the terminal."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import TextArea

from redisq_ops.core.model.errors import Refused
from redisq_ops.ops.terminal import printable, size
from redisq_ops.tui.change.dialog import Dialog
from redisq_ops.tui.keys.key_footer import KeyFooter

MOST: Final = 64 * 1024
"""bytes; each key lays out the whole line again"""


class EditScreen(Dialog[bytes]):
    """The payload as it was left with Ctrl+S; after Esc as it was before."""

    DEFAULT_CSS = """
    EditScreen #sheet {
        width: 100%;
        height: 1fr;
        background: $surface;
        border: round $border;
        TextArea { border: none; background: $surface; scrollbar-size: 1 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "leave(True)", "Done", priority=True),
        Binding("escape", "leave(False)", "Drop", priority=True),
    ]

    def __init__(self, payload: bytes) -> None:
        """Raises `Refused` for a payload that the editor would change or that acts on a
        terminal."""
        super().__init__()
        text = payload.decode()
        if len(payload) > MOST:
            raise Refused(f"payloads above {size(MOST)} are edited by redisq edit")
        lines = text.replace("\t", "").split("\n")
        if any(printable(line) != line for line in lines):
            raise Refused(
                "that payload has control or invisible characters: redisq edit "
                "opens it in a terminal"
            )
        self._payload, self._warned = payload, False
        self._area = TextArea(text, soft_wrap=True, compact=True)
        self._area.cursor_blink = False

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet") as sheet:
            sheet.border_subtitle = "nothing is changed yet: a question follows"
            yield self._area
        yield KeyFooter()

    def on_mount(self) -> None:
        super().on_mount()
        self._area.focus()

    def action_leave(self, done: bool) -> None:
        after = self._area.text.encode("utf-8", "replace")
        if not done and after != self._payload and not self._warned:
            self._warned = True
            self.notify("Esc again drops what you typed; Ctrl+S keeps it.", severity="warning")
            return
        # Not awaited: a screen's handler that waits for the end of the screen never returns.
        self.dismiss(after if done else self._payload)  # type: ignore[unused-awaitable]
