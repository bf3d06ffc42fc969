"""The base class of the views: a table over a window of rows, with an order and a filter."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from redisq_ops.core.model.entry import State
from redisq_ops.ops.inspect.snapshot import ChartScope, ListedQueue, Snapshot, View
from redisq_ops.ops.terminal import count, no_list, printable
from redisq_ops.tui.outline.outline import OutlineSection
from redisq_ops.tui.table.table import PagedTable
from redisq_ops.tui.table.table_model import RowWindow, TableRow

from .columns import Column

if TYPE_CHECKING:
    from redisq_ops.core.model.worker_command import WorkerWord
    from redisq_ops.ops.filter.ast import Query
    from redisq_ops.ops.filter.fields import Need
    from redisq_ops.ops.redaction import Redaction

LOADED: Final = 500
"""rows that are loaded to be filtered here, or sorted in an order that the server doesn't keep"""
WITH_PAYLOADS: Final = 100
"""rows that are loaded if the filter reads payloads: up to 1 MiB each, at every refresh"""


@dataclass(frozen=True, slots=True)
class SortOrder:
    """Sorts by the column ``key``; ``descending`` is the direction that is shown first."""

    key: str
    by: Callable[[Any], Any] | None = None
    """what is compared, with None last; without it the server keeps the order"""
    descending: bool = False
    words: str = ""
    """name of the order in the status line"""
    back: str = ""
    """name of the opposite order"""


@dataclass(frozen=True, slots=True)
class Items:
    """A window of the items that a view lists; ``start`` is the index of the first one."""

    start: int
    total: int
    items: Sequence[Any]
    exact: bool = True
    """whether ``total`` is exact; else it is a lower bound"""
    counted: int | None = None
    """how many there are where ``total`` isn't exact, if that is known"""

    @property
    def complete(self) -> bool:
        return self.exact and self.start == 0 and len(self.items) >= self.total

    @property
    def number(self) -> str:
        """How many there are, in words."""
        if self.exact or self.counted is None:
            return f"{'' if self.exact else '≥'}{count(self.total)}"
        return count(self.counted)


@dataclass(frozen=True, slots=True)
class ChangeTarget:
    """The entries that a change applies to: these ids, or all of a state that match ``where``."""

    state: State
    ids: tuple[str, ...] = ()
    where: Query | None = None
    queue: str | None = None
    """the queue they are in; None: the open one"""


class QueueView(Vertical):
    """One view. A subclass declares what it lists, how a row looks and which verbs apply.

    Not an `ABC`: its metaclass conflicts with that of Textual's widgets. A test checks instead that
    every view has its abstract methods.
    """

    name_: ClassVar[View]
    title: ClassVar[str]
    short: ClassVar[str]
    """the title where there is little room"""
    about: ClassVar[str]
    of_all_queues: ClassVar[bool] = False
    """whether rows are of all queues, not of the open one"""
    at_once: ClassVar[bool] = False
    """whether the poller reads all that is listed here, whichever rows are in sight"""
    needs: ClassVar[str | None] = None
    """the capability without which a queue can't offer this view"""
    state: ClassVar[State | None] = None
    """the state whose entries are listed here, if any"""
    verbs: ClassVar[frozenset[str]] = frozenset()
    """the verbs that apply to these entries; hold and undo apply in every view"""
    acts_on: ClassVar[State | None] = None
    """the state whose entries the verbs change, where none of them is listed"""
    holds: ClassVar[Literal["queues", "requests", "periodic", "queue"]] = "queue"
    """what hold applies to: the rows, if they are of such a kind, or the open queue"""
    tells: ClassVar[Mapping[str, WorkerWord]] = {}
    """``hold``, or the command that a key begins -> what it tells the worker under the cursor, or
    the one that has the entry there, where the worker's program has such a command"""
    columns: ClassVar[tuple[Column, ...]]
    of_some_kinds: ClassVar[Mapping[str, str]] = {}
    """column -> the capability without which a queue has no values for it"""
    usual: ClassVar[SortOrder]
    """the order that is shown first; the others are those of the columns"""
    empty: ClassVar[str]
    """the text of an empty list; ``QUEUE`` in it stands for the queue's name"""
    filter_examples: ClassVar[str] = "alpha  -beta  alpha|beta"
    """shown in the empty line for a filter"""
    explains_rows: ClassVar[bool] = True
    """whether an explanation is asked of the row under the cursor; else of the queue"""
    has_details: ClassVar[bool] = False
    """whether a row is an entry or a request, or has some, whose details can be opened"""
    read_by_row: ClassVar[bool] = False
    """whether the preview reads more from the server, by the row's identity"""
    has_preview: ClassVar[bool] = True
    """whether the preview beside or below the list shows the row under the cursor"""
    named_rows: ClassVar[bool] = False
    """whether commands address a row by its name alone, without the queue"""
    reversible: ClassVar[bool] = False
    """whether the server can be read from the end of its order"""
    tall: ClassVar[int] = 0
    """lines that the terminal needs for the chart to be shown"""

    def __init__(self) -> None:
        super().__init__(id=self.name_)
        others = (one for one in self.columns if one.by and one.key != self.usual.key)
        self.orders = (self.usual, *(SortOrder(one.key, one.by, one.falls) for one in others))
        self.order = 0
        self.backwards = False
        """whether the order is reversed"""
        self.filter: Query | None = None
        self.everything = False
        """whether the next change applies to all that match, not to the `chosen` rows"""
        self.snapshot: Snapshot | None = None
        self.table = PagedTable(self.columns, empty=self.empty)
        self._chart = Static(classes="chart", markup=False)
        self._drawn_chart: Text | None = None
        self._chart_lines = -1
        self._items = Items(0, 0, ())
        self._shown = 0
        self._item_of: dict[str, Any] = {}
        """the listed items, by the identities of their rows"""

    # --- for subclasses to override ------------------------------------------------------------

    @abstractmethod
    def items(self, snapshot: Snapshot) -> Items:
        """The view's items in the snapshot."""

    def identity(self, item: Any) -> str:
        """What an item's row is known by."""
        return str(item.id)

    def row_style(self, item: Any) -> str:
        """The style of an item's whole row."""
        return ""

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        """An item as a row of the table."""
        cells = tuple(one.cell(item, self) for one in self.columns if one.cell)
        return TableRow(self.identity(item), cells, self.row_style(item))

    def chart(self, snapshot: Snapshot, width: int) -> Text | None:
        """The chart above the table, ``width`` cells wide; None: no chart."""
        return None

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        """The preview of a row that is neither entry nor request, from the snapshot."""
        return []

    def words(self, item: Any) -> tuple[str, ...]:
        """The texts that the filter searches."""
        return (item.id,)

    def parsed(self, text: str, utc: bool) -> Query:
        """The filter that an expression means here; `FilterError` if it means none.

        ``utc``: times of day are in UTC, otherwise local."""
        from redisq_ops.ops.filter.parser import FilterError, parse

        query = parse(text, utc=utc)
        if query.has_fields and self.state is None:
            raise FilterError(text, 0, "words only: what is listed here has no fields")
        return query

    def completed(self, text: str) -> list[str]:
        """The expression with the name of its last field completed, in all possible ways."""
        from redisq_ops.ops.filter.completion import completed

        return completed(text) if self.state is not None else []

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
    def now_ms(self) -> int:
        """The server's time at which the snapshot was read."""
        return self.snapshot.now_ms if self.snapshot else 0

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
        if self.at_once:
            return 0, 1
        if "payload" in self.fetched:
            return 0, WITH_PAYLOADS
        return (0, LOADED) if self.local else self.table.wanted

    @property
    def in_sight(self) -> frozenset[str]:
        """The rows on the screen, and those that are marked."""
        return self.table.in_sight | self.table.marks

    @property
    def fetched(self) -> frozenset[Need]:
        """What the filter needs besides the rows."""
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
        """The entries that the next change applies to; None: there are none."""
        if self.state is None:
            return None
        if self.everything:
            return ChangeTarget(self.state, where=self.filter)
        return ChangeTarget(self.state, self.chosen) if self.chosen else None

    @property
    def refusal(self) -> str:
        """Why the chosen rows can't be changed together; empty if they can."""
        return ""

    def unfit(self, verb: str) -> str:
        """Why a verb, or ``hold``, has no use for the row under the cursor; empty if it has one."""
        return ""

    @property
    def row_queue(self) -> str | None:
        """In a view of all queues: the queue of the row under the cursor."""
        return None

    @property
    def subject(self) -> str | None:
        """The request or entry that an explanation is asked of; None: of the queue."""
        return self.table.identity if self.explains_rows else None

    @property
    def stands_for(self) -> str:
        """What the row under the cursor stands for, so that nothing can be done with it; ''
        if it is a row of its own."""
        return ""

    @property
    def item(self) -> Any:
        """The item of the row under the cursor; None: there is no such row."""
        under = self.table.identity
        return None if under is None else self._item_of.get(under)

    @property
    def lines(self) -> int:
        """The lines of terminal that show all rows and the chart."""
        chart = self._chart_lines + 1 if self._chart.display else 0
        return chart + 1 + self.table.total

    @property
    def charts(self) -> ChartScope:
        """The queues and time for which the poller reads charts."""
        return ChartScope()

    @property
    def bar_ms(self) -> int | None:
        """Time of one bar of the timeline, in ms; None: chosen by the width of the terminal."""
        return None

    def zoom(self, step: int) -> str:
        """Show a shorter (1) or longer (-1) time; returns why it can't, or ''."""
        return "only charts (v) and delayed entries (6) have a time that can be zoomed."

    def acted_on(self, chosen: tuple[str, ...]) -> None:
        """Called after a change of all entries of these rows; (): of some of them only."""

    def copied(self, identity: str) -> str:
        """The text that the copy key puts on the clipboard for a row."""
        return identity

    def next_order(self) -> None:
        """Sort by the next column in sight."""
        shown = self.table.shown_columns
        later = [*range(self.order + 1, len(self.orders)), *range(self.order + 1)]
        self.order = next(at for at in later if self.orders[at].key in shown or at == self.order)
        self.backwards = False
        self.rearrange()

    def turn_order(self) -> None:
        """Reverse the order."""
        self.backwards = not self.backwards
        self.rearrange()

    def sort_by(self, key: str) -> None:
        """Sort by a column; if the rows are sorted by it already, reverse the order."""
        at = next((at for at, order in enumerate(self.orders) if order.key == key), self.order)
        self.backwards = at == self.order and not self.backwards
        self.order = at
        self.rearrange()

    def narrow(self, query: Query | None, keep: bool = False) -> None:
        """Show only the loaded rows that match; None: all. The cursor stays on its row if ``keep``
        is true or the filter is removed."""
        if query != self.filter:
            kept = self.table.identity if keep or query is None else None
            self.filter, self.everything = query, False
            self.rearrange(kept)

    def rearrange(self, kept: str | None = None) -> None:
        """Show the rows of the changed order or filter, with the cursor on the row ``kept`` or else
        on the first; marks stay."""
        marks = self.table.marks
        self.table.clear()
        self.table.mark(marks)
        if kept is not None:
            self.table.go_to(kept)
        self._say_order()
        if self.snapshot is not None:
            self.show(self.snapshot)

    def show_again(self) -> None:
        """Show other rows of the same snapshot; cursor and marks stay, and none counts as new."""
        if self.snapshot is not None:
            self.show(self.snapshot)
            self.table.see_all()

    def forget(self) -> None:
        """Drop rows, marks and filter, because another queue is opened."""
        self.snapshot, self.filter, self.everything = None, None, False
        self._items, self._shown, self._item_of = Items(0, 0, ()), 0, {}
        self.table.clear()
        self._chart.display = False

    def show(self, snapshot: Snapshot) -> None:
        """Draw a snapshot, unless order or filter have changed since its viewport was read."""
        if snapshot.viewport.descending != self.descending:
            return
        if not self.fetched <= snapshot.viewport.needs:
            return
        self.snapshot = snapshot
        if (queue := snapshot.queue) is not None:
            lacks = {key for key, one in self.of_some_kinds.items() if one not in queue.features}
            self.table.leave_out(frozenset(lacks))
        self._draw_chart(snapshot)
        self._items = listed = self.items(snapshot)
        items = self._arranged(listed.items, snapshot)
        start, total = (0, len(items)) if self.local else (listed.start, listed.total)
        rows = tuple(self.row(self.shown(item), snapshot) for item in items)
        self._item_of = {row.identity: item for row, item in zip(rows, items, strict=True)}
        self._shown = len(rows)
        self.table.empty = self._nothing_here(snapshot)
        number = "" if self.local else listed.number
        self.table.show(RowWindow(start, total, rows, self.local or listed.exact, number))
        self._say_order()

    def _draw_chart(self, snapshot: Snapshot) -> None:
        drawn = self.chart(snapshot, self.size.width) if self.app.size.height >= self.tall else None
        self._chart.display = drawn is not None
        if drawn is not None and drawn != self._drawn_chart:
            lines = drawn.plain.count("\n")
            self._chart.update(drawn, layout=lines != self._chart_lines)
            self._drawn_chart, self._chart_lines = drawn, lines

    def _arranged(self, items: Sequence[Any], snapshot: Snapshot) -> Sequence[Any]:
        """The items that the filter accepts, in the order that is shown."""
        if self.filter is not None:
            items = [item for item in items if self.accepts(item, snapshot)]
        by = self.orders[self.order].by
        if by is not None:
            return _sorted(items, by, self._falls)
        return items if self._by_server else items[::-1]

    def _nothing_here(self, snapshot: Snapshot) -> str:
        """The text of an empty list: no entries, no matches, or a state the layout can't list."""
        if self.filter is not None and (looked_at := self._looked_at):
            among = f"{looked_at} looked at"
            return f"nothing matches /{self.filter.text}/: {among}; Esc drops the filter"
        counts, queue = snapshot.counts, snapshot.queue
        if queue is None or counts is None or self.state not in counts.unknown:
            return self.empty if queue is None else self.empty.replace("QUEUE", queue.name)
        return no_list(queue.kind, self.state, queue.unlisted.get(self.state))

    @property
    def _looked_at(self) -> str:
        """To how many items the filter was applied, of how many; empty: there are none."""
        if not self._items.items:
            return ""
        of = "" if self._items.complete else f" of {self._items.number}"
        return f"{count(len(self._items.items))}{of}"

    @property
    def _matches(self) -> str:
        """How many items match the filter, and of how many."""
        loaded, total = count(len(self._items.items)), self._items.number
        among = total if self._items.complete else f"the {loaded} loaded of {total}"
        return f"{count(self._shown)} of {among}"

    def shown(self, item: Any) -> Any:
        """The item with redaction applied; filters and changes use the item itself."""
        return item

    def accepts(self, item: Any, snapshot: Snapshot) -> bool:
        """Whether the item matches the filter."""
        return self.filter is None or self.filter.accepts_text(self.words(item))

    @property
    def exact(self) -> bool:
        """Whether the order covers all rows, not only the loaded ones."""
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
        """The parts of the status line: position, order, filter, marks."""
        loaded = count(len(self._items.items))
        said = ["ALL that match: a Shift key acts on every one"] if self.everything else []
        said += [self.table.position] if self.table.position else []
        said += [f"+{count(self.table.new)} new (g)"] if self.table.new else []
        said.append(self._order_words + ("" if self.exact else f", of the {loaded} loaded"))
        if self.filter is not None:
            said.append(f"/{self.filter.text}/ in {self._matches}")
            about = self.filter.states
            if about is not None and self.state is not None and self.state not in about:
                said.append(f"it is about {' or '.join(sorted(about)) or 'no'} entries")
        if marks := self.table.marks:
            said.append(f"{count(len(marks))} marked")
        if (gone := self.table.gone) is not None:
            how = "is gone" if self._is_gone(gone) else "is not shown any more"
            said.insert(0, f"✗ {printable(self.copied(gone), 24)} {how}")
        return said

    def _is_gone(self, identity: str) -> bool:
        """Whether there is no such item. Otherwise it may have moved to where nothing is loaded, or
        is left out now."""
        return self._items.complete and all(
            self.identity(item) != identity for item in self._items.items
        )


def _sorted(items: Sequence[Any], by: Callable[[Any], Any], falls: bool) -> list[Any]:
    """Items sorted by a value; those whose value is None come last in both directions."""
    known = [item for item in items if by(item) is not None]
    return [*sorted(known, key=by, reverse=falls), *(item for item in items if by(item) is None)]


def redaction_of(widget: Any) -> Redaction | None:
    """What the configuration hides on the dashboard's server."""
    source = getattr(widget.app, "source", None)
    connected = source and source.connected
    return connected.redaction if connected else None
