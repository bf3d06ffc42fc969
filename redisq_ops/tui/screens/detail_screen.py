"""`Enter`: all details of one entry or one request, on the whole screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.tui.keys.key_footer import KeyFooter
from redisq_ops.tui.outline.entry_tree import EntryTree


class DetailScreen(ModalScreen[None]):
    """An entry or a request, brought up to date by every snapshot."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Back"),
        Binding("t", "app.explain", "Explain", tooltip="What holds it, and what helps"),
    ]

    def __init__(self, id: str) -> None:
        super().__init__()
        # Held, not queried: a snapshot may come before this screen is composed.
        self.entry = EntryTree(wraps=True)
        # Set here: the poller may read it before this screen is mounted.
        self.entry.about = id

    def compose(self) -> ComposeResult:
        with Vertical(id="sheet"):
            yield self.entry
        yield KeyFooter()

    def on_mount(self) -> None:
        self.entry.outline.focus()

    def show(self, snapshot: Snapshot) -> None:
        self.entry.show(snapshot)
