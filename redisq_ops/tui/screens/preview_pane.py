"""`p`: more of the row under the cursor, beside its list, or below it where few rows leave room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from redisq_ops.ops.inspect.snapshot import Snapshot, View
from redisq_ops.ops.terminal import printable
from redisq_ops.tui.outline.entry_tree import EntryTree
from redisq_ops.tui.outline.outline import OutlineSection

PreviewMode = Literal["auto", "open", "closed"]
PREVIEW_MODES: Final[tuple[PreviewMode, ...]] = ("auto", "open", "closed")
"""``auto``: open if there is room below all rows of the list"""


@dataclass(frozen=True, slots=True)
class PreviewSubject:
    """The row under the cursor, by its identity; no id: there is no such row now."""

    view: View
    queue: str | None
    id: str | None
    item: Any = field(default=None, compare=False)
    """the list's item"""
    sections: Callable[[], list[OutlineSection]] | None = field(default=None, compare=False)
    """all there is to show of a row without details; None: its entry is read by its id"""
    chart: Callable[[int, int], Text | None] | None = field(default=None, compare=False)
    """(cells, lines) -> a chart of it; None: it has none"""


_OUTSIDE = "preview: Enter scrolls and searches it, p closes"
_INSIDE = "preview: Esc goes back to the list, p closes"
_WHOLE, _PLAIN = "preview: Enter opens all of it, p closes", "preview: p closes"
_LISTS = "preview: Enter lists its entries, p closes"
_OF_GROUP = "the latest of this group: Enter lists all, p closes"
_SHARES: Final = (2 / 3, 1 / 2, 1 / 3)
"""shares of the height, the largest first; the first that leaves all rows in sight is taken"""
_LEAST: Final = 10
"""lines that a preview that opens by itself has at least"""
_TALL: Final = 28
"""lines of list and preview together, below which it doesn't open by itself"""
_SPARE: Final = 4
"""spare lines that the same list must have before the preview grows"""


class PreviewPane(Vertical):
    """Follows the cursor of the list. While the cursor moves, an entry is read every `settle_s`
    seconds. If the preview opened by itself, an entry is read again only after its row changed."""

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
        #preview-chart { height: 1fr; }
    }
    """

    class Wanted(Message):
        """Asks for another entry to be read."""

    class Left(Message):
        """Asks for the focus to go back to the list."""

    def __init__(self) -> None:
        super().__init__()
        self._titled = ""
        self.display = False
        self.mode: PreviewMode = "auto"
        self.by_itself = False
        """whether it is open because there is room"""
        # Held, not queried: messages still come while the screen is being taken apart at the end.
        self.entry = EntryTree()
        self._chart = Static(id="preview-chart", markup=False)
        self._high = 0
        self._drawn: Text | None = None
        self._subject: PreviewSubject | None = None
        self._settling: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self._chart
        yield self.entry

    def on_mount(self) -> None:
        self._chart.display = False

    def on_resize(self) -> None:
        self._draw_chart()

    def toggle(self) -> None:
        """Close the preview if it is in sight, or open it."""
        self.mode = "closed" if self.display else "open"

    @property
    def wanted(self) -> str | None:
        """The id to read with the next snapshot, if any."""
        return self.entry.wanted if self.display else None

    def follow(self, subject: PreviewSubject | None, height: int, lines: int) -> None:
        """Show another row; None: the list has nothing to preview.

        An entry that left the list stays in sight until the cursor moves. ``height``: lines of
        list and preview together; ``lines``: lines that the list needs.
        """
        before, self._subject = self._subject, subject
        same_list = (
            before is not None
            and subject is not None
            and ((before.view, before.queue) == (subject.view, subject.queue))
        )
        self._arrange(subject, height, lines, same_list)
        if not self.display or subject is None:
            self._subject = None
            self.entry.begin(None)
            return
        if not self.has_focus_within:
            self._entitle(self._title)
        self._chart.display = subject.chart is not None
        self.entry.display = subject.chart is None
        if subject.chart is not None:
            self.entry.begin(None)
            if self._chart.size.height:
                self._draw_chart()
            else:  # it has no room yet; also, the chart library is slow to load
                self.call_after_refresh(self._draw_chart)
            return
        if subject.sections is not None:
            self.entry.show_row(sections := subject.sections())
            if not sections:
                self.entry.note("There is nothing to preview.")
            return
        if before is not None and subject.item != before.item:
            self.entry.changed()
        if subject == before:
            return
        if subject.id is None and same_list:
            self.entry.note("The list does not show this entry any more.")
        elif subject.id is None:
            self.entry.begin(None)
            self.entry.note("There is nothing to preview.")
        elif subject.id != self.entry.about:
            self.entry.begin(subject.id, reads=self._settling is None)
            self._settle()

    def _arrange(
        self, subject: PreviewSubject | None, height: int, lines: int, same_list: bool
    ) -> None:
        """Open or close the preview: beside the list if it was asked for, below it if by itself."""
        if self.mode == "auto" and subject is not None and self.has_focus_within:
            return
        high, stays = 0, same_list and self.entry.about is not None
        if self.mode == "auto" and subject is not None and (subject.id is not None or stays):
            high = self._share(height, lines, same_list)
        self.by_itself = self.entry.once = bool(high)
        self._high = high
        self.styles.height = high or "1fr"
        if self.parent is not None:
            self.parent.set_class(self.by_itself, "-by-itself")
        self.display = bool(high) or (self.mode == "open" and subject is not None)

    def _share(self, height: int, lines: int, same_list: bool) -> int:
        """The lines that the preview takes from the list; 0: no room. Within one list it shrinks
        at once but grows only with `_SPARE` lines left, so that it doesn't jump with each row."""
        for share in _SHARES if height >= _TALL else ():
            high = int(height * share)
            spare = _SPARE if same_list and high > self._high else 0
            if high >= _LEAST and lines + spare <= height - high:
                return high
        return 0

    def _draw_chart(self) -> None:
        subject, size = self._subject, self._chart.size
        if subject is None or subject.chart is None or not size.height:
            return
        drawn = subject.chart(size.width, size.height) or Text("")
        if drawn != self._drawn:
            self._drawn = drawn
            self._chart.update(drawn, layout=False)

    def show(self, snapshot: Snapshot) -> None:
        subject, viewport = self._subject, snapshot.viewport
        if subject is not None and (viewport.view, viewport.queue) == (subject.view, subject.queue):
            self.entry.show(snapshot)

    def enter(self) -> None:
        """Give the focus to the entry's lines."""
        self.screen.set_focus(self.entry.outline)

    def on_descendant_focus(self) -> None:
        self._entitle(_INSIDE)

    def on_descendant_blur(self) -> None:
        self._entitle(self._title)

    def _entitle(self, title: str) -> None:
        """Write a title into the border; the same one again would repaint the whole pane."""
        if title != self._titled:
            self._titled = title
            self.border_title = Content(title)  # a name in it may look like markup

    @property
    def _title(self) -> str:
        subject = self._subject
        if subject is None or subject.id is None:
            return _PLAIN
        if subject.chart is not None:
            return f"{printable(subject.id)}: p closes"
        if subject.view in ("clients", "consumers", "dead-all"):
            return _LISTS
        if subject.view == "groups":
            return _OF_GROUP
        return _WHOLE if self.by_itself and subject.sections is None else _OUTSIDE

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def _settle(self) -> None:
        """Ask for the entry now, unless one was asked for less than `settle_s` seconds ago."""
        if self._settling is None:
            self._settling = self.set_timer(self.settle_s, self._settled)
            self.post_message(self.Wanted())

    def _settled(self) -> None:
        self._settling = None
        if not self.entry.reads:
            self.entry.reads = True
            self._settle()
