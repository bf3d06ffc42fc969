"""The data source ``redisq``: tables of queues, and queues to write to.

`options` has the options of a read. A frame takes no bounds from the filters of its queries:
Spark (4.1 to 4.3) keeps the filters that one query pushed down and reads with them for the next
query of the same frame, also for the other branch of a join or union, so a frame that is used twice
would silently lack rows. `SingleQueryDataSource` takes them; only `query_tables` uses it, for
frames that one query reads once.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import datasource as ds

from redisq_ops.core.model.errors import BadInput, RedisqError

from .job_errors import message_first
from .options import EARLIEST, Options, looks_up, parse_options
from .schemas import selected_columns, struct
from .table_reader import TableReader
from .write_options import parse_write_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from .sink import BatchWriter, StreamWriter

FORMAT = "redisq"
SINGLE_QUERY_FORMAT = "redisq_single_query"
MAX_LOOKUPS = 500
"""most ids of a filter that are looked up one by one"""


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
        from .sink import BatchWriter

        return BatchWriter(schema, overwrite, parse_write_options(dict(self.options)))

    @message_first()
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from .sink import StreamWriter

        return StreamWriter(schema, overwrite, parse_write_options(dict(self.options)))

    def streamReader(self, schema: StructType) -> ds.DataSourceStreamReader:
        from .history_stream import HistoryStreamReader, RefusedStreamReader

        try:
            reader = HistoryStreamReader(_with_schema(self._options(), schema))
            reader.check_histories()
        except RedisqError as error:
            return RefusedStreamReader(error)
        return reader


class SingleQueryDataSource(RedisqDataSource):
    """The source for a frame that exactly one query reads, exactly once.

    Filters on time, queue, id and request become bounds and look-ups; Spark still applies every
    filter itself.
    """

    @classmethod
    def name(cls) -> str:
        return SINGLE_QUERY_FORMAT

    @message_first()
    def reader(self, schema: StructType) -> ds.DataSourceReader:
        return FilteringReader(_checked_batch_options(_with_schema(self._options(), schema)))


def register(spark: SparkSession) -> None:
    """Register ``format("redisq")`` with a session."""
    spark.dataSource.register(RedisqDataSource)


def _with_schema(options: Options, schema: StructType) -> Options:
    """Options with the columns of the schema that Spark has settled on."""
    return options.with_columns(selected_columns(options.definition, schema))


class TableDataSourceReader(ds.DataSourceReader):
    """A batch read of one table."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.excludes_all = False
        """no row can match the filters"""

    @message_first()
    def partitions(self) -> Sequence[ds.InputPartition]:
        parts = [] if self.excludes_all else TableReader(self.options).plan()
        return [ds.InputPartition(part) for part in parts]

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        if TaskContext.get() is not None:
            _freeze_objects(os.getpid())
        # For an empty list of partitions Spark makes one with the value None.
        if partition.value is not None:
            with message_first():
                yield from TableReader(self.options).read(partition.value)


@cache
def _freeze_objects(pid: int) -> None:
    """Exclude all objects loaded so far from garbage collection, once per worker process.

    Spark's workers collect after each task, which takes longer than all other overhead of a task.
    """
    gc.freeze()


class FilteringReader(TableDataSourceReader):
    """A read with bounds from the filters of its query.

    Spark refuses it while ``spark.sql.python.filterPushdown.enabled`` is false.
    """

    @message_first()
    def pushFilters(self, filters: list[ds.Filter]) -> Iterable[ds.Filter]:
        for filter in filters:
            self._apply_filter(filter)
        return filters

    def _apply_filter(self, filter: ds.Filter) -> None:
        column: tuple[str, ...] = getattr(filter, "attribute", ())
        value = getattr(filter, "value", None)
        if column == ("queue",):
            if isinstance(filter, (ds.EqualTo, ds.EqualNullSafe)) and isinstance(value, str):
                self._restrict_queues((value,))
            elif isinstance(filter, ds.In) and all(isinstance(v, str) for v in filter.value):
                self._restrict_queues(filter.value)
        elif column in (("id",), ("request",)):
            self._apply_lookup(column[0], filter)
        elif column == (self.options.definition.time,):
            ms = _literal_ms(value)
            if ms is None:
                return
            if isinstance(filter, (ds.GreaterThan, ds.GreaterThanOrEqual, ds.EqualTo)):
                low = self.options.since_ms
                self.options = replace(self.options, since_ms=ms if low is None else max(low, ms))
            if isinstance(filter, (ds.LessThan, ds.LessThanOrEqual, ds.EqualTo)):
                high = self.options.until_ms
                top = ms + 1  # the literal may have a fraction of a millisecond
                self.options = replace(
                    self.options, until_ms=top if high is None else min(high, top)
                )

    def _apply_lookup(self, column: str, filter: ds.Filter) -> None:
        """Look up the rows of ids or of a request, where the table has look-ups by them."""
        if isinstance(filter, (ds.EqualTo, ds.EqualNullSafe)) and isinstance(filter.value, str):
            values = [filter.value]
        elif isinstance(filter, ds.In) and all(isinstance(v, str) for v in filter.value):
            values = list(dict.fromkeys(filter.value))
        else:
            return
        if not looks_up(self.options.table, column) or len(values) > MAX_LOOKUPS:
            return
        before = self.options.id if column == "id" else (self.options.request,)
        if any(before):
            values = [value for value in values if value in before]
        if not values:
            self.excludes_all = True
        elif column == "id":
            self.options = replace(self.options, id=tuple(values))
        elif len(values) == 1:
            self.options = replace(self.options, request=values[0])

    def _restrict_queues(self, names: Sequence[str]) -> None:
        """Read only these queues; a name without a queue matches nothing, and is no error."""
        known = set(self.options.queue) or set(_registered_names(self.options))
        wanted = tuple(name for name in dict.fromkeys(names) if name in known)
        if wanted:
            self.options = replace(self.options, queue=wanted)
        else:
            self.excludes_all = True


def _registered_names(options: Options) -> list[str]:
    from redisq_ops.core.engine.registry import all_queues

    return [entry.name for entry in TableReader(options).run(lambda: all_queues(options.prefix))]


def _literal_ms(value: Any) -> int | None:
    """A time literal of a filter in ms, rounded down; without a zone it is UTC."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000 // 1)
    if isinstance(value, date):
        return int(datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp() * 1000)
    return None


def _checked_batch_options(options: Options) -> Options:
    """Refuse options that only a stream has."""
    if options.max_events is not None or options.start != EARLIEST:
        raise BadInput(
            "options maxEventsPerTrigger and startingOffsets are for a stream: use readStream"
        )
    return options
