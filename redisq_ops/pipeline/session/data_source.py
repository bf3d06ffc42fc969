"""The data source ``redisq``: tables of queues, and queues to write to.

`options` has the options of a read. The source ignores the filters that Spark pushes down: Spark
(4.1 to 4.3) also uses those of one query for the next query of the same frame, and for the other
branch of a join or union, so a frame that is used twice would silently lack rows. For a SQL query,
`query_tables` passes bounds as options instead.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql import datasource as ds

from redisq_ops.core.model.errors import BadInput, RedisqError

from ..sink.write_options import parse_write_options
from ..source.job_errors import message_first
from ..source.options import Options, parse_options
from ..source.schemas import selected_columns, struct
from ..source.table_reader import TableReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ..sink.data_sink import BatchWriter, StreamWriter

FORMAT = "redisq"


class RedisqDataSource(ds.DataSource):
    """The source as Spark's Python Data Source API expects it."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def _options(self) -> Options:
        return parse_options(dict(self.options))

    @message_first()
    def schema(self) -> StructType:
        options = self._options()
        return struct(options.definition, options.column_names)

    @message_first()
    def reader(self, schema: StructType) -> ds.DataSourceReader:
        options = _checked_batch_options(_with_schema(self._options(), schema))
        return TableDataSourceReader(options)

    @message_first()
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from ..sink.data_sink import BatchWriter

        return BatchWriter(schema, overwrite, parse_write_options(dict(self.options)))

    @message_first()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from ..sink.data_sink import StreamWriter

        return StreamWriter(schema, overwrite, parse_write_options(dict(self.options)))

    def streamReader(self, schema: StructType) -> ds.DataSourceStreamReader:
        from ..source.history_stream import HistoryStreamReader, RefusedStreamReader

        try:
            reader = HistoryStreamReader(_with_schema(self._options(), schema))
            reader.check_histories()
        except RedisqError as error:
            return RefusedStreamReader(error)
        return reader


def register(spark: SparkSession) -> None:
    """Register ``format("redisq")`` with a session."""
    spark.dataSource.register(RedisqDataSource)


def _with_schema(options: Options, schema: StructType) -> Options:
    """The options with the columns of the schema that Spark uses."""
    return options.with_columns(selected_columns(options.definition, schema))


class TableDataSourceReader(ds.DataSourceReader):
    """A batch read of one table."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @message_first()
    def partitions(self) -> Sequence[ds.InputPartition]:
        return [ds.InputPartition(part) for part in TableReader(self.options).plan()]

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        if TaskContext.get() is not None:
            _freeze_objects(os.getpid())
        # If the list of partitions is empty, Spark makes one partition with the value None.
        if partition.value is not None:
            with message_first():
                yield from TableReader(self.options).read(partition.value)


@cache
def _freeze_objects(pid: int) -> None:
    """Exclude all objects loaded so far from garbage collection, once per worker process.

    Spark's workers collect after each task, which takes longer than all other overhead of a task.
    """
    gc.freeze()


def _checked_batch_options(options: Options) -> Options:
    """Refuse options that only a stream has."""
    if options.max_events is not None or options.start is not None:
        raise BadInput(
            "options maxEventsPerTrigger and startingOffsets are for a stream: use readStream"
        )
    return options
