"""Read one part of a table as Arrow batches. Uses no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.task_figures import TaskReport
from redisq_ops.core.redis.operation import apart, together
from redisq_ops.ops.inspect.periodic import periodic_status
from redisq_ops.ops.inspect.task_report import TaskReader

from . import model_rows
from .arrow_batch import RowOrigin, corrupt_row, describe_error, make_batch, origin_columns
from .entry_reader import EntryReader
from .history_reader import HistoryReader, report_trimmed
from .read_partitions import TablePart, plan_parts
from .request_reader import RequestReader
from .table_source import BATCH_BYTES, BATCH_ROWS, TableSource

COUNTED_ROWS = 100_000
"""rows of an Arrow batch if rows are only counted"""


class TableReader(TableSource):
    """Plans and reads the parts of one table."""

    def plan(self) -> list[TablePart]:
        return self.run(lambda: plan_parts(self.options))

    def read(self, part: TablePart) -> Iterator[pa.RecordBatch]:
        """The rows of a part, some thousands per batch if they are small."""
        if part.range is not None and part.range.missing is not None:
            yield report_trimmed(self, part, part.range.after, part.range.missing)
        if part.range is not None and part.range.empty:
            return
        if part.shards:
            if batches := list(self._queue_batches(part.shards)):
                yield pa.concat_batches(batches)
            return
        held: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in self._batches(part):
            held.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield pa.concat_batches(held)
                held, rows, size = [], 0, 0
        if rows:
            yield pa.concat_batches(held)

    def whole(self, most_rows: int, most_bytes: int) -> pa.Table | None:
        """All rows; None if there are more than ``most_rows``, or ``most_bytes`` of them."""
        batches: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in chain.from_iterable(map(self.read, self.plan())):
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > most_rows or size > most_bytes:
                return None
            batches.append(batch)
        return pa.Table.from_batches(batches, self.schema)

    def _batches(self, part: TablePart) -> Iterator[pa.RecordBatch]:
        queue = self.shard_queue(part)
        origin = RowOrigin(part.queue, queue.kind, part.shard, isinstance(queue, HasRequests))
        if part.rows is not None:
            return _counted_batches(part.rows, origin, self.schema)
        reading = (self, part, queue, origin)
        if part.ids:
            return EntryReader(*reading).selected_batches(part.ids)
        if part.range is not None:
            return HistoryReader(*reading).batches(part.range)
        if self.options.table == "requests":
            return RequestReader(*reading).request_batches()
        if self.options.table in ("subrequests", "results") or part.numbers:
            return RequestReader(*reading).subrequest_batches()
        return EntryReader(*reading).batches()

    def _queue_batches(self, parts: Sequence[TablePart]) -> Iterator[pa.RecordBatch]:
        """Rows about shards (``counts``) or queues; one whose rows can't be read has the reason."""
        opened = self.shard_queue if self.options.table == "counts" else self.queue
        make_rows, read = _ABOUT_QUEUES[self.options.table]
        queues = [opened(part) for part in parts]
        found = self.run(lambda: together(apart(read(queue)) for queue in queues))
        for part, queue, one in zip(parts, queues, found, strict=True):
            origin = RowOrigin(part.queue, queue.kind, part.shard, False)
            if isinstance(one, Exception):
                reason = f"its {self.options.table} can't be read: {describe_error(one)}"
                yield corrupt_row(reason, origin, self.schema)
            elif rows := make_rows(one):
                yield model_rows.queue_batch(rows, origin, self.schema, self.options.reads_payloads)


async def _counts(queue: Queue[Any]) -> Counts:
    found: Counts = await queue.counts.op()
    return found


async def _tasks(queue: Queue[Any]) -> TaskReport:
    return await TaskReader(queue).read(await queue.now.op())


_ABOUT_QUEUES: Mapping[str, tuple[Callable[[Any], list[model_rows.Row]], Callable[[Any], Any]]] = {
    "counts": (model_rows.count_rows, _counts),
    "tasks": (model_rows.task_rows, _tasks),
    "schedules": (model_rows.schedule_rows, periodic_status),
}
"""table -> what makes rows of what is read of a shard or queue, and what reads it"""


def _counted_batches(n: int, origin: RowOrigin, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of ``n`` rows with only the columns of their origin."""
    for first in range(0, n, COUNTED_ROWS):
        rows = min(COUNTED_ROWS, n - first)
        yield make_batch(origin_columns(origin, rows), rows, schema)
