"""`p`: the entry or request under the cursor, beside its list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer

from redisq_ops.ops.inspect.snapshot import Snapshot, View
from redisq_ops.tui.entry_tree import EntryTree


@dataclass(frozen=True, slots=True)
class PreviewSubject:
    """The row that the cursor is on, by its identity; no id: the list shows none now."""

    view: View
    queue: str | None
    id: str | None


_OUTSIDE, _INSIDE = "preview: Enter goes in, p closes", "preview: Esc goes back, p closes"
_OF_GROUP, _OF_NOTHING = "the latest of this group: p closes", "preview: p closes"


class PreviewPane(Vertical):
    """Follows the cursor of the list. While it moves on, entries are read `settle_s` apart."""

    settle_s = 0.15
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "To the list", show=False)]
    DEFAULT_CSS = """
    PreviewPane {
        width: 1fr;
        height: 1fr;
        border: round $border;
        border-title-color: $secondary;
        background: $surface;
        &:focus-within { border: round $primary; border-title-color: $foreground; }
    }
    """

    class Wanted(Message):
        """Another entry is to be read."""

    class Left(Message):
        """Back to the list."""

    def __init__(self) -> None:
        super().__init__()
        self.border_title = _OUTSIDE
        self.display = False
        self.open = False
        # Held, not queried: messages still come while the screen is being taken apart at the end.
        self.entry = EntryTree()
        self._subject: PreviewSubject | None = None
        self._settling: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self.entry

    @property
    def wanted(self) -> str | None:
        """The id to read with the next snapshot, if any."""
        return self.entry.wanted if self.display else None

    def follow(self, subject: PreviewSubject | None) -> None:
        """Show another entry; None: the list has no entries to preview.

        An entry that went away from the list stays in sight until the cursor moves.
        """
        self.display = self.open and subject is not None
        if not self.display:
            self._subject = None
            self.entry.begin(None)
            return
        before, self._subject = self._subject, subject
        if not self.has_focus_within:
            self.border_title = self._title
        if subject == before or subject is None:
            return
        same_list = before is not None and (before.view, before.queue) == (
            subject.view, subject.queue
        )  # fmt: skip
        if subject.id is None and same_list:
            self.entry.note("This entry is no longer in the list.")
        elif subject.id is None:
            self.entry.begin(None)
            self.entry.note("There is nothing to preview.")
        elif subject.id != self.entry.about:
            self.entry.begin(subject.id, reads=self._settling is None)
            self._settle()

    def show(self, snapshot: Snapshot) -> None:
        subject, viewport = self._subject, snapshot.viewport
        if subject is not None and (viewport.view, viewport.queue) == (subject.view, subject.queue):
            self.entry.show(snapshot)

    def enter(self) -> None:
        """Give the focus to the entry's lines."""
        self.screen.set_focus(self.entry.outline)

    def on_descendant_focus(self) -> None:
        self.border_title = _INSIDE

    def on_descendant_blur(self) -> None:
        self.border_title = self._title

    @property
    def _title(self) -> str:
        subject = self._subject
        if subject is not None and subject.id is None:
            return _OF_NOTHING
        return _OF_GROUP if subject is not None and subject.view == "groups" else _OUTSIDE

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def _settle(self) -> None:
        """Read now if the cursor rested, else when it does, but at least every `settle_s`."""
        if self._settling is None:
            self._settling = self.set_timer(self.settle_s, self._settled)
            self.post_message(self.Wanted())

    def _settled(self) -> None:
        self._settling = None
        if not self.entry.reads:
            self.entry.reads = True
            self._settle()
