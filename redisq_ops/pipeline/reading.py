"""The reading of one part of a table, some thousands of rows at a time. No Spark in here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar, cast

import pyarrow as pa

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.engine.state_scan import ColumnPage, ScoreRange, clocked, timed
from redisq_ops.core.model.entry import Entry, Page
from redisq_ops.core.model.errors import Lost, Unreadable, WrongKind
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.outcomes import outcomes
from redisq_ops.core.redis.operation import Description, attempt
from redisq_ops.ops.deployment import Deployment

from . import decode, history, records
from .batch import RowOrigin, why
from .call_size import FIRST, FIRST_WITH_PAYLOADS, CallSize
from .connection import client_of, look, patiently, unswept
from .history import RawEvent
from .options import Options
from .partitions import STATES, WHOLE, Numbers, TablePart, numbered, plan
from .ranges import Range, before
from .schemas import arrow

T = TypeVar("T")

BATCH = 8192
"""rows of an Arrow batch, about"""
CALLS = 16
"""look-ups of a column that go in one exchange. What a reader waits for is mostly its turn on a
busy machine, not the server's work, and this is how often it waits; between two calls of one
exchange the server looks after others"""

logger = logging.getLogger("redisq_ops.pipeline")


class Reading:
    """Parts of one table as Arrow batches. It connects where it is used, and sends reads only."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.schema: pa.Schema = arrow(options.described, options.names)
        self.pace = CallSize(
            options.max_call_us, FIRST_WITH_PAYLOADS if options.with_payloads else FIRST
        )

    def ask(self, make: Callable[[], Description[T]]) -> T:
        """One exchange, or a few; made anew for each try."""
        client = client_of(self.options.target(), self.options.replica)
        with unswept():
            return patiently(lambda: look(client, make()))

    def plan(self) -> list[TablePart]:
        return self.ask(lambda: plan(self.options))

    def leaf(self, part: TablePart) -> Queue[Any]:
        """The shard a part is of."""
        return _opened(part, self.options).shard_queues[part.shard]

    def happened(
        self, leaf: Queue[Any], after: str, until: str, size: int
    ) -> tuple[list[RawEvent], int]:
        """A page of history, and the µs the server was at it."""
        key = leaf.keys["hist"]
        columns, took = self.ask(
            lambda: timed(key, {"rows": leaf.history_range.op(after, until, size)})
        )
        return columns["rows"], took["rows"]

    def read(self, part: TablePart) -> Iterator[pa.RecordBatch]:
        """The rows of a part, some thousands at a time."""
        if part.range is not None and part.range.missed is not None:
            yield self._missing(part, part.range.after, part.range.missed)
        if part.range is not None and part.range.empty:
            return
        leaf = self.leaf(part)
        place = RowOrigin(part.queue, leaf.kind, part.shard, isinstance(leaf, HasRequests))
        for batch in self._batches(part, leaf, place):
            if batch.num_rows:
                yield batch

    def _batches(
        self, part: TablePart, leaf: Queue[Any], place: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        table = self.options.table
        if part.range is not None:
            return self._events(part, leaf, place, part.range)
        if table == "requests":
            return self._requests(part, leaf, place)
        if table in ("subrequests", "results"):
            return self._inside(part, leaf, place)
        if not leaf.has_sheets:
            return self._pages(leaf, place)
        sheets = self._queued(leaf) if part.span is None else self._sheets(leaf, part.span)
        return self._decoded(sheets, place)

    def _decoded(self, sheets: Iterator[ColumnPage], place: RowOrigin) -> Iterator[pa.RecordBatch]:
        """Sheets of entries, columns undecoded until there are enough of them."""
        state = STATES[self.options.table]
        held: list[ColumnPage] = []
        rows = 0
        for page in sheets:
            held.append(page)
            rows += len(page.ids)
            if rows >= BATCH or page.cursor is None:
                yield decode.sheet(_joined(held), place, state, self.schema)
                held, rows = [], 0

    def _wanted(self) -> frozenset[str]:
        return decode.wanted(self.schema.names, self.options.with_payloads)

    def _sheets(self, leaf: Queue[Any], span: ScoreRange) -> Iterator[ColumnPage]:
        """Of a sorted set."""
        state, want, cursor = STATES[self.options.table], self._wanted(), None
        more = True
        while more:
            step = self.pace.size
            page: ColumnPage
            page = self.ask(
                partial(leaf.read_range.op, state, span, cursor, step * CALLS, want, step)
            )
            self.pace.learn(len(page.ids) // CALLS, page.call_us)
            cursor, more = page.cursor, page.cursor is not None
            yield page

    def _queued(self, leaf: Queue[Any]) -> Iterator[ColumnPage]:
        """Of what waits in lists or streams."""
        pace, want, cursor = self._few(), self._wanted(), None
        more = True
        while more:
            page: ColumnPage
            page, took = self._clocked(leaf, partial(leaf.read_waiting.op, cursor, pace.size, want))
            pace.learn(len(page.ids), took)
            cursor, more = page.cursor, page.cursor is not None
            yield page

    def _pages(self, leaf: Queue[Any], place: RowOrigin) -> Iterator[pa.RecordBatch]:
        """Entries of another program's layout, decoded by the core."""
        state, cursor, more = STATES[self.options.table], None, True
        payloads = self.options.with_payloads
        while more:
            # What a page costs doesn't go by its size.
            page: Page
            page = self.ask(partial(leaf.page.op, state, cursor, WHOLE, None, payloads))
            if page.problem:  # a table has no room to say that it isn't whole
                raise WrongKind(page.problem)
            read = [(entry, None) for entry in page.entries if self._in_time(entry)]
            yield records.entries(read, place, self.schema, payloads)
            cursor, more = page.cursor, page.cursor is not None

    def _few(self) -> CallSize:
        """For what is read entry by entry: the server reads its payload or result in any case."""
        return CallSize(self.options.max_call_us, FIRST_WITH_PAYLOADS, WHOLE)

    def _clocked(self, leaf: Queue[Any], make: Callable[[], Description[T]]) -> tuple[T, int]:
        """What is said, and the µs the server was at the costliest call."""
        return self.ask(lambda: clocked(leaf.keys["cfg"], make()))

    def _in_time(self, entry: Entry) -> bool:
        """One whose time nobody knows is in any."""
        since, until = self.options.since_ms, self.options.until_ms
        at_ms = entry.since_ms if entry.state == "dead" else entry.at_ms
        if at_ms is None:
            return True
        return (since is None or at_ms >= since) and (until is None or at_ms <= until)

    def _events(
        self, part: TablePart, leaf: Queue[Any], place: RowOrigin, range: Range
    ) -> Iterator[pa.RecordBatch]:
        """Events of a range; where one isn't there any more, it was trimmed."""
        held: list[RawEvent] = []
        after, seen, more = range.after, 0, True
        while more:
            # An event that is there says that nothing behind it was trimmed: the first one, and
            # from then on the last that was read.
            known = None if range.events is not None else after if seen else range.first
            size = self.pace.size + (1 if known else 0)
            rows, took = self.happened(leaf, before(known) if known else after, range.until, size)
            self.pace.learn(len(rows), took)
            more = len(rows) == size
            if known is not None:
                if not rows or rows[0][0].decode() != known:
                    where = "behind" if seen else "from"
                    what = f"events {where} {known} on were trimmed before they were read"
                    yield self._missing(part, known, what)
                elif seen:
                    rows = rows[1:]
            if rows:
                after = rows[-1][0].decode()
            seen += len(rows)
            held += rows
            if held and (len(held) >= BATCH or not more):
                yield history.events(self._meant(held), place, self.schema)
                held = []
        if range.events is not None and seen < range.events:
            gone = range.events - seen
            yield self._missing(part, range.after, f"{gone} events were trimmed behind this one")

    def _meant(self, events: list[RawEvent]) -> list[RawEvent]:
        """Those of the time that was asked for; one that doesn't say when goes by its id."""
        since, until = self.options.since_ms, self.options.until_ms
        if since is None and until is None:
            return events
        low, high = since or 0, until if until is not None else 1 << 63
        return [event for event in events if low <= history.when(event) <= high]

    def _missing(self, part: TablePart, after: str, what: str) -> pa.RecordBatch:
        """As ``onTrim`` says: an error, or a row that says so."""
        shard = f" (shard {part.shard})" if part.shard else ""
        said = f"history of queue {part.queue}{shard}, after {after}: {what}"
        if self.options.on_trim == "fail":
            raise Lost(f"{said}; option onTrim=report goes on, with a row that says so")
        logger.warning("%s", said)
        place = RowOrigin(part.queue, part.entry.kind if part.entry else None, part.shard, False)
        return history.gap(place, what, after, self.schema)

    def _requests(
        self, part: TablePart, leaf: Queue[Any], place: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        assert isinstance(leaf, HasRequests)
        if part.span is None:
            name = part.numbers[0].request
            one = self.ask(lambda: attempt(leaf.request.op(name)))
            yield records.requests([(name, one)], place, self.schema)
            return
        for rows in self._requests_of(part, leaf):
            yield records.requests(rows, place, self.schema)

    def _requests_of(self, part: TablePart, leaf: Queue[Any]) -> Iterator[list[tuple[str, Any]]]:
        assert isinstance(leaf, HasRequests)
        assert part.span is not None and part.settled is not None
        pace = CallSize(self.options.max_call_us, most=WHOLE)
        cursor: str | None = None
        more = True
        while more:
            make = partial(leaf.read_request_range.op, part.settled, part.span, cursor, pace.size)
            (rows, cursor), took = self._clocked(leaf, make)
            pace.learn(len(rows), took)
            more = cursor is not None
            yield rows

    def _inside(
        self, part: TablePart, leaf: Queue[Any], place: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        """What is in requests, request by request."""
        if part.span is None:
            for one in part.numbers:
                yield from self._numbers(one, leaf, place)
            return
        for rows in self._requests_of(part, leaf):
            for id, record in rows:
                yield from self._numbers(numbered(id, record), leaf, place)

    def _numbers(
        self, one: Numbers, leaf: Queue[Any], place: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        if one.wrong is not None:
            yield records.unread(one.request, None, one.wrong, place, self.schema)
            return
        # Anew for each: what another request's sub-requests are like says nothing of these.
        pace, start, room = self._few(), one.first, one.last
        while start <= one.last:
            most = min(pace.size, room, one.last - start + 1)
            try:
                batch, took = self._some(one.request, start, most, leaf, place)
                pace.learn(most, took)
            except WrongKind as error:  # what is of another type is so for all of them
                what = f"its request's keys can't be read: {why(error)}"
                yield records.unread(one.request, None, what, place, self.schema)
                return
            except (ValueError, LookupError, TypeError, OverflowError) as error:
                room = most // 2
                if room:  # one of them, and the others are to be read
                    continue
                what = f"its record can't be read: {why(error)}"
                batch = records.unread(one.request, start, what, place, self.schema)
            yield batch
            start, room = start + most, one.last

    def _some(
        self, request: str, start: int, most: int, leaf: Queue[Any], place: RowOrigin
    ) -> tuple[pa.RecordBatch, int]:
        """Sub-requests ``start …`` of a request, or their results; and the µs of a call."""
        payloads = self.options.with_payloads
        if self.options.table == "results":
            requests = cast(RequestQueue[Any], leaf)
            came, took = self._clocked(leaf, partial(outcomes, requests, request, start, most))
            if corrupt := next((one.problem for one in came if one.problem), None):
                raise Unreadable(corrupt)
            return records.results(request, came, place, self.schema), took
        assert isinstance(leaf, HasRequests)
        make = partial(leaf.subrequests.op, request, start, most, payloads)
        found, took = self._clocked(leaf, make)
        read = [(entry, None) for entry in found]
        return records.entries(read, place, self.schema, payloads), took


def _joined(sheets: Sequence[ColumnPage]) -> ColumnPage:
    """One sheet of all their rows."""
    if len(sheets) == 1:
        return sheets[0]

    def column(name: str) -> Any:
        parts = [getattr(sheet, name) for sheet in sheets]
        if all(part is None for part in parts):
            return None
        # One page may have none: its ids were no names.
        filled = zip(parts, sheets, strict=True)
        return [*chain.from_iterable(part or [None] * len(sheet.ids) for part, sheet in filled)]

    return ColumnPage(
        column("ids"), column("scores"), None, 0, column("lines"), column("errors"),
        column("payloads"), column("clients"), column("called"),
        tuple(one for sheet in sheets for one in sheet.unread),
    )  # fmt: skip


def _opened(part: TablePart, options: Options) -> Queue[Any]:
    """The part's queue, as it was when the parts were made."""
    if part.entry is not None:
        return Deployment(prefix=options.prefix).open(part.entry)
    made = foreign_class(part.queue.partition(":")[0])
    assert made is not None
    return made(None, part.queue, prefix=options.prefix)
