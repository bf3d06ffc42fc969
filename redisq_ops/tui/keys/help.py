"""`?`: every key, read from the bindings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
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
    screen they take two or three columns; ``/`` shows only keys whose help has some text. Over a
    screen about one entry, request or queue: the keys that act there now."""

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
        top = cast("Top", self.app)
        app: Sequence[Binding] = top.key_bindings
        entry = [*SectionTree.BINDINGS, *EntryTree.BINDINGS, *OutlineTree.BINDINGS[3:6]]
        table = [*_group("In a table", PagedTable.BINDINGS), *_LOST, Text()]
        if (below := top.opened_screen) is not None:
            app, table = _active(app, below), []
            entry = [*_active(_own(below.sections), below), *OutlineTree.BINDINGS[2:6]]
            entry += _active(_own(below), below)
        change = [key for key in app if key.id in _CHANGING]
        leave = [key for key in app if key.id in _LEAVING]
        look = [key for key in app if key not in change and key not in leave]
        self._lines = [
            *_group("Look", look),
            *_group("Change: each key asks first", change),
            *table,
            *_group("In an entry" if below is None else "Here", entry),
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


def _own(node: DOMNode) -> Iterator[BindingType]:
    """The bindings of a widget or screen and of its classes, without the toolkit's."""
    for each in type(node).__mro__:
        if each.__module__.startswith("redisq_ops"):
            yield from each.__dict__.get("BINDINGS", ())


def _active(bindings: Iterable[BindingType], screen: Screen[None]) -> list[Binding]:
    """The bindings that act on that screen now, each with the keys that do."""
    active, found = screen.active_bindings, []
    for one in bindings:
        if isinstance(one, Binding):
            at = {key: active[key] for key in one.key.split(",") if key in active}
            acting = [
                key for key, it in at.items() if it.enabled and it.binding.action == one.action
            ]
            found += [replace(one, key=",".join(acting))] if acting else []
    return found


def _group(title: str, bindings: Iterable[BindingType]) -> list[Text]:
    """A title, a line for each key, and an empty line; nothing without keys."""
    lines = [Text.assemble((f"{signs:<{_WIDTH}}", HELD), words) for signs, words in keys(bindings)]
    return [Text(title, "bold"), *lines, Text()] if lines else []
