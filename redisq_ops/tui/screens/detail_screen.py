"""`Enter`: all details of one entry or one request, on the whole screen."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.tui.command.command_line import CommandInput
from redisq_ops.tui.outline.entry_tree import EntryTree
from redisq_ops.tui.screens.opened_screen import Opened, OpenedScreen
from redisq_ops.tui.views import listing


class DetailScreen(OpenedScreen):
    """An entry or a request."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "app.explain", "Explain", tooltip="What holds it, and what helps"),
    ]

    def __init__(self, opened: Opened, line: CommandInput) -> None:
        self.entry = EntryTree(wraps=True)
        # Set here: the poller may read it before this screen is mounted.
        self.entry.about = opened.id
        super().__init__(opened, self.entry, line)

    def show(self, snapshot: Snapshot) -> None:
        self.entry.show(snapshot)
        if snapshot.viewport.detail != self.opened.id:
            return
        if snapshot.request is not None:
            self.listed_in("requests", snapshot.request.request.settled)
        else:
            self.listed_in(listing(snapshot.entry.entry.state) if snapshot.entry else None)
