"""The foldable view of an entry or a request: search, copy, filter by a value.

It never fetches: whoever owns it reads :attr:`EntryTree.wanted` at every poll and hands the
snapshot to :meth:`EntryTree.show`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Static, Tree
from textual.widgets.tree import TreeNode

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count, printable, size
from redisq_ops.tui.entry_outline import READ_ONCE, OutlineSection, outline_sections, redacted
from redisq_ops.tui.outline import GROUP, NO_PARTS, Line, OutlineItem, matches
from redisq_ops.tui.payload_outline import PARSED
from redisq_ops.tui.theme import DIM, INK, WARN
from redisq_ops.tui.views.base import redaction_of
from redisq_ops.tui.views.delayed import zone_of

FOUND: Final = 1_000
"""matches of a search that are counted and gone through"""
GONE: Final = "is not here any more: done, or removed for good."
_SIDEWAYS: Final = 20
"""cells by which a long line is moved"""
_UNFOLDED: Final = 10
"""lines unfolded at first in a place of no height yet"""

Node = TreeNode[OutlineItem]


class SearchInput(Input):
    """A line for a text to search in a payload; Enter keeps the matches, Esc drops them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Go through the matches", show=False),
        Binding("escape", "drop", "Drop the search", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(classes="search", compact=True, placeholder="search: a key or a value")
        self.cursor_blink = False
        self.display = False

    async def action_drop(self) -> None:
        self.value = ""
        await self.action_submit()


class OutlineTree(Tree[OutlineItem]):
    """Draws outline items; a node's children are made when it is unfolded."""

    ICON_NODE = "▸ "
    ICON_NODE_EXPANDED = "▾ "
    ICON_LEAF = "  "
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "cursor_down", "Down", show=False),
        Binding("k,up", "cursor_up", "Up", show=False),
        Binding("enter,space", "toggle_node", "Fold", show=False, tooltip="Fold or unfold"),
        Binding("right", "unfold", "Unfold", show=False, tooltip="Unfold, or see more of the line"),
        Binding("left", "fold", "Fold", show=False, tooltip="Fold, or go to what contains it"),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("g,home", "scroll_home", "First", show=False),
        Binding("G,end", "scroll_end", "Last", show=False),
    ]

    def __init__(self) -> None:
        self.needle = ""
        """what is searched for"""
        self.made = 0
        """nodes made so far"""
        super().__init__(Text(), Line(Text()))
        self.show_root = False
        self.show_guides = False
        self.guide_depth = 2
        self.auto_expand = False

    def process_label(self, label: str | Text) -> Text:
        return label if isinstance(label, Text) else Text(label)

    def render_label(self, node: Node, base_style: Style, style: Style) -> Text:
        icon = self.ICON_LEAF
        if node.allow_expand:
            icon = self.ICON_NODE_EXPANDED if node.is_expanded else self.ICON_NODE
        meta = Style(meta={"toggle": True}) if node.allow_expand else Style()
        text = Text.assemble((icon, base_style + meta), node.label)
        if node.data is not None and not node.is_expanded and (summary := node.data.summary):
            text.append(f"  {summary}", DIM)
        if self.needle:
            text.highlight_words([self.needle], f"{INK} on {WARN}", case_sensitive=False)
        text.stylize(style)
        return text

    def make(self, parent: Node, item: OutlineItem, before: int | None = None) -> Node:
        """A folded node for the item."""
        self.made += 1
        foldable = item.parts.number > 0
        return parent.add(item.label, item, before=before, allow_expand=foldable)

    def fill(self, node: Node) -> None:
        """Make the node's children, if they are not there yet."""
        if not node.children and node.data is not None:
            with self.app.batch_update():
                for item in node.data.parts.folded():
                    self.make(node, item)

    def unfold(self, node: Node) -> None:
        self.fill(node)
        if not node.is_expanded:
            node.expand()

    def _toggle_node(self, node: Node) -> None:
        """Asked for by keys and clicks."""
        if not node.is_expanded:
            self.fill(node)
        super()._toggle_node(node)

    def action_unfold(self) -> None:
        node = self.cursor_node
        if node is not None and node.allow_expand and not node.is_expanded:
            self.unfold(node)
        else:
            self.scroll_relative(x=_SIDEWAYS, animate=False)

    def action_fold(self) -> None:
        node = self.cursor_node
        if self.scroll_offset.x:
            self.scroll_relative(x=-_SIDEWAYS, animate=False)
        elif node is not None and node.allow_expand and node.is_expanded:
            node.collapse()
        elif node is not None and node.parent is not None and not node.parent.is_root:
            self.move_cursor(node.parent)

    def put_cursor(self, node: Node) -> None:
        """Move the cursor to a node that may just have been made."""
        _ = self.last_line  # counts the lines again
        self.move_cursor(node)
        self.call_after_refresh(self.scroll_to_node, node, animate=False)


class EntryTree(Vertical):
    """Sections of an entry or a request, folded so that at first all of their titles fit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", tooltip="Search keys and values"),
        Binding("n", "next_match(1)", "Next", show=False, tooltip="Next match"),
        Binding("N", "next_match(-1)", "Previous", show=False, tooltip="Previous match"),
        Binding("y", "copy", "Copy", tooltip="Copy the value, or the payload"),
        Binding("full_stop", "copy_place", "Path", tooltip="Copy the path, as filters write it"),
        Binding("F", "filter_by", "Filter", tooltip="Filter the list by this value"),
    ]
    DEFAULT_CSS = """
    EntryTree {
        height: 1fr;
        OutlineTree { background: $surface; height: 1fr; overflow-y: scroll; scrollbar-size: 0 1; }
        OutlineTree:focus { background-tint: $foreground 0%; }
        OutlineTree > .tree--cursor { background: $panel; text-style: none; }
        OutlineTree:focus > .tree--cursor {
            background: $primary-muted;
            color: $foreground;
            text-style: bold;
        }
        .note { height: auto; padding: 0 1; color: $text-warning; }
        .found { height: 1; color: $text-warning; }
        .search { height: 1; background: $panel; }
    }
    """

    class FilterWanted(Message):
        """The list is to show only what this expression matches."""

        def __init__(self, condition: str) -> None:
            super().__init__()
            self.condition = condition

    def __init__(self) -> None:
        super().__init__()
        # Held, not queried: sections may come before this is composed.
        self.outline = OutlineTree()
        self.search = SearchInput()
        self._found_line = Static(classes="found", markup=False)
        self._found_line.display = False
        self._note = Static(classes="note", markup=False)
        self.about: str | None = None
        """the id of what is shown"""
        self.reads = True
        """whether it is to be read with the next snapshot"""
        self._sections: list[OutlineSection] = []
        self._read: Entry | None = None
        self._shown: Entry | None = None
        self._found: list[tuple[int, ...]] = []
        self._all_found = True
        self._at = -1

    def compose(self) -> ComposeResult:
        yield self._note
        yield self.outline
        yield self._found_line
        yield self.search

    # --- what its owner uses -------------------------------------------------------------------

    @property
    def wanted(self) -> str | None:
        """The id to read with the next snapshot. A large payload isn't read a second time."""
        payload = self._read.payload if self._read is not None else None
        large = payload is not None and len(payload) > READ_ONCE
        return self.about if self.reads and not large else None

    def begin(self, about: str | None, *, reads: bool = True) -> None:
        """Show another entry or request from now on; nothing of it is known yet."""
        if about is None and self.about is None:
            return
        self.about, self.reads, self._read = about, reads, None
        self._clear()
        self.note("" if about is None else f"{printable(about)} …")

    def note(self, words: str) -> None:
        """A line above; empty: none."""
        self._note.update(words)
        self._note.display = bool(words)

    def show(self, snapshot: Snapshot) -> None:
        """Draw what has changed."""
        if self.about is None or snapshot.viewport.detail != self.about:
            return
        sections = outline_sections(self._redacted(snapshot), zone_of(self))
        self.note("" if sections else f"{printable(self.about)} {GONE}")
        if [section.name for section in sections] != [one.name for one in self._sections]:
            self._clear()
            self._begin(sections)
            return
        before, self._sections = self._sections, sections
        nodes = self.outline.root.children
        if len(nodes) != len(sections):
            self._begin(sections)
            return
        for node, old, new in zip(nodes, before, sections, strict=True):
            if old.content != new.content:
                self._replace(node, new)

    def _redacted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with its entry as it may be shown."""
        if snapshot.entry is None:
            self._read = None
            return snapshot
        entry = snapshot.entry.entry
        if entry != self._read or self._shown is None:
            redaction = redaction_of(self)
            self._shown = redacted(entry, redaction) if redaction else entry
        self._read = entry
        return replace(snapshot, entry=replace(snapshot.entry, entry=self._shown))

    # --- drawing -------------------------------------------------------------------------------

    def _clear(self) -> None:
        self._sections = []
        self._drop_search()
        self.outline.clear()
        self.outline.scroll_home(animate=False)

    def _begin(self, sections: list[OutlineSection], laid_out: bool = False) -> None:
        if not sections:
            return
        self._sections, outline = sections, self.outline
        if not outline.size.height and not laid_out:
            self.call_after_refresh(self._begin_later, sections)
            return
        with self.app.batch_update():
            for section in sections:
                outline.make(outline.root, section.title)
            outline.root.expand()
            self._unfold_what_fits()
        # The cursor is on what has the payload: that is most looked at and copied.
        first = min(range(len(sections)), key=lambda at: sections[at].rank)
        outline.put_cursor(outline.root.children[first])

    def _begin_later(self, sections: list[OutlineSection]) -> None:
        """Once its height is known, if nothing else is to be shown by then."""
        if self._sections is sections:
            self._begin(sections, True)

    def _unfold_what_fits(self) -> None:
        """The payload, then other sections, then members level by level, while there is room.

        Only the payload may need more: it is the last section, and pushes no other away.
        """
        outline = self.outline
        left = (outline.size.height or _UNFOLDED) - len(self._sections)
        ranked = sorted(
            zip(self._sections, outline.root.children, strict=True), key=lambda pair: pair[0].rank
        )
        waiting = [node for _, node in ranked]
        for at, node in enumerate(waiting):  # it grows
            parts = node.data.parts if node.data is not None else NO_PARTS
            lines = len(parts.folded())
            if at == 0 or 0 < lines <= left:
                left -= lines
                outline.unfold(node)
                waiting += node.children
        if waiting and waiting[0].data is not None and waiting[0].data.parts.number > GROUP:
            outline.unfold(waiting[0].children[0])

    def _replace(self, node: Node, section: OutlineSection) -> None:
        """Another content in a section; the cursor and what is unfolded in others stay."""
        tree, title = self.outline, section.title
        node.data = title
        node.set_label(title.label)
        items = title.parts.folded()
        if len(items) == len(node.children) and not any(
            child.allow_expand or item.parts.number
            for child, item in zip(node.children, items, strict=True)
        ):
            for child, item in zip(node.children, items, strict=True):
                child.data = item
                child.set_label(item.label)
            return
        node.remove_children()
        node.allow_expand = bool(items)
        if node.is_expanded:
            tree.fill(node)

    # --- search --------------------------------------------------------------------------------

    def action_search(self) -> None:
        self.search.display = True
        # At once: `focus()` waits for the next turn, and letters that came along are keys then.
        self.screen.set_focus(self.search)

    def on_input_changed(self, changed: Input.Changed) -> None:
        changed.stop()
        needle = changed.value.strip()
        self.outline.needle = needle
        self._found, self._all_found, self._at = [], True, -1
        if needle:
            items = [section.title for section in self._sections]
            self._found, self._all_found = matches(items, needle, FOUND)
        self.outline._invalidate()
        self._say_found()

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        submitted.stop()
        self.search.display = False
        self.screen.set_focus(self.outline)
        if self.outline.needle:
            self.action_next_match(1)
        else:
            self._drop_search()

    def _drop_search(self) -> None:
        self.outline.needle, self._found, self._at = "", [], -1
        with self.search.prevent(Input.Changed):
            self.search.value = ""
        self._found_line.display = False

    def action_next_match(self, step: int) -> None:
        if self._found:
            self._go_to_match((self._at + step) % len(self._found))
            self._say_found()
        elif not self.outline.needle:
            self._tell("There is no search: / begins one.")

    def _go_to_match(self, at: int) -> None:
        """Unfold what the match is in, and put the cursor on it."""
        if not self._found:
            return
        self._at = at
        node = self.outline.root
        for index in self._found[at]:
            self.outline.unfold(node)
            node = node.children[index]
        self.outline.put_cursor(node)

    def _say_found(self) -> None:
        needle = self.outline.needle
        self._found_line.display = bool(needle)
        if not needle:
            return
        total = f"{'' if self._all_found else '≥'}{count(len(self._found))}"
        at = f"{count(self._at + 1)} of {total}" if self._at >= 0 else f"{total} found"
        self._found_line.update(f"/{printable(needle, 40)}/ {at}")

    # --- copy and filter -----------------------------------------------------------------------

    @property
    def _item(self) -> OutlineItem | None:
        node = self.outline.cursor_node
        return None if node is None else node.data

    def action_copy(self) -> None:
        item = self._item
        if item is None:
            return
        value, what = item.value, printable(item.label.plain, 40)
        if not value:
            self._tell("This line has no value to copy.")
        elif len(value) > PARSED:
            self._tell(f"{size(len(value))} is too much for a clipboard: redisq export writes it.")
        elif isinstance(value, bytes):
            self._copy(*_as_text(value))
        else:
            self._copy(value, what)

    def action_copy_place(self) -> None:
        item = self._item
        if item is not None and item.place:
            self._copy(item.place, printable(item.place, 60))
        else:
            self._tell("Only a payload's members have a path.")

    def _copy(self, text: str, what: str) -> None:
        # JSON may have half a surrogate pair, which no terminal takes.
        self.app.copy_to_clipboard(text.encode("utf-8", "replace").decode())
        self.notify(f"copied {what}", markup=False)

    def action_filter_by(self) -> None:
        item = self._item
        if item is not None and item.condition:
            self.post_message(self.FilterWanted(item.condition))
        else:
            self._tell("A filter can't name this: F is for a member of JSON, an error, a consumer.")

    def _tell(self, why: str) -> None:
        self.notify(why, severity="warning", markup=False, timeout=3)


def _as_text(payload: bytes) -> tuple[str, str]:
    """A payload for the clipboard, and what that is."""
    from base64 import b64encode

    try:
        return payload.decode(), "the payload"
    except UnicodeDecodeError:
        return b64encode(payload).decode(), "the payload as base64"
