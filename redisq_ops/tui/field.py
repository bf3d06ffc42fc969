"""Where the filter is typed; it takes effect with every letter."""

from __future__ import annotations

import re
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class Field(Input):
    """A line for a regular expression. Out of sight it has none and says nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep this filter"),
        Binding("escape", "drop", "Drop it"),
    ]

    class Narrowed(Message):
        """What is typed is a regular expression, or nothing."""

        def __init__(self, pattern: re.Pattern[str] | None) -> None:
            super().__init__()
            self.pattern = pattern

    def __init__(self) -> None:
        super().__init__(id="filter", compact=True, placeholder="regular expression: id, error")
        self.cursor_blink = False
        self.display = False
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why what is typed has no effect yet."""
        return self._problem if self.display else ""

    def begin(self, now: re.Pattern[str] | None) -> None:
        """Come into sight with the present filter."""
        self.value = now.pattern if now else ""
        self.display = True
        # At once: `focus()` waits for the next turn, and letters that came along are commands then.
        self.screen.set_focus(self)

    def watch_value(self, value: str) -> None:
        if not self.display:
            return
        try:
            pattern = re.compile(value) if value else None
        except (re.error, OverflowError) as error:
            self._problem = f"not a regular expression yet: {error}"
        else:
            self._problem = ""
            self.post_message(self.Narrowed(pattern))

    async def action_drop(self) -> None:
        self.value = ""
        await self.action_submit()
