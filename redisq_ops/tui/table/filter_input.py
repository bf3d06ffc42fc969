"""The line in which a filter is typed; the list follows every letter that leaves it valid.

Enter refuses an invalid expression. It would otherwise keep the last valid one, which may match far
more entries than the line on the screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from redisq_ops.ops.terminal import printable

if TYPE_CHECKING:
    from redisq_ops.ops.filter.ast import Query

_WORDS = "words only: what is listed here has no fields"


class _FieldNames(Suggester):
    """Suggests the rest of a field's name; the right arrow takes it."""

    async def get_suggestion(self, value: str) -> str | None:
        from redisq_ops.ops.filter.completion import completed

        return next(iter(completed(value)), None)


class FilterInput(Input):
    """A line for an expression, as ``--where`` takes it. Hidden, it is empty and posts nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep this filter"),
        Binding("escape", "drop", "Drop it"),
    ]

    @dataclass(eq=False)
    class Narrowed(Message):
        """The typed expression is valid, or empty."""

        query: Query | None

    def __init__(self) -> None:
        super().__init__(
            id="filter",
            compact=True,
            placeholder="timeout  age>2h  client=acme",
            suggester=_FieldNames(use_cache=False, case_sensitive=True),
        )
        self.cursor_blink = False
        self.display = False
        self._problem = ""
        self._at = 0
        self._entries = True
        self._utc = False

    @property
    def problem(self) -> str:
        """Why the typed text has no effect yet; empty if it has."""
        return self._problem if self.display else ""

    def pointed(self, width: int) -> str:
        """The problem as a line of ``width`` cells to show below, with a caret under its place."""
        why = self.problem
        at = cell_len(self.value[: self._at]) - int(self.scroll_offset.x)
        if not why or not 0 <= at < width:
            return why
        if at + 2 + cell_len(why) <= width:
            return " " * at + "^ " + why
        return " " * (at - 1 - cell_len(why)) + why + " ^" if cell_len(why) < at else why

    def begin(self, now: Query | None, *, entries: bool = True, utc: bool = False) -> None:
        """Show the line with the present filter; without ``entries``, fields are an error."""
        self._entries, self._utc, self._problem = entries, utc, ""
        self.value = now.text if now else ""
        self.display = True
        # Not `focus()`, which waits for the next turn: letters typed until then would act as keys.
        self.screen.set_focus(self)

    def watch_value(self, value: str) -> None:
        if not self.display:
            return
        # Loaded with the first letter: it imports the Redis client.
        from redisq_ops.ops.filter.parser import FilterError, parse

        try:
            query = parse(value, utc=self._utc) if value.strip() else None
        except FilterError as error:
            self._problem, self._at = error.why, error.column - 1
            return
        self._at = 0
        self._problem = _WORDS if query and query.has_fields and not self._entries else ""
        if not self._problem:
            self.post_message(self.Narrowed(query))

    async def action_submit(self) -> None:
        if self.problem:
            self.cursor_position = self._at
            self.notify(
                printable(f"This filter isn't kept: {self.problem}. Esc drops it."),
                severity="warning",
                markup=False,
            )
            return
        await super().action_submit()

    async def action_drop(self) -> None:
        self.value = self._problem = ""
        await self.action_submit()
