"""The line in which a filter is typed; the list follows every letter that leaves it valid.

While its last comparison is invalid, what stands before it holds; else the last valid expression.
Enter refuses an invalid one: the list may show far more entries than the line on the screen means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from redisq_ops.ops.terminal import printable

if TYPE_CHECKING:
    from redisq_ops.ops.filter.ast import Query
    from redisq_ops.tui.views import QueueView

_COMPARED = re.compile("[=~<>:]")


class _FieldNames(Suggester):
    """Suggests the rest of a field's name; the right arrow takes it."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.completed: Callable[[str], list[str]] = lambda text: []

    async def get_suggestion(self, value: str) -> str | None:
        return next(iter(self.completed(value)), None)


class FilterInput(Input):
    """A line for an expression, as ``--where`` takes it. Hidden, it is empty and posts nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Keep this filter"),
        Binding("escape", "drop", "Drop it"),
    ]

    @dataclass(eq=False)
    class Narrowed(Message):
        """The valid part of the expression has changed; None: no part is valid."""

        query: Query | None

    def __init__(self) -> None:
        self._names = _FieldNames()
        super().__init__(id="filter", compact=True, suggester=self._names)
        self.cursor_blink = False
        self.display = False
        self._problem = ""
        self._at = 0
        self._parsed: Callable[[str], Query]

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

    def begin(self, view: QueueView, *, utc: bool = False) -> None:
        """Show the line with the view's present filter."""
        self._parsed, self._problem = partial(view.parsed, utc=utc), ""
        self._names.completed, self.placeholder = view.completed, view.filter_examples
        self.value = view.filter.text if view.filter else ""
        self.display = True
        # Not `focus()`, which waits for the next turn: letters typed until then would act as keys.
        self.screen.set_focus(self)

    def watch_value(self, value: str) -> None:
        if not self.display:
            return
        # Loaded with the first letter: it imports the Redis client.
        from redisq_ops.ops.filter.parser import FilterError

        try:
            query = self._parsed(value) if value.strip() else None
        except FilterError as error:
            self._problem, self._at = error.why, error.column - 1
            begun, _, last = value.rstrip().rpartition(" ")
            if not _COMPARED.search(last):
                return
            try:  # a field's name alone was a word to search, and probably matched nothing
                query = self._parsed(begun) if begun.strip() else None
            except FilterError:
                return
        else:
            self._problem, self._at = "", 0
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
