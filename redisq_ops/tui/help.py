"""`?`: every key there is, read from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from redisq_ops.tui.entry_tree import EntryTree
from redisq_ops.tui.keys import CHANGE, LEAVE, sign
from redisq_ops.tui.section_tree import OutlineTree, SectionTree
from redisq_ops.tui.table import PagedTable
from redisq_ops.tui.theme import DIM, HELD

if TYPE_CHECKING:
    from .app import Top

_CHANGING = frozenset(binding.id for binding in CHANGE)
_LEAVING = frozenset(binding.id for binding in LEAVE)
_WIDTH = 13
_LOST = Text(
    "✗: the entry under the cursor went away.\nNothing is selected until the cursor moves.", DIM
)


def keys(bindings: Iterable[BindingType]) -> Iterable[tuple[str, str]]:
    """What to press, and what it does."""
    for binding in bindings:
        if isinstance(binding, Binding):
            signs = " ".join(sign(part) for part in binding.key.split(","))
            yield signs, binding.tooltip or binding.description


class HelpScreen(ModalScreen[None]):
    """The keys in groups: looking, changing, moving in a table or an entry, leaving."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 (declared so by Screen)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close"),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
    ]

    def compose(self) -> ComposeResult:
        app = cast("Top", self.app).key_bindings
        change = [key for key in app if key.id in _CHANGING]
        leave = [key for key in app if key.id in _LEAVING]
        look = [key for key in app if key not in change and key not in leave]
        entry = [*SectionTree.BINDINGS, *EntryTree.BINDINGS, *OutlineTree.BINDINGS[3:6]]
        with VerticalScroll(id="sheet"), Container(id="columns"):
            yield Static(_group("Look", look), markup=False)
            groups = [
                _group("Change: each key asks first", change),
                _group("In a table", PagedTable.BINDINGS), _LOST.copy().append("\n"),
                _group("In an entry", entry), _group("Leave", leave),
            ]  # fmt: skip
            yield Static(Text("\n").join(groups), markup=False)

    def action_scroll(self, lines: int) -> None:
        self.query_one("#sheet").scroll_relative(y=lines, animate=False)


def _group(title: str, bindings: Iterable[BindingType]) -> Text:
    text = Text()
    text.append(f"{title}\n", "bold")
    for signs, words in keys(bindings):
        text.append(f"{signs:<{_WIDTH}}", HELD)
        text.append(f"{words}\n")
    return text
