"""Read one part of a table as Arrow batches. Uses no Spark."""

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
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.operation import Description, attempt, together
from redisq_ops.ops.deployment import Deployment

from . import entry_decoder, history_events, model_rows
from .arrow_batch import RowOrigin, corrupt_row, describe_error, make_batch, origin_columns
from .call_size import FIRST, FIRST_WITH_PAYLOADS, CallSize
from .connection import gc_paused, process_client, retry_unreachable, run_read_only
from .history_events import RawEvent
from .history_ranges import HistoryRange, id_before
from .options import Options
from .read_partitions import (
    ENTRY_STATES,
    PAGE_ROWS,
    NumberRange,
    TablePart,
    all_numbers,
    plan_parts,
)  # fmt: skip
from .schemas import arrow

T = TypeVar("T")
P = TypeVar("P", ColumnPage, Page)

BATCH_ROWS = 8192
"""approximate rows of an Arrow batch"""
COUNTED_ROWS = 100_000
"""rows of an Arrow batch without any content"""
CALLS_PER_ROUND = 16
"""calls for a column in one round trip. On a busy machine a reader mostly waits for a processor,
once per round trip; the server serves other clients between two calls of one round trip"""

logger = logging.getLogger("redisq_ops.pipeline")


class TableReader:
    """Reads parts of one table as Arrow batches. Connects on first use and sends read commands
    only. ``target``: the server, if it is not that of the options."""

    def __init__(self, options: Options, target: ServerAddress | None = None) -> None:
        self.options = options
        self.target = target
        self.schema: pa.Schema = arrow(options.definition, options.column_names)
        self.call_size = CallSize(
            options.max_call_us, FIRST_WITH_PAYLOADS if options.reads_payloads else FIRST
        )

    def run(self, make: Callable[[], Description[T]]) -> T:
        """Run an operation with retries; ``make`` makes it anew for each attempt."""
        client = process_client(self.target or self.options.target(), self.options.replica)
        with gc_paused():
            return retry_unreachable(lambda: run_read_only(client, make()))

    def plan(self) -> list[TablePart]:
        return self.run(lambda: plan_parts(self.options))

    def shard_queue(self, part: TablePart) -> Queue[Any]:
        """The queue of the shard that a part belongs to."""
        return _open_queue(part, self.options).shard_queues[part.shard]

    def read_events(
        self, shard_queue: Queue[Any], after: str, until: str, size: int
    ) -> tuple[list[RawEvent], int]:
        """A page of history, and the server's time for it in µs."""
        key = shard_queue.keys["hist"]
        columns, took = self.run(
            lambda: timed(key, {"rows": shard_queue.history_range.op(after, until, size)})
        )
        return columns["rows"], took["rows"]

    def read(self, part: TablePart) -> Iterator[pa.RecordBatch]:
        """The rows of a part, some thousands per batch."""
        if part.range is not None and part.range.missing is not None:
            yield self._trimmed(part, part.range.after, part.range.missing)
        if part.range is not None and part.range.empty:
            return
        if part.shards:
            yield self._count_batch(part.shards)
            return
        shard_queue = self.shard_queue(part)
        origin = RowOrigin(
            part.queue, shard_queue.kind, part.shard, isinstance(shard_queue, HasRequests)
        )
        for batch in self._batches(part, shard_queue, origin):
            if batch.num_rows:
                yield batch

    def _batches(
        self, part: TablePart, shard_queue: Queue[Any], origin: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        table = self.options.table
        if part.rows is not None:
            return _counted_batches(part.rows, origin, self.schema)
        if part.ids:
            return self._looked_up_batches(part.ids, shard_queue, origin)
        if part.range is not None:
            return self._event_batches(part, shard_queue, origin, part.range)
        if table == "requests":
            return self._request_batches(part, shard_queue, origin)
        if table in ("subrequests", "results") or part.numbers:
            return self._subrequest_batches(part, shard_queue, origin)
        if not shard_queue.has_columns:
            return self._foreign_batches(shard_queue, origin)
        if part.span is None:
            return self._entry_batches(self._waiting_pages(shard_queue), origin)
        return self._entry_batches(self._sorted_set_pages(shard_queue, part.span), origin)

    def _count_batch(self, shards: Sequence[TablePart]) -> pa.RecordBatch:
        """Rows of the table ``counts``."""
        queues = [self.shard_queue(shard) for shard in shards]
        counts = self.run(lambda: together(attempt(queue.counts.op()) for queue in queues))
        rows = [
            (RowOrigin(shard.queue, queue.kind, shard.shard, False), found)
            for shard, queue, found in zip(shards, queues, counts, strict=True)
        ]
        return model_rows.count_batch(rows, self.schema)

    def _looked_up_batches(
        self, ids: Sequence[str], shard_queue: Queue[Any], origin: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        """The entries of these ids that are in the table's state."""
        found = self.run(lambda: together(attempt(shard_queue.get.op(id)) for id in ids))
        for id, entry in zip(ids, found, strict=True):
            if isinstance(entry, (WrongKind, Unreadable)):
                reason = f"its record can't be read: {describe_error(entry)}"
                yield corrupt_row(reason, origin, self.schema, id=id)
            elif isinstance(entry, Exception):
                raise entry
            elif entry is not None and self._is_selected(entry):
                yield model_rows.entry_batch(
                    [(entry, entry.problem)], origin, self.schema, self.options.reads_payloads
                )

    def _is_selected(self, entry: Entry) -> bool:
        """Whether an entry that was looked up is a row of the table."""
        state, request = ENTRY_STATES.get(self.options.table), self.options.request
        return (
            state in (None, entry.state)
            and (request is None or entry.id.rpartition("/")[0] == request)
            and self._in_time_range(entry)
        )

    def _entry_batches(
        self, pages: Iterator[ColumnPage], origin: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        """Batches of pages; columns stay undecoded until there are enough rows."""
        state = ENTRY_STATES[self.options.table]
        held: list[ColumnPage] = []
        rows = 0
        for page in pages:
            held.append(page)
            rows += len(page.ids)
            if rows >= BATCH_ROWS or page.cursor is None:
                yield entry_decoder.decode_page(_join_pages(held), origin, state, self.schema)
                held, rows = [], 0

    def _needed_columns(self) -> frozenset[str]:
        return entry_decoder.needed_columns(self.schema.names, self.options.reads_payloads)

    def _sorted_set_pages(self, shard_queue: Queue[Any], span: ScoreRange) -> Iterator[ColumnPage]:
        """Pages of a span of a sorted set."""
        state, needed = ENTRY_STATES[self.options.table], self._needed_columns()

        def read(cursor: Any) -> ColumnPage:
            step = self.call_size.size
            rows = step * CALLS_PER_ROUND
            page: ColumnPage = self.run(
                partial(shard_queue.read_range.op, state, span, cursor, rows, needed, step)
            )
            self.call_size.learn(len(page.ids) // CALLS_PER_ROUND, page.call_us)
            return page

        return _pages(read)

    def _waiting_pages(self, shard_queue: Queue[Any]) -> Iterator[ColumnPage]:
        """Pages of entries that wait in lists or streams."""
        call_size, needed = self._entry_call_size(), self._needed_columns()

        def read(cursor: Any) -> ColumnPage:
            make = partial(shard_queue.read_waiting.op, cursor, call_size.size, needed)
            page: ColumnPage
            page, took = self._timed(shard_queue, make)
            call_size.learn(len(page.ids), took)
            return page

        return _pages(read)

    def _foreign_batches(
        self, shard_queue: Queue[Any], origin: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        """Entries of another program's layout, decoded by the core."""
        state, payloads = ENTRY_STATES[self.options.table], self.options.reads_payloads

        def read(cursor: Any) -> Page:
            # The cost of a page does not depend on its size here.
            make = partial(shard_queue.page.op, state, cursor, PAGE_ROWS, None, payloads)
            page: Page = self.run(make)
            return page

        for page in _pages(read):
            if page.problem:  # a table can't mark itself as incomplete
                raise WrongKind(page.problem)
            rows = [(entry, None) for entry in page.entries if self._in_time_range(entry)]
            yield model_rows.entry_batch(rows, origin, self.schema, payloads)

    def _entry_call_size(self) -> CallSize:
        """Call size for reads entry by entry, where the server touches payload or result in any
        case."""
        return CallSize(self.options.max_call_us, FIRST_WITH_PAYLOADS, PAGE_ROWS)

    def _timed(self, shard_queue: Queue[Any], make: Callable[[], Description[T]]) -> tuple[T, int]:
        """The result of an operation, and the server's time for its slowest call in µs."""
        return self.run(lambda: clocked(shard_queue.keys["cfg"], make()))

    def _in_time_range(self, entry: Entry) -> bool:
        """Whether an entry is within the options' time range; an unknown time is within any."""
        since, until = self.options.since_ms, self.options.until_ms
        at_ms = entry.since_ms if entry.state == "dead" else entry.at_ms
        if at_ms is None:
            return True
        return (since is None or at_ms >= since) and (until is None or at_ms <= until)

    def _event_batches(
        self,
        part: TablePart,
        shard_queue: Queue[Any],
        origin: RowOrigin,
        history_range: HistoryRange,
    ) -> Iterator[pa.RecordBatch]:
        """Events of a range; an expected event that is not there any more was trimmed."""
        held: list[RawEvent] = []
        after, seen, more = history_range.after, 0, True
        while more:
            # The anchor, an event that is expected to be there, proves that nothing behind it was
            # trimmed: first the range's first event, then the last event of the page before.
            anchor = (
                None if history_range.events is not None else after if seen else history_range.first
            )
            size = self.call_size.size + (1 if anchor else 0)
            rows, took = self.read_events(
                shard_queue, id_before(anchor) if anchor else after, history_range.until, size
            )
            self.call_size.learn(len(rows), took)
            more = len(rows) == size
            if anchor is not None:
                if not rows or rows[0][0].decode() != anchor:
                    where = "behind" if seen else "from"
                    what = f"events {where} {anchor} on were trimmed before they were read"
                    yield self._trimmed(part, anchor, what)
                elif seen:
                    rows = rows[1:]
            if rows:
                after = rows[-1][0].decode()
            seen += len(rows)
            held += rows
            if held and (len(held) >= BATCH_ROWS or not more):
                yield from self._rows_of_events(held, shard_queue, origin)
                held = []
        if history_range.events is not None and seen < history_range.events:
            gone = history_range.events - seen
            yield self._trimmed(
                part, history_range.after, f"{gone} events were trimmed behind this one"
            )

    def _rows_of_events(
        self, events: list[RawEvent], shard_queue: Queue[Any], origin: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        if self.options.table == "history":
            yield history_events.event_rows(self._in_history_range(events), origin, self.schema)
            return
        died = history_events.deaths(events, origin)
        for first in range(0, len(died), PAGE_ROWS):
            yield self._death_rows(died[first : first + PAGE_ROWS], shard_queue, origin)

    def _death_rows(
        self,
        died: Sequence[history_events.Death],
        shard_queue: Queue[Any],
        origin: RowOrigin,
    ) -> pa.RecordBatch:
        """A row for each event by which an entry became dead, with its record if it still is."""
        found = self.run(lambda: together(attempt(shard_queue.get.op(one.id)) for one in died))
        rows: list[model_rows.DecodedEntry] = []
        for one, entry in zip(died, found, strict=True):
            if isinstance(entry, Entry) and entry.state == "dead" and entry.since_ms == one.at_ms:
                rows.append((entry, entry.problem))
                continue
            if isinstance(entry, Exception) and not isinstance(entry, (WrongKind, Unreadable)):
                raise entry
            reason = (
                f"its record can't be read: {describe_error(entry)}"
                if isinstance(entry, Exception)
                else "it was changed after it became dead"
            )
            rows.append((Entry(one.id, "dead", since_ms=one.at_ms), reason))
        return model_rows.entry_batch(rows, origin, self.schema, self.options.reads_payloads)

    def _in_history_range(self, events: list[RawEvent]) -> list[RawEvent]:
        """Events within the options' time range; an event without a time counts by its id."""
        since, until = self.options.since_ms, self.options.until_ms
        if since is None and until is None:
            return events
        low, high = since or 0, until if until is not None else 1 << 63
        return [event for event in events if low <= history_events.event_ms(event) <= high]

    def _trimmed(self, part: TablePart, after: str, what: str) -> pa.RecordBatch:
        """Report trimmed events as the option ``onTrim`` says: raise `Lost`, or return a row."""
        shard = f" (shard {part.shard})" if part.shard else ""
        message = f"history of queue {part.queue}{shard}, after {after}: {what}"
        if self.options.on_trim == "fail":
            raise Lost(f"{message}; option onTrim=report continues, with a row that reports it")
        logger.warning("%s", message)
        origin = RowOrigin(part.queue, part.entry.kind if part.entry else None, part.shard, False)
        return history_events.gap_row(origin, what, after, self.schema)

    def _request_batches(
        self, part: TablePart, shard_queue: Queue[Any], origin: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        if part.span is None:
            assert isinstance(shard_queue, HasRequests)
            name = part.numbers[0].request
            record = self.run(lambda: attempt(shard_queue.request.op(name)))
            yield model_rows.request_batch([(name, record)], origin, self.schema)
            return
        for rows in self._request_pages(part, shard_queue):
            yield model_rows.request_batch(rows, origin, self.schema)

    def _request_pages(
        self, part: TablePart, shard_queue: Queue[Any]
    ) -> Iterator[list[tuple[str, Any]]]:
        assert part.span is not None and part.settled is not None
        assert isinstance(shard_queue, HasRequests)
        read_range = partial(shard_queue.read_request_range.op, part.settled, part.span)
        call_size = CallSize(self.options.max_call_us, max_rows=PAGE_ROWS)
        cursor, more = None, True
        while more:
            make = partial(read_range, cursor, call_size.size)
            (rows, cursor), took = self._timed(shard_queue, make)
            call_size.learn(len(rows), took)
            more = cursor is not None
            yield rows

    def _subrequest_batches(
        self, part: TablePart, shard_queue: Queue[Any], origin: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        """Sub-requests or results, request by request."""
        if part.span is None:
            for numbers in part.numbers:
                yield from self._number_batches(numbers, shard_queue, origin)
            return
        for rows in self._request_pages(part, shard_queue):
            for id, record in rows:
                yield from self._number_batches(all_numbers(id, record), shard_queue, origin)

    def _number_batches(
        self, numbers: NumberRange, shard_queue: Queue[Any], origin: RowOrigin
    ) -> Iterator[pa.RecordBatch]:
        if numbers.problem is not None:
            yield model_rows.unreadable_row(
                numbers.request, None, numbers.problem, origin, self.schema
            )
            return
        # A new call size for each request: sizes of its payloads say nothing about the next
        # request's.
        call_size, start, limit = self._entry_call_size(), numbers.first, numbers.last
        while start <= numbers.last:
            size = min(call_size.size, limit, numbers.last - start + 1)
            try:
                batch, took = self._subrequest_batch(
                    numbers.request, start, size, shard_queue, origin
                )
                call_size.learn(size, took)
            except WrongKind as error:  # a key of another type fails for all of them
                reason = f"its request's keys can't be read: {describe_error(error)}"
                yield model_rows.unreadable_row(numbers.request, None, reason, origin, self.schema)
                return
            except (ValueError, LookupError, TypeError, OverflowError) as error:
                limit = size // 2
                if limit:  # halve: only one of them is unreadable
                    continue
                reason = f"its record can't be read: {describe_error(error)}"
                batch = model_rows.unreadable_row(
                    numbers.request, start, reason, origin, self.schema
                )
            yield batch
            start, limit = start + size, numbers.last

    def _subrequest_batch(
        self, request: str, start: int, size: int, shard_queue: Queue[Any], origin: RowOrigin
    ) -> tuple[pa.RecordBatch, int]:
        """Sub-requests ``start …`` of a request, or their results; and the server's time of a call
        in µs."""
        payloads = self.options.reads_payloads
        if self.options.table == "results":
            requests = cast(RequestQueue[Any], shard_queue)  # no other kind has results
            rows, took = self._timed(shard_queue, partial(outcomes, requests, request, start, size))
            if corrupt := next((row.problem for row in rows if row.problem), None):
                raise Unreadable(corrupt)
            return model_rows.result_batch(request, rows, origin, self.schema), took
        assert isinstance(shard_queue, HasRequests)
        make = partial(shard_queue.subrequests.op, request, start, size, payloads)
        found, took = self._timed(shard_queue, make)
        read = [(entry, None) for entry in found if self._is_selected(entry)]
        return model_rows.entry_batch(read, origin, self.schema, payloads), took


def _counted_batches(n: int, origin: RowOrigin, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """``n`` rows of which only the origin is asked for."""
    for first in range(0, n, COUNTED_ROWS):
        rows = min(COUNTED_ROWS, n - first)
        yield make_batch(origin_columns(origin, rows), rows, schema)


def _pages(read: Callable[[Any], P]) -> Iterator[P]:
    """All pages of a state; ``read`` takes the cursor of the page before."""
    page = read(None)
    yield page
    while page.cursor is not None:
        page = read(page.cursor)
        yield page


def _join_pages(pages: Sequence[ColumnPage]) -> ColumnPage:
    """One page with the rows of all pages."""
    if len(pages) == 1:
        return pages[0]

    def column(name: str) -> Any:
        parts = [getattr(page, name) for page in pages]
        if all(part is None for part in parts):
            return None
        # A page has no such column if none of its ids is a name.
        filled = zip(parts, pages, strict=True)
        return [*chain.from_iterable(part or [None] * len(page.ids) for part, page in filled)]

    return ColumnPage(
        column("ids"), column("scores"), None, 0, column("lines"), column("errors"),
        column("payloads"), column("clients"), column("called"),
        tuple(entry for page in pages for entry in page.unread),
    )  # fmt: skip


def _open_queue(part: TablePart, options: Options) -> Queue[Any]:
    """The part's queue with the layout that it had when the parts were planned."""
    if part.entry is not None:
        return Deployment(prefix=options.prefix).open(part.entry)
    layout_class = foreign_class(part.queue.partition(":")[0])
    assert layout_class is not None
    return layout_class(None, part.queue, prefix=options.prefix)
