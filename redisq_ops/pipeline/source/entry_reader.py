"""Read the entries of one state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from redisq_ops.core.engine.state_scan import ColumnPage, ScoreRange
from redisq_ops.core.model.entry import Page
from redisq_ops.core.model.errors import Unreadable, WrongKind
from redisq_ops.core.redis.operation import attempt, together

from . import entry_decoder, model_rows
from .arrow_batch import corrupt_row, describe_error
from .connection import gc_paused
from .read_partitions import ENTRY_STATES, PAGE_ROWS
from .table_source import PartReader

CALLS_PER_ROUND = 16
"""calls for a column in one round trip. On a busy machine a reader mostly waits for a processor,
once per round trip; the server serves other clients between two calls of one round trip"""


class EntryReader(PartReader):
    """Reads the table of a state, such as ``dead``."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        if not self.shard_queue.has_columns:
            yield from self._foreign_batches()
            return
        span, state = self.part.span, ENTRY_STATES[self.options.table]
        for page in self._waiting_pages() if span is None else self._sorted_set_pages(span):
            yield entry_decoder.decode_page(page, self.origin, state, self.schema)

    def selected_batches(self, ids: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The entries of these ids that are in the table's state."""
        found = self.run(lambda: together(attempt(self.shard_queue.get.op(id)) for id in ids))
        for id, entry in zip(ids, found, strict=True):
            if isinstance(entry, (WrongKind, Unreadable)):
                reason = f"its record can't be read: {describe_error(entry)}"
                yield corrupt_row(reason, self.origin, self.schema, id=id)
            elif isinstance(entry, Exception):
                raise entry
            elif entry is not None and self.is_selected(entry):
                yield model_rows.entry_batch(
                    [entry], self.origin, self.schema, self.options.reads_payloads
                )

    def _needed_columns(self) -> frozenset[str]:
        return entry_decoder.needed_columns(self.schema.names, self.options.reads_payloads)

    def _sorted_set_pages(self, span: ScoreRange) -> Iterator[ColumnPage]:
        """Pages of a span of a sorted set."""
        state, needed = ENTRY_STATES[self.options.table], self._needed_columns()

        def read(cursor: Any) -> ColumnPage:
            step = self.source.call_size.size
            rows = step * CALLS_PER_ROUND
            page: ColumnPage = self.run(
                partial(self.shard_queue.read_range.op, state, span, cursor, rows, needed, step)
            )
            self.source.call_size.learn(len(page.ids) // CALLS_PER_ROUND, page.call_us)
            return page

        return _pages(read)

    def _waiting_pages(self) -> Iterator[ColumnPage]:
        """Pages of entries that wait in lists or streams."""
        call_size, needed = self.entry_call_size(), self._needed_columns()

        def read(cursor: Any) -> ColumnPage:
            make = partial(self.shard_queue.read_waiting.op, cursor, call_size.size, needed)
            page: ColumnPage
            page, took = self.timed_call(make)
            call_size.learn(len(page.ids), took)
            return page

        return _pages(read)

    def _foreign_batches(self) -> Iterator[pa.RecordBatch]:
        """Entries of another program's layout, decoded by the core."""
        cursor = None
        while True:
            with gc_paused():  # until the page's entries are gone: the collector would scan them
                batch, cursor = self._foreign_batch(cursor)
            yield batch
            if cursor is None:
                return

    def _foreign_batch(self, cursor: str | None) -> tuple[pa.RecordBatch, str | None]:
        """A page's entries, and the cursor of the next page."""
        state, payloads = ENTRY_STATES[self.options.table], self.options.reads_payloads
        # The cost of a page does not depend on its size here.
        page_op = self.shard_queue.page.op
        make = partial(page_op, state, cursor, PAGE_ROWS, None, payloads, brief=True)
        page: Page = self.run(make)
        if page.problem:  # a table can't mark itself as incomplete
            raise WrongKind(page.problem)
        entries = [entry for entry in page.entries if self.in_time_range(entry)]
        batch = model_rows.entry_batch(entries, self.origin, self.schema, payloads)
        return batch, page.cursor


def _pages(read: Callable[[Any], ColumnPage]) -> Iterator[ColumnPage]:
    """All pages of a state; ``read`` takes the cursor of the page before."""
    page = read(None)
    yield page
    while page.cursor is not None:
        page = read(page.cursor)
        yield page
