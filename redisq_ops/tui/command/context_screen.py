"""`:ctx` without a name: the contexts of the configuration file; ● marks the one that is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from redisq_ops.ops.terminal import printable
from redisq_ops.tui.host import FIRST, Completion
from redisq_ops.tui.theme import DIM, HELD, OK, WARN


class ContextScreen(ModalScreen["str | None"]):
    """Returns the name of the chosen context; None after Esc."""

    DEFAULT_CSS = """
    ContextScreen {
        align: center middle;
        background: $background 30%;
        & > Vertical {
            width: 78; max-width: 100%; height: auto;
            background: $surface; border: round $border; padding: 0 1;
        }
        OptionList, OptionList:focus {
            height: auto; max-height: 20; border: none; background: $surface; padding: 0;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "Close")]

    def __init__(self, contexts: Sequence[Completion], connected: str, answers: bool) -> None:
        """``connected``: the open context; ``answers``: whether its server answers."""
        super().__init__()
        first = Completion(FIRST, "the server that the dashboard was started on")
        self._contexts = [first, *contexts]
        self._connected, self._answers = connected, answers

    def compose(self) -> ComposeResult:
        width = max(len(one.text) for one in self._contexts)
        options = []
        for one in self._contexts:
            is_open = one.text == self._connected
            words = Text("● " if is_open else "  ", OK)
            words.append(f"{printable(one.text):<{width}}  ", HELD)
            words.append(printable(one.help), DIM)
            if is_open:
                words.append("  connected" if self._answers else "  no answer", OK)
            options.append(Option(words, id=one.text))
        with Vertical():
            yield Static(Text("Contexts", "bold"))
            yield OptionList(*options)
            if len(self._contexts) == 1:
                yield Static(Text("The configuration file has no [contexts.NAME] yet.", WARN))
            yield Static(Text("Enter shows its server; Esc goes back", DIM))

    def on_mount(self) -> None:
        names = [one.text for one in self._contexts]
        listed = self.query_one(OptionList)
        listed.highlighted = names.index(self._connected) if self._connected in names else 0

    def on_option_list_option_selected(self, selected: OptionList.OptionSelected) -> None:
        self.dismiss(selected.option_id)  # type: ignore[unused-awaitable]
