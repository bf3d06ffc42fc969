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

from redisq_ops.tui.keys import CHANGE, sign
from redisq_ops.tui.table import PagedTable
from redisq_ops.tui.theme import DIM, HELD

if TYPE_CHECKING:
    from .app import Top

_CHANGING = frozenset(binding.id for binding in CHANGE)
_WIDTH = 13
_LOST = Text(
    "✗: the entry under the cursor went away.\nNothing is selected until the cursor moves.", DIM
)


def keys(bindings: Iterable[BindingType]) -> Iterable[tuple[str, str, bool]]:
    """What to press, what it does, and whether it is one of those that change something."""
    for binding in bindings:
        if isinstance(binding, Binding):
            parts = binding.key.split(",")
            signs = " ".join(sign(part) for part in parts)
            changes = binding.id in _CHANGING
            yield signs, binding.tooltip or binding.description, changes


class HelpScreen(ModalScreen[None]):
    """The keys in groups: looking, changing, moving in a table."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 (declared so by Screen)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close"),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
    ]

    def compose(self) -> ComposeResult:
        app = list(keys(cast("Top", self.app).key_bindings))
        with VerticalScroll(id="sheet"), Container(id="columns"):
            yield Static(_group("Look", [key for key in app if not key[2]]), markup=False)
            change = _group("Change: each key asks first", [key for key in app if key[2]])
            yield Static(
                Text("\n").join([change, _group("In a table", keys(PagedTable.BINDINGS)), _LOST]),
                markup=False,
            )

    def action_scroll(self, lines: int) -> None:
        self.query_one("#sheet").scroll_relative(y=lines, animate=False)


def _group(title: str, rows: Iterable[tuple[str, str, bool]]) -> Text:
    text = Text()
    text.append(f"{title}\n", "bold")
    for signs, words, _ in rows:
        text.append(f"{signs:<{_WIDTH}}", HELD)
        text.append(f"{words}\n")
    return text
