"""The frame of the dialogs that lead to a change; a key typed before one opened is no answer."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TypeVar

from textual.events import Key
from textual.screen import ModalScreen

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """A box in the middle of the screen."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 70%;
        #dialog {
            width: 78;
            max-width: 100%;
            height: auto;
            max-height: 100%;
            background: $surface;
            border: round $border;
            padding: 1 2;
        }
        #title { text-style: bold; margin-bottom: 1; }
        #typed, #why, #value { background: $panel; padding: 0 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._opened_at = inf

    def on_mount(self) -> None:
        self._opened_at = monotonic()

    def answers(self, key: Key) -> bool:
        """Whether the key came after the dialog opened: an earlier one was meant for something
        else."""
        return key.time >= self._opened_at
