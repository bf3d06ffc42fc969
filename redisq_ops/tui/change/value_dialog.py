"""Asks for the value that a change needs: a time, a number, a queue, a consumer, a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.terminal import printable
from redisq_ops.tui.change.dialog import Dialog
from redisq_ops.tui.command.command_line import CompletionList
from redisq_ops.tui.host import Completion


@dataclass(frozen=True, slots=True)
class WantedValue:
    """A value to be typed or picked."""

    title: str
    example: str
    meaning: Callable[[str], str]
    """typed text -> what it means; raises `BadInput`, which says why it can't be used"""
    start: str = ""
    choices: tuple[Completion, ...] = ()
    """what can be picked; typed text shows those that contain it"""
    new: str = ""
    """what a name that is no choice would be, in words; empty: only a choice can be taken"""
    refused: str = ""
    """why the text it starts with was refused"""
    asks: bool = True
    """whether a dialog that asks about the change follows"""


class ValueDialog(Dialog["str | None"]):
    """The value, after Enter; None after Esc. The text has the focus: no letter is a command."""

    DEFAULT_CSS = """
    ValueDialog {
        #meaning { height: auto; min-height: 1; color: $secondary; }
        #meaning.-bad { color: $warning; }
        #hint { color: $text-muted; margin-top: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("down", "choose(1)", "Next", show=False),
        Binding("up", "choose(-1)", "Previous", show=False),
    ]

    def __init__(self, wanted: WantedValue) -> None:
        super().__init__()
        self.wanted = wanted
        self._text = Input(
            wanted.start, wanted.example, id="value", compact=True, select_on_focus=False
        )
        self._text.cursor_blink = False
        self._list = CompletionList()
        self._meaning = Static(id="meaning", markup=False)
        self._before = wanted.start
        self._found: list[Completion] = []
        self._at = 0

    def compose(self) -> ComposeResult:
        picks = "↑ ↓ choose, " if self.wanted.choices else ""
        takes = "takes it, and asks once more" if self.wanted.asks else "writes it"
        with Vertical(id="dialog"):
            yield Static(printable(self.wanted.title), id="title", markup=False)
            yield self._text
            yield self._list
            yield self._meaning
            yield Static(f"{picks}Enter {takes}; Esc goes back", id="hint")

    def on_mount(self) -> None:
        self.set_focus(self._text)
        self._look_up()
        if self.wanted.refused:
            self._say(self.wanted.refused, bad=True)

    @on(Input.Changed)
    def typed(self, changed: Input.Changed) -> None:
        changed.stop()
        if changed.value != self._before:  # the text it starts with is a change, too
            self._before = changed.value
            self._look_up()

    def action_choose(self, step: int) -> None:
        if self._found:
            self._at = (self._at + step) % len(self._found)
            self._show()

    @on(Input.Submitted)
    def take(self, submitted: Input.Submitted) -> None:
        submitted.stop()
        value = self._value
        try:
            self.wanted.meaning(value)
        except BadInput as error:
            self._say(str(error), bad=True)
        else:
            self.dismiss(value)  # type: ignore[unused-awaitable]

    @property
    def _value(self) -> str:
        return self._found[self._at].text if self._found else self._text.value.strip()

    def _look_up(self) -> None:
        """Find the choices for the typed text: the same name first, a new name last."""
        text, wanted = self._text.value.strip(), self.wanted
        found = [one for one in wanted.choices if text.casefold() in one.text.casefold()]
        self._found = sorted(found, key=lambda one: one.text != text)
        if text and wanted.new and not (found and self._found[0].text == text):
            self._found.append(Completion(text, wanted.new))
        self._at = 0
        self._show()

    def _show(self) -> None:
        self._list.show(self._found, self._at if self._found else None)
        try:
            self._say(self.wanted.meaning(self._value) if self._value else "")
        except BadInput as error:
            self._say(str(error), bad=True)

    def _say(self, words: str, *, bad: bool = False) -> None:
        self._meaning.update(printable(words))
        self._meaning.set_class(bad, "-bad")
