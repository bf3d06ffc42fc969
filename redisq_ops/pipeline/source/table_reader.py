"""Read one part of a table as Arrow batches. Uses no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.redis.operation import attempt, together

from . import model_rows
from .arrow_batch import RowOrigin, make_batch, origin_columns
from .entry_reader import EntryReader
from .history_reader import HistoryReader, report_trimmed
from .read_partitions import TablePart, plan_parts
from .request_reader import RequestReader
from .table_source import TableSource

COUNTED_ROWS = 100_000
"""rows of an Arrow batch if rows are only counted"""


class TableReader(TableSource):
    """Plans and reads the parts of one table."""

    def plan(self) -> list[TablePart]:
        return self.run(lambda: plan_parts(self.options))

    def read(self, part: TablePart) -> Iterator[pa.RecordBatch]:
        """The rows of a part, some thousands per batch."""
        if part.range is not None and part.range.missing is not None:
            yield report_trimmed(self, part, part.range.after, part.range.missing)
        if part.range is not None and part.range.empty:
            return
        if part.shards:
            yield self._count_batch(part.shards)
            return
        for batch in self._batches(part):
            if batch.num_rows:
                yield batch

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

    def _count_batch(self, shards: Sequence[TablePart]) -> pa.RecordBatch:
        """Rows of the table ``counts``."""
        queues = [self.shard_queue(shard) for shard in shards]
        counts = self.run(lambda: together(attempt(queue.counts.op()) for queue in queues))
        rows = [
            (RowOrigin(shard.queue, queue.kind, shard.shard, False), found)
            for shard, queue, found in zip(shards, queues, counts, strict=True)
        ]
        return model_rows.count_batch(rows, self.schema)


def _counted_batches(n: int, origin: RowOrigin, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of ``n`` rows with only the columns of their origin."""
    for first in range(0, n, COUNTED_ROWS):
        rows = min(COUNTED_ROWS, n - first)
        yield make_batch(origin_columns(origin, rows), rows, schema)
