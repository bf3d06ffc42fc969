"""Read requests, their sub-requests and results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pyarrow as pa

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.model.errors import Unreadable, WrongKind
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.outcomes import outcomes
from redisq_ops.core.redis.operation import attempt

from . import model_rows
from .arrow_batch import describe_error
from .call_size import CallSize
from .read_partitions import PAGE_ROWS, NumberRange, all_numbers
from .table_source import PartReader


class RequestReader(PartReader):
    """Reads the tables ``requests``, ``subrequests`` and ``results``."""

    def request_batches(self) -> Iterator[pa.RecordBatch]:
        """Rows of the table ``requests``."""
        part = self.part
        if part.span is None:
            queue, name = self.shard_queue, part.numbers[0].request
            assert isinstance(queue, HasRequests)
            record = self.run(lambda: attempt(queue.request.op(name)))
            yield model_rows.request_batch([(name, record)], self.origin, self.schema)
            return
        for rows in self._request_pages():
            yield model_rows.request_batch(rows, self.origin, self.schema)

    def _request_pages(self) -> Iterator[list[tuple[str, Any]]]:
        part = self.part
        assert part.span is not None and part.settled is not None
        assert isinstance(self.shard_queue, HasRequests)
        read_range = partial(self.shard_queue.read_request_range.op, part.settled, part.span)
        call_size = CallSize(self.options.max_call_us, max_rows=PAGE_ROWS)
        cursor, more = None, True
        while more:
            make = partial(read_range, cursor, call_size.size)
            (rows, cursor), took = self.timed_call(make)
            call_size.learn(len(rows), took)
            more = cursor is not None
            yield rows

    def subrequest_batches(self) -> Iterator[pa.RecordBatch]:
        """Sub-requests or results, request by request."""
        if self.part.span is None:
            for numbers in self.part.numbers:
                yield from self._number_batches(numbers)
            return
        for rows in self._request_pages():
            for id, record in rows:
                yield from self._number_batches(all_numbers(id, record))

    def _number_batches(self, numbers: NumberRange) -> Iterator[pa.RecordBatch]:
        if numbers.problem is not None:
            yield self._unreadable(numbers.request, None, numbers.problem)
            return
        # A new call size for each request: sizes of its payloads say nothing about the next
        # request's.
        call_size, start, limit = self.entry_call_size(), numbers.first, numbers.last
        while start <= numbers.last:
            size = min(call_size.size, limit, numbers.last - start + 1)
            try:
                batch, took = self._subrequest_batch(numbers.request, start, size)
                call_size.learn(size, took)
            except WrongKind as error:  # a key of another type makes all requests fail
                reason = f"its request's keys can't be read: {describe_error(error)}"
                yield self._unreadable(numbers.request, None, reason)
                return
            except (ValueError, LookupError, TypeError, OverflowError) as error:
                limit = size // 2
                if limit:  # halve: perhaps only one of them is unreadable
                    continue
                reason = f"its record can't be read: {describe_error(error)}"
                batch = self._unreadable(numbers.request, start, reason)
            yield batch
            start, limit = start + size, numbers.last

    def _subrequest_batch(self, request: str, start: int, size: int) -> tuple[pa.RecordBatch, int]:
        """Sub-requests of a request from ``start`` on, or their results; and the server's time for
        a call in µs."""
        payloads = self.options.reads_payloads
        if self.options.table == "results":
            requests = cast(RequestQueue[Any], self.shard_queue)  # only this kind has results
            rows, took = self.timed_call(partial(outcomes, requests, request, start, size))
            if corrupt := next((row.problem for row in rows if row.problem), None):
                raise Unreadable(corrupt)
            return model_rows.result_batch(request, rows, self.origin, self.schema), took
        assert isinstance(self.shard_queue, HasRequests)
        make = partial(self.shard_queue.subrequests.op, request, start, size, payloads)
        found, took = self.timed_call(make)
        read = [entry for entry in found if self.is_selected(entry)]
        return model_rows.entry_batch(read, self.origin, self.schema, payloads), took

    def _unreadable(self, request: str, number: int | None, reason: str) -> pa.RecordBatch:
        return model_rows.unreadable_row(request, number, reason, self.origin, self.schema)
