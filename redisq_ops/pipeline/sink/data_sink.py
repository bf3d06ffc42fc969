"""The writers of the data source ``redisq``: rows to a queue, in batches and streams."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import datasource as ds

from redisq_ops.core.model.errors import BadInput

from ..source.connection import run_retrying
from ..source.job_errors import message_first
from .entry_writer import EntryWriter, Partition, target_kind
from .write_options import WriteOptions, check_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# Local properties that Spark gives the tasks of a streaming query.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"

logger = logging.getLogger("redisq_ops.pipeline")


@dataclass(frozen=True, slots=True)
class PartitionWritten(ds.WriterCommitMessage):
    """What one task wrote."""

    rows: int
    rejected: int


def _report(options: WriteOptions, messages: Sequence[ds.WriterCommitMessage | None]) -> None:
    written = [message for message in messages if isinstance(message, PartitionWritten)]
    if rejected := sum(message.rejected for message in written):
        rows = sum(message.rows for message in written)
        logger.warning(
            "queue %s: %d rejects among %d rows, listed in %s",
            options.queue,
            rejected,
            rows,
            options.rejects,
        )


def checked_target(schema: StructType, overwrite: bool, options: WriteOptions) -> str:
    """The kind of the queue to write to; `BadInput` if rows of this schema can't be appended."""
    if overwrite:
        raise BadInput("rows can only be appended to a queue: use mode append")
    kind = run_retrying(options.server().client, lambda: target_kind(options))
    check_schema(schema, kind, options)
    return kind


class _Writer:
    """Writes to the queue of some options. Spark pickles it for the tasks."""

    def __init__(self, schema: StructType, overwrite: bool, options: WriteOptions) -> None:
        self.options = options
        self.kind = checked_target(schema, overwrite, options)
        self.job = secrets.token_hex(8)  # of a frame; a stream has its query

    def written(self, partition: Partition, rows: Iterator[pa.RecordBatch]) -> PartitionWritten:
        writer = EntryWriter(self.options.server(), self.options, self.kind, partition)
        counts = writer.write(rows)
        return PartitionWritten(counts.rows, counts.rejected)


class BatchWriter(_Writer, ds.DataSourceArrowWriter):
    """Writes a frame."""

    @message_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionWritten:
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        return self.written(Partition(self.job, 0, number), iterator)

    def commit(self, messages: list[ds.WriterCommitMessage | None]) -> None:
        _report(self.options, messages)


class StreamWriter(_Writer, ds.DataSourceStreamArrowWriter):
    """Writes the micro-batches of a streaming query, each exactly once."""

    @message_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionWritten:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        batch = None if context is None else context.getLocalProperty(_BATCH)
        if context is None or query is None or batch is None:
            raise BadInput("a stream is written by the tasks of a streaming query")
        job = hashlib.sha256(query.encode()).hexdigest()[:16]
        return self.written(Partition(job, int(batch), context.partitionId()), iterator)

    def commit(self, messages: list[ds.WriterCommitMessage | None], batchId: int) -> None:
        _report(self.options, messages)
