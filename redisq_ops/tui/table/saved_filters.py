"""`'`: the filters of the configuration file, each with its digit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Static

from redisq_ops.ops.terminal import printable
from redisq_ops.tui.theme import DIM, HELD

_NONE = 'none yet; in the configuration file:\n\n[dashboard.filters]\n1 = "error~timeout age>2h"'


class SavedFiltersScreen(ModalScreen["str | None"]):
    """Returns the expression of the pressed digit; None after Esc."""

    DEFAULT_CSS = """
    SavedFiltersScreen {
        align: center bottom;
        background: $background 30%;
        #filters {
            width: 78; max-width: 100%; height: auto;
            background: $surface; border: round $border; padding: 0 1;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,apostrophe", "dismiss(None)", "Close"),
    ]

    def __init__(self, filters: Mapping[str, str]) -> None:
        super().__init__()
        self._filters = filters

    def compose(self) -> ComposeResult:
        text = Text("Saved filters\n", "bold")
        for digit, expression in sorted(self._filters.items()):
            text.append(f" {digit}  ", HELD)
            text.append(f"{printable(expression)}\n")
        text.append("A digit filters; Esc goes back" if self._filters else _NONE, DIM)
        yield Static(text, id="filters", markup=False)

    def on_key(self, key: Key) -> None:
        expression = self._filters.get(key.character or "")
        if expression is not None:
            key.stop()
            self.dismiss(expression)  # type: ignore[unused-awaitable]
