"""A tree of outline items, made when they are unfolded; long lines are not wrapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from redisq_ops.tui.outline.outline import Line, OutlineItem
from redisq_ops.tui.theme import DIM, INK, WARN

_SIDEWAYS: Final = 20
"""cells by which a long line is moved"""

Node = TreeNode[OutlineItem]


class OutlineTree(Tree[OutlineItem]):
    """Draws outline items; a node's children are made when it is unfolded."""

    ICON_NODE = "▸ "
    ICON_NODE_EXPANDED = "▾ "
    ICON_LEAF = "  "
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "cursor_down", "Down", show=False),
        Binding("k,up", "cursor_up", "Up", show=False),
        Binding("enter", "open", "Open", show=False, tooltip="Fold or unfold"),
        Binding("space", "toggle_node", "Fold", show=False, tooltip="Fold or unfold"),
        Binding("right", "unfold", "Unfold", show=False, tooltip="Unfold, or see the rest"),
        Binding("left", "fold", "Fold", show=False, tooltip="Fold, or go to its parent"),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("g,home", "scroll_home", "First", show=False),
        Binding("G,end", "scroll_end", "Last", show=False),
    ]

    @dataclass(eq=False)
    class Opened(Message):
        """Enter or a double click on a line that nothing is folded in."""

        item: OutlineItem

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
            text.append("  ").append(Text(summary, DIM) if isinstance(summary, str) else summary)
        if self.needle:
            text.highlight_words([self.needle], f"{INK} on {WARN}", case_sensitive=False)
        text.stylize(style)
        return text

    def render_line(self, y: int) -> Strip:
        """End a line that is wider than the window in "…"."""
        strip = super().render_line(y)
        node, right = self.get_node_at_line(y + self.scroll_offset.y), self.size.width
        if node is None or right < 1:
            return strip
        end = self._get_label_region(node._line)
        if end is None or end.right - self.scroll_offset.x <= right:
            return strip
        last = strip.crop(right - 1, right)
        return Strip.join([strip.crop(0, right - 1), Strip([Segment("…", next(iter(last)).style)])])

    def make(self, parent: Node, item: OutlineItem, before: int | None = None) -> Node:
        """A folded node for the item."""
        self.made += 1
        foldable = item.parts.number > 0
        return parent.add(item.label, item, before=before, allow_expand=foldable)

    def fill(self, node: Node) -> None:
        """Make the node's children, unless they exist."""
        if not node.children and node.data is not None:
            with self.app.batch_update():
                for item in node.data.parts.folded():
                    self.make(node, item)

    def unfold(self, node: Node) -> None:
        self.fill(node)
        if not node.is_expanded:
            node.expand()

    def _toggle_node(self, node: Node) -> None:
        """Called by Textual for keys and clicks."""
        if not node.is_expanded:
            self.fill(node)
        super()._toggle_node(node)

    async def _on_click(self, event: Click) -> None:
        await super()._on_click(event)
        if event.chain == 2 and "line" in event.style.meta and "toggle" not in event.style.meta:
            self.action_open()

    def action_select_cursor(self) -> None:
        """Called by Textual after a click, which only moves the cursor here."""

    def action_open(self) -> None:
        node = self.cursor_node
        if node is not None and node.allow_expand:
            self._toggle_node(node)
        elif node is not None and node.data is not None:
            self.post_message(self.Opened(node.data))

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
        """Move the cursor to a node, also to one just made."""
        _ = self.last_line  # counts the lines again
        self.move_cursor(node)
        self.call_after_refresh(self.scroll_to_node, node, animate=False)
