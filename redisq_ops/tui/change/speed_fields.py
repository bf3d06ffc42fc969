"""Fields of a dialog for how fast a change is carried out: `--rate`, `--canary` and `--ramp`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Checkbox, Input, Label

from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.filter.time import per_second


@dataclass(frozen=True, slots=True)
class ChangeSpeed:
    """The speed of a change; by default as fast as the server allows."""

    rate: float | None = None
    """entries per second at most"""
    canary: int = 0
    """entries to replay first; the others follow only if these succeed"""
    ramp: bool = False
    """start slowly, and double while replayed entries succeed"""

    @property
    def watches(self) -> bool:
        """Whether the change goes on only if the replayed entries succeed."""
        return bool(self.canary) or self.ramp


class _ShortField(Input):
    """Takes the characters of a number or rate; ``y`` and ``n`` still answer the dialog."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.focus_next", "Done", show=False)]

    def __init__(self, id: str, placeholder: str, characters: str) -> None:
        super().__init__(
            id=id, compact=True, placeholder=placeholder, max_length=9, restrict=f"[{characters}]*"
        )
        self.cursor_blink = False
        self._characters = characters

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return character is not None and character in self._characters


class _Tick(Checkbox):
    """A checkbox that is empty while it is off. Textual's own always has an X, and shows its state
    only by a colour, which a terminal with its own colours may not show."""

    BUTTON_INNER = " "

    def watch_value(self) -> None:
        self.BUTTON_INNER = "X" if self.value else " "
        super().watch_value()


class SpeedFields(Horizontal):
    """A rate; with ``ramp`` also a canary and a ramp."""

    DEFAULT_CSS = """
    SpeedFields {
        height: 1;
        margin-top: 1;
        Label { color: $text-muted; margin-right: 1; }
        Input { width: 11; background: $panel; padding: 0 1; margin-right: 2; }
        Checkbox { background: $surface; }
        Checkbox > .toggle--button { color: $success; background: $panel; }
    }
    """

    def __init__(self, *, ramp: bool) -> None:
        super().__init__(id="speed")
        self._rate = _ShortField("rate", "N/s (r)", "0123456789./smh")
        self._canary = _ShortField("canary", "N", "0123456789") if ramp else None
        self._ramp = _Tick("ramp up", id="ramp", compact=True) if ramp else None

    def compose(self) -> ComposeResult:
        yield Label("rate")
        yield self._rate
        if self._canary is not None and self._ramp is not None:
            yield Label("canary")
            yield self._canary
            yield self._ramp

    def focus_first(self) -> None:
        self._rate.focus()

    @property
    def speed(self) -> ChangeSpeed:
        """The speed entered; raises `BadInput` for a rate or canary that can't be read."""
        rate = self._rate.value.strip()
        canary = self._canary.value.strip() if self._canary is not None else ""
        if canary and int(canary) == 0:
            raise BadInput("canary: a number from 1 on")
        ramp = self._ramp is not None and self._ramp.value
        return ChangeSpeed(per_second(rate) if rate else None, int(canary or 0), ramp)

    @property
    def problem(self) -> str:
        """Why what was entered is no speed; empty: it is one."""
        try:
            _ = self.speed
        except BadInput as error:
            return str(error)
        return ""
