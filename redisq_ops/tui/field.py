"""Where the filter is typed; it takes effect with every letter."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

if TYPE_CHECKING:
    from redisq_ops.ops.expression import Query

_WORDS = "words only: what is listed here has no fields"


class Field(Input):
    """A line for an expression, as ``--where`` takes. Out of sight it has none and says nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep this filter"),
        Binding("escape", "drop", "Drop it"),
    ]

    class Narrowed(Message):
        """What is typed can be read, or is nothing."""

        def __init__(self, query: Query | None) -> None:
            super().__init__()
            self.query = query

    def __init__(self) -> None:
        super().__init__(id="filter", compact=True, placeholder="timeout  age>2h  client=acme")
        self.cursor_blink = False
        self.display = False
        self._problem = ""
        self._entries = True
        self._utc = False

    @property
    def problem(self) -> str:
        """Why what is typed has no effect yet."""
        return self._problem if self.display else ""

    def begin(self, now: Query | None, *, entries: bool = True, utc: bool = False) -> None:
        """Come into sight with the present filter; without ``entries`` fields mean nothing."""
        self._entries, self._utc = entries, utc
        self.value = now.text if now else ""
        self.display = True
        # At once: `focus()` waits for the next turn, and letters that came along are commands then.
        self.screen.set_focus(self)

    def watch_value(self, value: str) -> None:
        if not self.display:
            return
        # Loaded with the first letter: it brings the Redis client.
        from redisq_ops.ops.language import Unreadable, parse

        try:
            query = parse(value, utc=self._utc) if value.strip() else None
        except Unreadable as error:
            self._problem = error.why
            return
        self._problem = _WORDS if query and query.asks and not self._entries else ""
        if not self._problem:
            self.post_message(self.Narrowed(query))

    async def action_drop(self) -> None:
        self.value = ""
        await self.action_submit()
