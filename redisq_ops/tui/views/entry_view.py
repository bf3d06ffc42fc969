"""The base class of the views of entries, all of one state; a filter can search them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count, date, printable
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import DIM

from .base import Items, QueueView, SortOrder, redaction_of
from .columns import Column, texts

if TYPE_CHECKING:
    from redisq_ops.ops.filter.ast import Query
    from redisq_ops.ops.filter.fields import Need


def error_cell(entry: Entry) -> Cell:
    """An error in one line: its type, then the message."""
    return entry.error.line if entry.error else entry.problem or ""


def _by_error(entry: Entry) -> tuple[str, str] | None:
    error = entry.error
    return None if error is None else (error.type, error.message)


def _attempts(entry: Entry, _: object) -> Cell:
    return str(entry.attempts), "" if entry.attempts else DIM


ID: Final = texts("id", "entry", 30, lambda e: e.id, flex=1)
TASK: Final = texts("task", "task", 20, lambda e: e.task, "", flex=2, priority=1, optional=True)
"""for task programs: the name of an entry's task"""
ATTEMPTS: Final = Column(
    "attempts",
    "attempts",
    8,
    _attempts,
    lambda e: e.attempts,
    align="right",
    priority=2,
    falls=True,
)
ERROR: Final = Column(
    "error", "last error", 12, lambda e, _: error_cell(e), _by_error, flex=3, style=DIM, priority=1
)
WORKER: Final = texts("worker", "worker", 12, lambda e: e.consumer, style=DIM, priority=4)
NEWEST: Final = SortOrder("since", None, True, "newest first", "oldest first")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The entries of a state that match a filter, at one moment."""

    query: Query
    entries: tuple[Entry, ...]
    """at most `LOADED`, in the order of the server"""
    matches: int
    """how many match"""
    at_ms: int
    unread: str = ""
    """what could not be read, so that it may match, too; empty: everything was read"""


class EntryView(QueueView):
    """A view of the entries of one state."""

    filter_examples = "timeout  age>2h  client=acme"

    has_details = True
    reversible = True

    def __init__(self) -> None:
        super().__init__()
        self.found: SearchResult | None = None
        """of the present filter; None: the loaded rows are filtered"""

    @property
    def searchable(self) -> bool:
        """Whether the filter has seen only a part of the entries."""
        return self.filter is not None and self.found is None and not self._items.complete

    def take(self, found: SearchResult | None) -> None:
        """Show what a search has found; None: filter the loaded rows again."""
        self.found = found
        self.show_again()

    def narrow(self, query: Query | None, keep: bool = False) -> None:
        if query != self.filter:
            self.found = None
            self.app.refresh_bindings()  # the key that searches all needs a filter
        super().narrow(query, keep)

    def forget(self) -> None:
        self.found = None
        super().forget()

    @property
    def status(self) -> list[str]:
        said = super().status
        if (found := self.found) is not None:
            when = date(found.at_ms, getattr(self.app, "zone", None), offset=False)
            some = f": {printable(found.unread, 60)}" if found.unread else ""
            said.append(f"{'part' if some else 'all'} searched at {when}{some}; f: again")
        elif self.searchable:
            said.append("f: search all")
        elif not self.local and not self._items.exact and self._items.counted is not None:
            said.append(f"the first {count(self._items.total)} are listed")
        return said

    @property
    def window(self) -> tuple[int, int]:
        return super().window if self.found is None else (0, 1)

    @property
    def fetched(self) -> frozenset[Need]:
        return super().fetched if self.found is None else frozenset()

    def items(self, snapshot: Snapshot) -> Items:
        if (found := self.found) is not None:
            return Items(0, found.matches, found.entries)
        return Items(
            snapshot.start, snapshot.total, snapshot.entries, snapshot.exact, self._counted
        )

    @property
    def _looked_at(self) -> str:
        if self.found is None:
            return super()._looked_at
        number = self._counted
        if self.found.unread:
            return "not all"
        return "all" if number is None else count(number) if number else ""

    @property
    def _matches(self) -> str:
        if self.found is None:
            return super()._matches
        number = self._counted
        return count(self.found.matches) + ("" if number is None else f" of {count(number)}")

    @property
    def _counted(self) -> int | None:
        """How many entries of the state there are; None: unknown."""
        counts = self.snapshot.counts if self.snapshot else None
        return counts.of(self.state) if counts and self.state else None

    def shown(self, item: Entry) -> Entry:
        redaction = redaction_of(self)
        return item if redaction is None else redaction.entry(item)

    def accepts(self, item: Entry, snapshot: Snapshot) -> bool:
        if self.filter is None or self.found is not None:
            return True
        from redisq_ops.ops.filter.fields import EntryContext

        queue = snapshot.queue
        place = (
            EntryContext(queue.name, queue.kind, snapshot.priorities) if queue else EntryContext()
        )
        return self.filter.accepts(item, snapshot.now_ms, place)
