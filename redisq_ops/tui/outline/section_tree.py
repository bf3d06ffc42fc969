"""Sections of foldable lines on the screen, unfolded as far as they fit; with search and copy."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from redisq_ops.ops.encodings import MOST
from redisq_ops.ops.terminal import count, printable, size
from redisq_ops.tui.outline.outline import GROUP, NO_PARTS, OutlineItem, OutlineSection, matches
from redisq_ops.tui.outline.outline_tree import Node, OutlineTree

FOUND: Final = 1_000
"""matches of a search that are counted and gone through"""
_DEEP: Final = 5
"""levels unfolded at first"""
_UNFOLDED: Final = 10
"""lines unfolded at first while the widget has no height yet"""


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


class SectionTree(Vertical):
    """Sections, folded so that at first all of their titles fit."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", tooltip="Search keys and values"),
        Binding("n", "next_match(1)", "Next", show=False, tooltip="Next match"),
        Binding("N", "next_match(-1)", "Previous", show=False, tooltip="Previous match"),
        Binding("y", "copy", "Copy", tooltip="Copy the value or payload"),
    ]
    DEFAULT_CSS = """
    SectionTree {
        height: 1fr;
        OutlineTree { background: $surface; height: 1fr; scrollbar-size: 0 1; }
        OutlineTree:focus { background-tint: $foreground 0%; }
        OutlineTree > .tree--cursor { background: $panel; text-style: none; }
        OutlineTree:focus > .tree--cursor {
            background: $primary-muted;
            color: $foreground;
            text-style: bold;
        }
        .found { height: 1; color: $text-warning; }
        .search { height: 1; background: $panel; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        # Held, not queried: sections may come before this is composed.
        self.outline = OutlineTree()
        self.search = SearchInput()
        self._found_line = Static(classes="found", markup=False)
        self._found_line.display = False
        self._sections: list[OutlineSection] = []
        self._found: list[tuple[int, ...]] = []
        self._all_found = True
        self._at = -1

    def compose(self) -> ComposeResult:
        yield self.outline
        yield self._found_line
        yield self.search

    # --- drawing -------------------------------------------------------------------------------

    def show_sections(self, sections: list[OutlineSection]) -> None:
        """Draw the changed sections. If the names differ, all are drawn anew with a new cursor."""
        if [section.name for section in sections] != [one.name for one in self._sections]:
            self.clear()
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

    def clear(self) -> None:
        """Show nothing."""
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
        # The cursor starts on the payload or on a row's facts: most often read and copied.
        first = min(range(len(sections)), key=lambda at: sections[at].rank)
        node = outline.root.children[first]
        outline.put_cursor(node.children[0] if sections[first].of_choices else node)

    def _begin_later(self, sections: list[OutlineSection]) -> None:
        """Called once the height is known; does nothing if other sections came meanwhile."""
        if self._sections is sections:
            self._begin(sections, True)

    def _unfold_what_fits(self) -> None:
        """Unfold the first in rank (the payload, or facts of a row), then other sections, then
        members level by level, while there is room.

        The first is unfolded even without room: the payload is the last section and hides no other.
        """
        outline = self.outline
        left = (outline.size.height or _UNFOLDED) - len(self._sections)
        ranked = sorted(
            zip(self._sections, outline.root.children, strict=True), key=lambda pair: pair[0].rank
        )
        first_ones = sum(section.rank == ranked[0][0].rank for section in self._sections)
        waiting = [(node, 0) for _, node in ranked]
        for at, (node, depth) in enumerate(waiting):  # it grows
            parts = node.data.parts if node.data is not None else NO_PARTS
            lines = len(parts.folded())
            if at < first_ones or (0 < lines <= left and depth < _DEEP):
                left -= lines
                outline.unfold(node)
                waiting += [(child, depth + 1) for child in node.children]
        first, _ = waiting[0]
        if first.data is not None and first.data.parts.number > GROUP:
            outline.unfold(first.children[0])

    def _replace(self, node: Node, section: OutlineSection) -> None:
        """Replace the content of a section; cursor and unfolded lines of other sections stay."""
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
        # Not `focus()`, which waits for the next turn: letters typed until then would act as keys.
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
            self.tell("There is no search: / begins one.")

    def _go_to_match(self, at: int) -> None:
        """Unfold the lines above the match, and put the cursor on it."""
        if not self._found:
            return
        self._at = at
        node = self.outline.root
        for index in self._found[at]:
            self.outline.unfold(node)
            if index >= len(node.children):  # it has changed since
                break
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
    def item(self) -> OutlineItem | None:
        node = self.outline.cursor_node
        return None if node is None else node.data

    def action_copy(self) -> None:
        item = self.item
        if item is None:
            return
        value, what = item.value, printable(item.label.plain, 40)
        if not value:
            self.tell("This line has no value to copy.")
        elif len(value) > MOST:
            self.tell(f"{size(len(value))} is too much for a clipboard: redisq export writes it.")
        elif isinstance(value, bytes):
            self.copy(*_as_text(value))
        else:
            self.copy(value, what)

    def copy(self, text: str, what: str) -> None:
        # JSON may have half a surrogate pair, which no terminal takes.
        self.app.copy_to_clipboard(text.encode("utf-8", "replace").decode())
        self.notify(f"copied {what}", markup=False)

    def tell(self, why: str) -> None:
        self.notify(why, severity="warning", markup=False, timeout=3)


def _as_text(payload: bytes) -> tuple[str, str]:
    """A payload as text for the clipboard, and a description of it."""
    from base64 import b64encode

    try:
        return payload.decode(), "the payload"
    except UnicodeDecodeError:
        return b64encode(payload).decode(), "the payload as base64"
