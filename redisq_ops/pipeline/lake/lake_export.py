"""Exports of tables to a lake of Delta tables (see `lake_table`), each row once, and reads.

A run of a table with growing times (`APPEND_TABLES`) continues where the last run ended, queue by
queue. A run of any other table is a snapshot, and replaces an earlier one of the same day. Runs of
the history also keep a mark per shard (see `history_ranges`), from which the next run tells which
events were trimmed in between.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.redis.operation import together

from ..source.arrow_batch import make_batch
from ..source.connection import Server, run_retrying
from ..source.history_ranges import encode_marks, read_mark
from ..source.options import Options, listed, table_named
from ..source.schemas import arrow
from ..source.tables import TABLES
from .lake_table import (
    APPEND_TABLES,
    SNAPSHOT_TIME,
    Lake,
    LakeTable,
    Overtaken,
    day_of,
    delta_errors,
    moment_text,
    queue_ends,
    row_count,
    shard_marks,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARGIN_MS = 1000
"""younger rows are left for the next run: another shard's clock may be behind"""
_ATTEMPTS = 3
"""attempts of a run whose queues another run exports at the same time"""

ReadTable = Callable[..., "DataFrame"]
"""a function that reads a table: ``read(name, **options)``"""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of a run."""

    run: str
    table: str
    version: int
    """the table's version with its rows"""
    rows: int
    files: int
    bytes: int
    corrupt: int
    """rows that could not be read, not among ``rows``"""
    since_ms: int | None
    until_ms: int


def export(
    server: Server,
    read: ReadTable,
    name: str,
    lake: Lake,
    *,
    queues: Sequence[str] = (),
    until_ms: int | None = None,
    **options: str,
) -> ExportResult:
    """Export a table to a lake; rows exported earlier stay unchanged.

    ``until_ms``: later rows are left for the
    next run (default: a second ago). ``options`` are options of the data source.
    """
    take = partial(_export, server, read, LakeTable(lake, table_named(name)), queues, until_ms)
    for _ in range(_ATTEMPTS - 1):
        with suppress(Overtaken):
            return take(options)
    return take(options)


def _export(
    server: Server,
    read: ReadTable,
    lake_table: LakeTable,
    queues: Sequence[str],
    until_ms: int | None,
    given: Mapping[str, str],
) -> ExportResult:
    name, options = lake_table.definition.name, dict(given)
    deployment, ask = server.deployment(), partial(run_retrying, server.client)
    names = queues or [queue.name for queue in ask(deployment.queues)]
    now_ms = ask(server_ms)
    until_ms = now_ms - MARGIN_MS if until_ms is None else until_ms
    if queues:
        options["queue"] = listed(queues)
    if name != "history":
        options.pop("onTrim", None)
    at = datetime.fromtimestamp(now_ms / 1000, UTC)
    run_id = f"{at:%Y%m%dT%H%M%S}{now_ms % 1000:03}Z-{secrets.token_hex(2)}"
    table = lake_table.created()
    starts = queue_ends(table, names)
    since_ms, marks, new_shards = None, {}, False
    if name in APPEND_TABLES:
        since_ms = min((starts.get(queue, 0) for queue in names), default=0) or None
        if since_ms is not None:
            options["since"] = str(since_ms)
        ends = {queue: until_ms for queue in names if starts.get(queue, 0) < until_ms}
        if name == "history":
            shards = ask(partial(_shards, deployment.prefix, names))
            known = shard_marks(table, shards)
            read_to = [s for s in shards if s.rpartition("/")[0] in ends]
            found = ask(lambda: together(read_mark(shards[s], until_ms) for s in read_to))
            marks = dict(zip(read_to, found, strict=True))
            new_shards = bool(marks.keys() - known.keys())
            if known:
                options["marks"] = encode_marks(known)
        # The data source's bounds are both inclusive.
        rows = read(name, **options, until=str(until_ms - 1))
        rows = _new_rows(rows, APPEND_TABLES[name], starts, until_ms, day_of(now_ms))
    else:
        ends = dict.fromkeys(names, now_ms)
        rows = _snapshot_rows(read(name, **options), now_ms)
    files, version = lake_table.write(rows), table.version()
    if files or new_shards or name not in APPEND_TABLES:
        starts = {queue: ms for queue, ms in starts.items() if queue in ends}
        version = lake_table.commit(run_id, now_ms, files, starts, ends, marks)
    corrupt = sum(file.corrupt for file in files)
    written = sum(file.rows for file in files) - corrupt
    size = sum(file.bytes for file in files)
    return ExportResult(
        run_id, name, version, written, len(files), size, corrupt, since_ms, until_ms
    )


def check_lake(lake: Lake, *, writes: bool = False) -> None:
    """Raise `SchemaTooNew` if a newer program wrote a table of the lake, and `BadInput` if there is
    no lake, or no right to use it. ``writes``: a run will write to it, or make it."""
    if writes and "://" not in lake.place:
        folder = Path(lake.place).absolute()
        made = next(each for each in (folder, *folder.parents) if each.exists())
        if not os.access(made, os.W_OK | os.X_OK):
            raise BadInput(f"no right to write to the folder {made}")
    tables = [LakeTable(lake, definition).opened() for definition in TABLES.values()]
    if not writes and all(table is None for table in tables):
        then = "" if lake.as_of_ms is None else f" at {moment_text(lake.as_of_ms)}"
        raise BadInput(
            f"no lake at {lake.place}{then}: it has none of the tables {', '.join(TABLES)}"
        )


def lake_rows(lake: Lake, tables: Sequence[str]) -> int:
    """The rows of these tables of a lake."""
    found = (LakeTable(lake, TABLES[name]).opened() for name in tables)
    return sum(row_count(table) for table in found if table is not None)


def lake_queues(lake: Lake) -> list[str]:
    """The queues whose history or dead letters are in a lake, by name."""
    found = set[str]()
    for name in ("history", "dead"):
        lake_table = LakeTable(lake, TABLES[name])
        if (table := lake_table.opened()) is None:
            continue
        with delta_errors(lake_table.uri):
            for batch in table.to_pyarrow_dataset().scanner(["queue"]).to_batches():
                found.update(batch["queue"].unique().to_pylist())
    return sorted(found)


def read_rows(
    lake: Lake,
    name: str,
    columns: Sequence[str],
    queues: Sequence[str],
    since_ms: int | None,
    until_ms: int | None,
    most_rows: int,
    most_bytes: int,
) -> pa.Table | None:
    """Rows of a table of a lake in this process's memory; None if they are more.

    ``queues``: empty: all. Without ``since_ms`` and ``until_ms``, rows without a time are included.
    """
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    lake_table, schema = LakeTable(lake, TABLES[name]), arrow(TABLES[name], columns)
    table = lake_table.opened()
    if table is None:
        return schema.empty_table()
    wanted = [pc.field("queue").isin(list(queues))] if queues else []
    at = pc.field(TABLES[name].time or "")
    if since_ms is not None:
        wanted += [at >= _moment(since_ms), pc.field("day") >= _moment(since_ms).date()]
    if until_ms is not None:
        wanted += [at < _moment(until_ms + 1), pc.field("day") <= _moment(until_ms).date()]
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    with delta_errors(lake_table.uri):
        found = table.to_pyarrow_dataset()
        scanned = found.scanner(
            [each for each in columns if each in found.schema.names],
            filter=reduce(and_, wanted) if wanted else None,
            fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True),
        )
        for read in scanned.to_batches():
            named = {each: read[each] for each in read.schema.names}
            batch = make_batch(named, read.num_rows, schema)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > most_rows or size > most_bytes:
                return None
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def read_table(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    """A table of a lake, with its ``day``; empty if the lake does not have it."""
    from pyspark.sql.types import DateType, TimestampType

    from ..source.schemas import struct

    schema = struct(TABLES[name])
    if name not in APPEND_TABLES:
        schema = schema.add(SNAPSHOT_TIME, TimestampType())
    schema = schema.add("day", DateType())
    lake_table = LakeTable(lake, TABLES[name])
    table = lake_table.opened()
    paths = [] if table is None else lake_table.spark_paths(table)
    if not paths:
        return spark.createDataFrame([], schema)
    checked = spark.read.option("parquet.page.verify-checksum.enabled", "true")
    return checked.option("basePath", lake_table.spark_root).schema(schema).parquet(*paths)


async def _shards(prefix: str, names: Sequence[str]) -> dict[str, Queue[Any]]:
    """The shards of these queues by ``queue/shard``."""
    from ..source.read_partitions import open_queues

    if not names:
        return {}
    return {
        f"{opened.queue.name}/{k}": shard_queue
        for opened in await open_queues(Options("history", tuple(names), prefix=prefix))
        for k, shard_queue in enumerate(opened.queue.shard_queues)
    }


def _new_rows(
    frame: DataFrame, column: str, starts: Mapping[str, int], until_ms: int, today: str
) -> DataFrame:
    """The rows of each queue from its start on, and their ``day``; today of unreadable rows.

    An event without a time counts by its id; unreadable rows without any time are always included.
    """
    from pyspark.sql import functions as F

    at_ms = F.unix_millis(column)
    without_time = at_ms.isNull() & F.col("_corrupt").isNotNull()
    if "event_id" in frame.columns:
        id_ms = F.expr("try_cast(substring_index(event_id, '-', 1) as bigint)")
        at_ms = F.coalesce(at_ms, id_ms)
        without_time = F.col("event") == "gap"
    low = F.lit(0)
    if any(starts.values()):
        words = [F.lit(word) for queue, ms in starts.items() for word in (queue, ms)]
        low = F.coalesce(F.create_map(*words)[F.col("queue")], F.lit(0))
    in_range = (at_ms >= low) & (at_ms < until_ms)
    day = F.when(F.col("_corrupt").isNull(), F.date_format(column, "yyyy-MM-dd"))
    return frame.where(in_range | F.coalesce(without_time, F.lit(False))).withColumn(
        "day", F.coalesce(day, F.lit(today))
    )


def _snapshot_rows(frame: DataFrame, now_ms: int) -> DataFrame:
    from pyspark.sql import functions as F

    at = F.timestamp_millis(F.lit(now_ms))
    return frame.withColumns({SNAPSHOT_TIME: at, "day": F.lit(day_of(now_ms))})
