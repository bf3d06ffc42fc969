"""What the views have in common: a table over a window, an order, a filter."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from redisq_ops.core.model.entry import Entry, State
from redisq_ops.ops.inspect.snapshot import ChartScope, ListedQueue, Snapshot, View
from redisq_ops.ops.terminal import count, kind_of
from redisq_ops.tui.outline import OutlineSection
from redisq_ops.tui.table import PagedTable
from redisq_ops.tui.table_model import RowWindow, TableColumn, TableRow

if TYPE_CHECKING:
    from redisq_ops.ops.filter.ast import Query
    from redisq_ops.ops.filter.fields import Need
    from redisq_ops.ops.redaction import Redaction

LOADED: Final = 500
"""rows looked through by a filter, and sorted by what the server keeps no order of"""
WITH_PAYLOADS: Final = 100
"""the same where the filter looks at payloads: each may have a mebibyte, at every refresh"""


@dataclass(frozen=True, slots=True)
class SortOrder:
    """Sorts by the column ``key``, in either direction; ``descending`` says which comes first."""

    key: str
    by: Callable[[Any], Any] | None = None
    """what is compared, None last of all; without it the order is the server's own"""
    descending: bool = False
    words: str = ""
    back: str = ""
    """the words for the opposite order"""


@dataclass(frozen=True, slots=True)
class Items:
    """A window of what a view lists, before it is drawn."""

    start: int
    total: int
    items: Sequence[Any]
    exact: bool = True
    """whether ``total`` is exact; else it is a lower bound"""

    @property
    def complete(self) -> bool:
        return self.exact and self.start == 0 and len(self.items) >= self.total


@dataclass(frozen=True, slots=True)
class ChangeTarget:
    """What a change is about: the ids, or all of the state that ``where`` means."""

    state: State
    ids: tuple[str, ...] = ()
    where: Query | None = None


class QueueView(Vertical):
    """One view. Subclasses say what it lists, how a row looks, and what may be done to it.

    Not an `ABC`, whose metaclass and that of Textual's widgets exclude each other: a test refuses
    half a view, and mypy one that is made by name.
    """

    name_: ClassVar[View]
    title: ClassVar[str]
    short: ClassVar[str]
    """the title where there is little room"""
    about: ClassVar[str]
    needs: ClassVar[str | None] = None
    """the capability without which a queue can't offer this view"""
    state: ClassVar[State | None] = None
    """of the entries listed here"""
    verbs: ClassVar[frozenset[str]] = frozenset()
    """what may be done to them, beside hold and undo"""
    edits: ClassVar[bool] = False
    """whether payloads can be edited here"""
    holds: ClassVar[Literal["queues", "requests", "periodic", "queue"]] = "queue"
    """what hold is about: rows that are queues, requests, periodic entries; else the open queue"""
    columns: ClassVar[tuple[TableColumn, ...]]
    of_some_kinds: ClassVar[Mapping[str, str]] = {}
    """column -> the capability without which a queue has nothing for it"""
    orders: ClassVar[tuple[SortOrder, ...]]
    empty: ClassVar[str]
    has_details: ClassVar[bool] = False
    """whether its rows are or have entries or requests, of which more is known than a row has"""
    read_by_row: ClassVar[bool] = False
    """whether the preview reads by the row's identity what is known of it"""
    has_preview: ClassVar[bool] = True
    """whether more can be shown of the row under the cursor beside or below the list"""
    named_rows: ClassVar[bool] = False
    """whether commands take the rows by their names alone, without the queue"""
    reversible: ClassVar[bool] = False
    """whether the server's own order can be read from its end"""
    tall: ClassVar[int] = 0
    """lines of terminal below which the chart is left out"""

    def __init__(self) -> None:
        super().__init__(id=self.name_)
        self.order = 0
        self.backwards = False
        """whether the order is turned around"""
        self.filter: Query | None = None
        self.everything = False
        """whether the next change is for all that match, not for marked rows or the cursor's"""
        self.snapshot: Snapshot | None = None
        self.table = PagedTable(self.columns, empty=self.empty)
        self._chart = Static(classes="chart", markup=False)
        self._chart_lines = -1
        self._items = Items(0, 0, ())
        self._shown = 0
        self._item_of: dict[str, Any] = {}
        """what is listed, by the identities of its rows"""
        self._kept: str | None = None
        """the row that the cursor goes back to, once it is loaded"""

    # --- what a subclass says ------------------------------------------------------------------

    @abstractmethod
    def items(self, snapshot: Snapshot) -> Items:
        """The view's items in the snapshot."""

    @abstractmethod
    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        """An item as a row of the table."""

    def chart(self, snapshot: Snapshot, width: int) -> Text | None:
        """What stands above the table, if anything: text of ``width`` cells."""
        return None

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        """What the snapshot knows of a row that is neither entry nor request, for the preview;
        more than the row says itself."""
        return []

    def words(self, item: Any) -> tuple[str, ...]:
        """What the filter looks at."""
        return (item.id,)

    @classmethod
    def offered_by(cls, queue: ListedQueue | None) -> bool:
        """Whether a queue has what this view shows."""
        return queue is not None and (cls.needs is None or cls.needs in queue.features)

    # --- what the app uses ---------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield self._chart
        yield self.table

    def on_mount(self) -> None:
        self._chart.display = False
        self._say_order()

    @property
    def local(self) -> bool:
        """Whether filter or order are applied to loaded rows rather than by the server."""
        return self.filter is not None or not self._by_server

    @property
    def _by_server(self) -> bool:
        """Whether rows are shown in an order that the server keeps."""
        return self.orders[self.order].by is None and (self.reversible or not self.backwards)

    @property
    def _falls(self) -> bool:
        """Whether the order goes down, as it is shown."""
        return self.orders[self.order].descending != self.backwards

    @property
    def window(self) -> tuple[int, int]:
        """The rows to fetch."""
        if "payload" in self.fetched:
            return 0, WITH_PAYLOADS
        return (0, LOADED) if self.local else self.table.wanted

    @property
    def in_sight(self) -> frozenset[str]:
        """The rows on the screen, and those that are marked."""
        return self.table.in_sight | self.table.marks

    @property
    def fetched(self) -> frozenset[Need]:
        """What has to be fetched for the filter, besides the rows."""
        return frozenset() if self.filter is None else self.filter.needs | {"record"}

    @property
    def descending(self) -> bool:
        """Whether rows are to be fetched from the end of the server's order."""
        if self._by_server:
            return self._falls
        return next((order.descending for order in self.orders if order.by is None), False)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The marked rows, else the one under the cursor, if any."""
        if self.table.marks:
            return tuple(sorted(self.table.marks))
        return () if self.table.identity is None else (self.table.identity,)

    @property
    def target(self) -> ChangeTarget | None:
        """What the next change is about, if there is something."""
        if self.state is None:
            return None
        if self.everything:
            return ChangeTarget(self.state, where=self.filter)
        return ChangeTarget(self.state, self.chosen) if self.chosen else None

    @property
    def subject(self) -> str | None:
        """The request or entry that an explanation is asked of; None: of the queue."""
        return self.table.identity

    @property
    def item(self) -> Any:
        """What the row under the cursor stands for; None: there is no such row."""
        under = self.table.identity
        return None if under is None else self._item_of.get(under)

    @property
    def lines(self) -> int:
        """The lines it takes to show all of its rows."""
        chart = self._chart_lines + 1 if self._chart.display else 0
        return chart + 1 + self.table.total

    @property
    def charts(self) -> ChartScope:
        """What charts are to be read for."""
        return ChartScope()

    @property
    def bar_ms(self) -> int | None:
        """The width of a bar of the timeline; None: as fits."""
        return None

    def zoom(self, step: int) -> str:
        """Show a shorter (1) or longer (-1) time; returns why it can't."""
        return "only charts (v) and delayed entries (6) have a time that can be zoomed."

    def acted_on(self, chosen: tuple[str, ...]) -> None:
        """A change is over: of these rows, or () if only of some of what they stand for."""

    def copied(self, identity: str) -> str:
        """What is copied of a row."""
        return identity

    def next_order(self) -> None:
        """Sort by the next column in sight."""
        shown = self.table.shown_columns
        later = [*range(self.order + 1, len(self.orders)), *range(self.order + 1)]
        self.order = next(at for at in later if self.orders[at].key in shown or at == self.order)
        self.backwards = False
        self.rearrange()

    def turn_order(self) -> None:
        """The same order the other way round."""
        self.backwards = not self.backwards
        self.rearrange()

    def sort_by(self, key: str) -> None:
        """Sort by a column; by the one it is sorted by already: the other way round."""
        at = next((at for at, order in enumerate(self.orders) if order.key == key), self.order)
        self.backwards = at == self.order and not self.backwards
        self.order = at
        self.rearrange()

    def narrow(self, query: Query | None, keep: bool = False) -> None:
        """Show only rows that match, of those loaded; to ``keep`` the cursor on its row, or when
        the filter goes."""
        if query != self.filter:
            self._kept = self.table.identity if keep or query is None else None
            self.filter, self.everything = query, False
            self.rearrange()

    def keep(self, identity: str) -> None:
        """Put the cursor on this row as soon as it is loaded."""
        self._kept = identity

    def rearrange(self) -> None:
        """Begin at the top again, because other rows come first now."""
        # The entry under the cursor may be anywhere now; marks are about entries, and stay.
        marks = self.table.marks
        self.table.clear()
        self.table.mark(marks)
        self._say_order()
        if self.snapshot is not None:
            self.show(self.snapshot)

    def forget(self) -> None:
        """Another queue follows: nothing on the screen, no mark and no filter is about it."""
        self.snapshot, self.filter, self.everything = None, None, False
        self._items, self._shown, self._item_of = Items(0, 0, ()), 0, {}
        self.table.clear()
        self._chart.display = False

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.viewport.descending != self.descending:
            return  # asked for before the order was changed
        if not self.fetched <= snapshot.viewport.needs:
            return  # asked for before the filter was typed, without what it looks at
        self.snapshot = snapshot
        if (queue := snapshot.queue) is not None:
            lacks = {key for key, one in self.of_some_kinds.items() if one not in queue.features}
            self.table.leave_out(frozenset(lacks))
        drawn = self.chart(snapshot, self.size.width) if self.app.size.height >= self.tall else None
        self._chart.display = drawn is not None
        if drawn is not None:
            lines = drawn.plain.count("\n")
            self._chart.update(drawn, layout=lines != self._chart_lines)
            self._chart_lines = lines
        self._items = listed = self.items(snapshot)
        order, items, start, total = (
            self.orders[self.order], listed.items, listed.start, listed.total,
        )  # fmt: skip
        if self.filter is not None:
            items = [item for item in items if self.accepts(item, snapshot)]
        if order.by is not None:
            items = _sorted(items, order.by, self._falls)
        elif not self._by_server:
            items = items[::-1]
        if self.local:
            start, total = 0, len(items)
        rows = tuple(self.row(self.shown(item), snapshot) for item in items)
        self._item_of = {row.identity: item for row, item in zip(rows, items, strict=True)}
        self._shown = len(rows)
        self.table.empty = self._nothing_here(snapshot)
        self.table.show(RowWindow(start, total, rows, self.local or listed.exact))
        if self._kept is not None:
            self.table.go_to(self._kept)
            self._kept = None
        self._say_order()

    def _nothing_here(self, snapshot: Snapshot) -> str:
        """What an empty list says: where the layout doesn't tell the state, that isn't none."""
        if self.filter is not None and self._items.items:
            of = "" if self._items.complete else f" of {count(self._items.total)}"
            among = f"{count(len(self._items.items))}{of} looked at"
            return f"nothing matches /{self.filter.text}/: {among}; Esc drops the filter"
        counts, queue = snapshot.counts, snapshot.queue
        if queue is None or counts is None or self.state not in counts.unknown:
            return self.empty
        return f"unknown: {kind_of(queue.kind)} keeps no list of its {self.state} entries"

    def shown(self, item: Any) -> Any:
        """The item as it may be shown; filters look at it as it is, as changes do."""
        return item

    def accepts(self, item: Any, snapshot: Snapshot) -> bool:
        """Whether the filter means it."""
        return self.filter is None or self.filter.accepts_text(self.words(item))

    @property
    def exact(self) -> bool:
        """Whether the order is that of all rows, not only of those loaded."""
        return self._by_server or self._items.complete

    def _say_order(self) -> None:
        key = self.orders[self.order].key
        self.table.sorted_by(key, descending=self._falls, exact=self.exact)

    @property
    def _order_words(self) -> str:
        order = self.orders[self.order]
        if words := order.back if self.backwards else order.words:
            return words
        title = next(column.title for column in self.columns if column.key == order.key)
        return f"by {title} {'▼' if self._falls else '▲'}"

    @property
    def status(self) -> list[str]:
        """Where we are in the list, its order and filter, in words."""
        complete = self._items.complete
        loaded, total = count(len(self._items.items)), count(self._items.total)
        total = total if self._items.exact else f"≥{total}"
        said = ["ALL that match: a Shift key acts on every one"] if self.everything else []
        said += [self.table.position] if self.table.position else []
        said += [f"+{count(self.table.new)} new (g)"] if self.table.new else []
        said.append(self._order_words + ("" if self.exact else f", of the {loaded} loaded"))
        if self.filter is not None:
            among = total if complete else f"the {loaded} loaded of {total}"
            said.append(f"/{self.filter.text}/ in {count(self._shown)} of {among}")
            about = self.filter.states
            if about is not None and self.state is not None and self.state not in about:
                said.append(f"it is about {' or '.join(sorted(about)) or 'no'} entries")
        if marks := self.table.marks:
            said.append(f"{count(len(marks))} marked")
        return said


def _sorted(items: Sequence[Any], by: Callable[[Any], Any], falls: bool) -> list[Any]:
    """Sort by what may be None, which comes last in both directions."""
    known = [item for item in items if by(item) is not None]
    return [*sorted(known, key=by, reverse=falls), *(item for item in items if by(item) is None)]


TASK: Final = TableColumn("task", "task", 20, flex=2, priority=1, optional=True)
"""for the entries of task programs: their tasks' names"""
BY_TASK: Final = SortOrder("task", lambda entry: entry.task)


class EntryView(QueueView):
    """A view of the entries of one state."""

    has_details = True
    reversible = True

    def items(self, snapshot: Snapshot) -> Items:
        return Items(snapshot.start, snapshot.total, snapshot.entries, snapshot.exact)

    def shown(self, item: Entry) -> Entry:
        redaction = redaction_of(self)
        return item if redaction is None else redaction.entry(item)

    def accepts(self, item: Entry, snapshot: Snapshot) -> bool:
        if self.filter is None:
            return True
        from redisq_ops.ops.filter.fields import EntryContext

        queue = snapshot.queue
        place = (
            EntryContext(queue.name, queue.kind, snapshot.priorities) if queue else EntryContext()
        )
        return self.filter.accepts(item, snapshot.now_ms, place)


def redaction_of(widget: Any) -> Redaction | None:
    """What isn't to be shown on the server the dashboard looks at."""
    source = getattr(widget.app, "source", None)
    connected = source and source.connected
    return connected.redaction if connected else None
