"""The data source ``redisq``: tables of queues for ``spark.read.format("redisq")``.

It only reads; what may be asked of it is in `options`. With the option ``pushdown`` filters on time
and queue are taken as coarse bounds and all given back, so Spark applies every one of them itself.
That has to be asked for, frame by frame: Spark (4.1 to 4.3) keeps what one query pushed down and
reads it again for the next query of the same frame, also for the other branch of a join or union,
so a frame that is used twice silently lacks rows. The options ``queue``, ``since`` and ``until``
bound a read as well and are always right.
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

from redisq_ops.core.model.errors import BadInput

from .options import Options, parsed
from .reading import Reading
from .schemas import chosen, struct

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from .stream import HistoryStream

FORMAT = "redisq"


class RedisqDataSource(ds.DataSource):
    """The source as Spark asks for it."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def _options(self) -> Options:
        return parsed(dict(self.options))

    def schema(self) -> StructType:
        options = self._options()
        return struct(options.described, options.names)

    def reader(self, schema: StructType) -> ds.DataSourceReader:
        options = checked_batch(_narrowed(self._options(), schema))
        return PushingReader(options) if options.pushdown else Reader(options)

    def streamReader(self, schema: StructType) -> HistoryStream:
        from .stream import HistoryStream

        return HistoryStream(_narrowed(self._options(), schema))


def register(spark: SparkSession) -> None:
    """Make ``format("redisq")`` known to a session."""
    spark.dataSource.register(RedisqDataSource)


def _narrowed(options: Options, schema: StructType) -> Options:
    """With the columns of the schema that Spark has settled on, the user's or ours."""
    return options.choosing(chosen(options.described, schema))


class Reader(ds.DataSourceReader):
    """One read of one table."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.nothing = False
        """the filters exclude every queue that was asked for"""

    def partitions(self) -> Sequence[ds.InputPartition]:
        parts = [] if self.nothing else Reading(self.options).plan()
        return [ds.InputPartition(part) for part in parts]

    def read(self, partition: ds.InputPartition) -> Iterator[pa.RecordBatch]:
        if TaskContext.get() is not None:
            _settled(os.getpid())
        # Without partitions Spark makes one of its own, of nothing.
        if partition.value is not None:
            yield from Reading(self.options).read(partition.value)


@cache
def _settled(pid: int) -> None:
    """Once in a worker: what is loaded by now stays, and isn't looked through for garbage again.

    Spark's workers do that after each task, for longer than the rest of what a task costs them.
    """
    gc.freeze()


class PushingReader(Reader):
    """The same, with bounds from the filters of the one query it is for. Spark refuses it while
    ``spark.sql.python.filterPushdown.enabled`` is off."""

    def pushFilters(self, filters: list[ds.Filter]) -> Iterable[ds.Filter]:
        for filter in filters:
            self._learn(filter)
        return filters

    def _learn(self, filter: ds.Filter) -> None:
        column: tuple[str, ...] = getattr(filter, "attribute", ())
        value = getattr(filter, "value", None)
        if column == ("queue",):
            if isinstance(filter, (ds.EqualTo, ds.EqualNullSafe)) and isinstance(value, str):
                self._only((value,))
            elif isinstance(filter, ds.In) and all(isinstance(v, str) for v in filter.value):
                self._only(filter.value)
        elif column == (self.options.described.time,):
            ms = _ms(value)
            if ms is None:
                return
            if isinstance(filter, (ds.GreaterThan, ds.GreaterThanOrEqual, ds.EqualTo)):
                low = self.options.since_ms
                self.options = replace(self.options, since_ms=ms if low is None else max(low, ms))
            if isinstance(filter, (ds.LessThan, ds.LessThanOrEqual, ds.EqualTo)):
                high = self.options.until_ms
                top = ms + 1  # a value between two milliseconds is behind the first of them
                self.options = replace(
                    self.options, until_ms=top if high is None else min(high, top)
                )

    def _only(self, names: Sequence[str]) -> None:
        """Read these queues only; names that are none match nothing, and are no error."""
        known = set(self.options.queue) or set(_registered(self.options))
        wanted = tuple(name for name in dict.fromkeys(names) if name in known)
        if wanted:
            self.options = replace(self.options, queue=wanted)
        else:
            self.nothing = True


def _registered(options: Options) -> list[str]:
    from redisq_ops.core.engine.registry import all_queues

    return [entry.name for entry in Reading(options).ask(lambda: all_queues(options.prefix))]


def _ms(value: Any) -> int | None:
    """A literal of a filter on time, in whole milliseconds rounded down; UTC where it says none."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000 // 1)
    if isinstance(value, date):
        return int(datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp() * 1000)
    return None


def checked_batch(options: Options) -> Options:
    """Refuse what only a stream has."""
    if options.max_events is not None or options.start == "latest":
        raise BadInput("options maxEventsPerTrigger and startingOffsets are for a stream")
    return options


def checked_stream(options: Options) -> Options:
    """Refuse a stream of anything but the history."""
    if options.table != "history":
        raise BadInput(f"only the table history is read as a stream, not {options.table}")
    for name, value in (("since", options.since_ms), ("until", options.until_ms)):
        if value is not None:
            raise BadInput(
                f"option {name} is not for a stream: startingOffsets says where it begins"
            )
    if options.marks is not None:
        raise BadInput("option marks is not for a stream: it has a checkpoint")
    return options
