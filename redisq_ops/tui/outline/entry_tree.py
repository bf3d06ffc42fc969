"""An entry or a request in foldable sections; a value in it can filter the list.

It never fetches: whoever owns it reads :attr:`EntryTree.wanted` at every poll and hands the
snapshot to :meth:`EntryTree.show`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.payload_content import attachment_content, payload_content
from redisq_ops.ops.redaction import NO_REDACTION
from redisq_ops.ops.terminal import printable
from redisq_ops.tui.outline.entry_outline import (
    READ_ONCE,
    attachment_section,
    outline_sections,
    payload_section,
    redacted,
)
from redisq_ops.tui.outline.outline import OutlineSection
from redisq_ops.tui.outline.section_tree import SectionTree
from redisq_ops.tui.views.base import redaction_of
from redisq_ops.tui.views.delayed import zone_of

GONE: Final = "is not here any more: done, or removed for good."


class EntryTree(SectionTree):
    """One entry or request, brought up to date by every snapshot."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("full_stop", "copy_place", "Path", tooltip="Copy the path for filters"),
        Binding("F", "filter_by", "Filter", tooltip="Filter the list by it"),
        Binding("b", "wrap", "Wrap", tooltip="Wrap long lines, or cut"),
    ]
    DEFAULT_CSS = """
    EntryTree .note { height: auto; padding: 0 1; color: $text-warning; }
    """

    @dataclass(eq=False)
    class FilterWanted(Message):
        """Asks for the list to show only entries that match this expression."""

        condition: str

    def __init__(self, *, wraps: bool = False) -> None:
        super().__init__()
        self.wraps = wraps
        """whether long lines of a payload are wrapped"""
        self._note = Static(classes="note", markup=False)
        self.about: str | None = None
        """the id of what is shown"""
        self.reads = True
        """whether it is to be read with the next snapshot"""
        self.once = False
        """whether it isn't read again before it `changed`"""
        self._fresh = False
        self._read: Entry | None = None
        self._shown: Entry | None = None
        self._latest: Snapshot | None = None

    def compose(self) -> ComposeResult:
        yield self._note
        yield from super().compose()

    def on_mount(self) -> None:
        if not self._sections:
            self.note("" if self.about is None else f"{printable(self.about)} …")

    @property
    def wanted(self) -> str | None:
        """The id to read with the next snapshot. What is large isn't read a second time."""
        details = self._latest.entry if self._latest is not None else None
        large = details is not None and details.content_bytes > READ_ONCE
        fresh = self.once and self._fresh
        return self.about if self.reads and not large and not fresh else None

    def begin(self, about: str | None, *, reads: bool = True) -> None:
        """Show another entry or request from now on, once a snapshot has it."""
        if about is None and self.about is None:
            return
        self.about, self.reads, self._read, self._fresh = about, reads, None, False
        self._latest = None
        self.clear()
        self.note("" if about is None else f"{printable(about)} …")

    def changed(self) -> None:
        """The row has changed: read the entry again."""
        self._fresh = False

    def show_row(self, sections: list[OutlineSection]) -> None:
        """Show sections about a row that is neither entry nor request."""
        self.begin(None)
        self.note("")
        self.show_sections(sections)

    def note(self, words: str) -> None:
        """Show a line above the sections; empty: none."""
        self._note.update(words)
        self._note.display = bool(words)

    def show(self, snapshot: Snapshot) -> None:
        """Draw the changes since the last snapshot."""
        if self.about is None or snapshot.viewport.detail != self.about:
            return
        self._fresh, self._latest = True, snapshot
        shown, contents = self._redacted(snapshot), list[OutlineSection]()
        if snapshot.entry is not None and shown.entry is not None:
            raw, redaction = snapshot.entry.entry.payload, redaction_of(self) or NO_REDACTION
            content = None if raw is None else payload_content(raw, redaction)
            width = self.size.width - 1  # of the scrollbar, which comes and goes
            contents = [
                payload_section(shown.entry.entry, content, width, self.wraps),
                *(
                    attachment_section(one, attachment_content(one, redaction), width, self.wraps)
                    for one in snapshot.entry.attachments
                ),
            ]
        sections = outline_sections(shown, zone_of(self), contents)
        self.note("" if sections else f"{printable(self.about)} {GONE}")
        self.show_sections(sections)

    def on_resize(self) -> None:
        if self._latest is not None:
            self.show(self._latest)

    def action_wrap(self) -> None:
        self.wraps = not self.wraps
        self.clear()  # so that what fits is unfolded again
        self.on_resize()

    def _redacted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with redaction applied to its entries."""
        redaction = redaction_of(self)
        if snapshot.entry is None:
            self._read = None
            if redaction and (client := snapshot.client):
                waiting, pending = (
                    tuple(map(redaction.entry, part)) for part in (client.waiting, client.pending)
                )
                shown = replace(client, waiting=waiting, pending=pending)
                return replace(snapshot, client=shown)
            return snapshot
        entry = snapshot.entry.entry
        if entry != self._read or self._shown is None:
            self._shown = redacted(entry, redaction) if redaction else entry
        self._read = entry
        flow = snapshot.entry.flow
        if redaction and flow:
            flow = tuple(one.redacted(redaction) for one in flow)
        return replace(snapshot, entry=replace(snapshot.entry, entry=self._shown, flow=flow))

    def action_copy_place(self) -> None:
        item = self.item
        if item is not None and item.place:
            self.copy(item.place, printable(item.place, 60))
        else:
            self.tell("Only a payload's members have a path.")

    def action_filter_by(self) -> None:
        item = self.item
        if item is not None and item.condition:
            self.post_message(self.FilterWanted(item.condition))
        else:
            self.tell("A filter can't name this: F is for a member of JSON, an error, a consumer.")
