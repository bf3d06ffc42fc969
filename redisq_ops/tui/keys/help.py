"""`?`: every key, read from the bindings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from redisq_ops.tui.keys.keys import CHANGE, LEAVE, sign
from redisq_ops.tui.outline.entry_tree import EntryTree
from redisq_ops.tui.outline.outline_tree import OutlineTree
from redisq_ops.tui.outline.section_tree import SectionTree
from redisq_ops.tui.table.table import PagedTable
from redisq_ops.tui.theme import DIM, HELD

if TYPE_CHECKING:
    from ..app import Top

_CHANGING = frozenset(binding.id for binding in CHANGE)
_LEAVING = frozenset(binding.id for binding in LEAVE)
_WIDTH = 12
_COLUMNS = 3
_LOST = (
    Text("✗: the entry under the cursor went", DIM),
    Text("away; move to select another", DIM),
)


def keys(bindings: Iterable[BindingType]) -> Iterable[tuple[str, str]]:
    """The keys to press, and what they do."""
    for binding in bindings:
        if isinstance(binding, Binding):
            signs = " ".join(sign(part) for part in binding.key.split(","))
            yield signs, binding.tooltip or binding.description


class HelpScreen(ModalScreen[None]):
    """The keys in groups: looking, changing, moving in a table or an entry, leaving. On a wide
    screen they take two or three columns; ``/`` shows only keys whose help has some text."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (116, "-wide")]  # noqa: RUF012 (declared so by Screen)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close"),
        Binding("slash", "find", "Find"),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Text] = []
        self._columns = [Static(markup=False) for _ in range(_COLUMNS)]
        self._find = Input(placeholder="a key, or what it does", compact=True)

    def compose(self) -> ComposeResult:
        app = cast("Top", self.app).key_bindings
        change = [key for key in app if key.id in _CHANGING]
        leave = [key for key in app if key.id in _LEAVING]
        look = [key for key in app if key not in change and key not in leave]
        entry = [*SectionTree.BINDINGS, *EntryTree.BINDINGS, *OutlineTree.BINDINGS[3:6]]
        self._lines = [
            *_group("Look", look),
            *_group("Change: each key asks first", change),
            *_group("In a table", PagedTable.BINDINGS),
            *_LOST,
            Text(),
            *_group("In an entry", entry),
            *_group("Leave", leave),
        ][:-1]
        with VerticalScroll(id="sheet") as sheet:
            sheet.border_subtitle = "/ finds a key"
            yield self._find
            with Container(id="columns"):
                yield from self._columns

    def on_mount(self) -> None:
        self._find.display = False
        self._show(self._lines)

    def _show(self, lines: list[Text]) -> None:
        height = max(1, ceil(len(lines) / _COLUMNS))
        for at, column in enumerate(self._columns):
            column.update(Text("\n").join(lines[at * height : (at + 1) * height]))

    def action_find(self) -> None:
        self._find.display = True
        self._find.focus()

    def on_input_changed(self, changed: Input.Changed) -> None:
        words = changed.value.casefold()
        found = (line for line in self._lines if line.spans and words in line.plain.casefold())
        self._show(list(found) if words else self._lines)

    def action_scroll(self, lines: int) -> None:
        self.query_one("#sheet").scroll_relative(y=lines, animate=False)


def _group(title: str, bindings: Iterable[BindingType]) -> Iterator[Text]:
    yield Text(title, "bold")
    for signs, words in keys(bindings):
        yield Text.assemble((f"{signs:<{_WIDTH}}", HELD), words)
    yield Text()
