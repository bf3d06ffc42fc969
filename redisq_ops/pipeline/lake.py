"""Exports of tables to a lake of Parquet files (see `lake_table`), each row once, and reads.

A run of a table with growing times (`APPEND_TABLES`) continues where the last run ended, queue by
queue. A run of any other table is a snapshot, and replaces an earlier one of the same day. Runs of
the history also keep a mark per shard (see `history_ranges`), from which the next run tells which
events were trimmed in between.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.redis.operation import together

from .connection import Server, run_retrying
from .history_ranges import Mark, encode_marks, read_mark
from .job_errors import translating
from .lake_table import LakeTable, Manifest, day_of
from .options import Options, table_named
from .tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APPEND_TABLES: Mapping[str, str] = {"history": "at", "dead": "since_at"}
"""tables that a run continues, and their time column"""
MARGIN_MS = 1000
"""younger rows are left for the next run: another shard's clock may be behind"""
SNAPSHOT_TIME = "exported_at"
"""a column that snapshots have in addition to their table's columns"""
ROWS_PER_FILE = 1_000_000

ReadTable = Callable[..., "DataFrame"]
"""a function that reads a table: ``read(name, **options)``"""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of a run."""

    run: str
    table: str
    rows: int
    files: int
    bytes: int
    corrupt: int
    since_ms: int | None
    until_ms: int
    recovered: int
    """earlier interrupted runs that were finished first"""


def export(
    server: Server,
    read: ReadTable,
    name: str,
    lake: Path,
    *,
    queues: Sequence[str] = (),
    until_ms: int | None = None,
    **options: str,
) -> ExportResult:
    """Export a table to a lake; rows exported earlier stay unchanged.

    ``until_ms``: later rows are left for the next run (default: a second ago). ``options`` are
    options of the data source.
    """
    lake_table = LakeTable(lake, table_named(name))
    deployment, ask = server.deployment(), partial(run_retrying, server.client)
    names = queues or [queue.name for queue in ask(deployment.queues)]
    now_ms = ask(server_ms)
    until_ms = now_ms - MARGIN_MS if until_ms is None else until_ms
    if queues:
        options["queue"] = ",".join(queues)
    if name != "history":
        options.pop("onTrim", None)
    with lake_table.locked():
        recovered = lake_table.finish_interrupted()
        stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
        run_id = f"{stamp}{now_ms % 1000:03}Z-{secrets.token_hex(2)}"
        since_ms = None
        marks: dict[str, Mark] = {}
        known_marks = lake_table.marks(names)
        if name in APPEND_TABLES:
            ends = lake_table.bounds()
            starts = {queue: ends.get(queue, 0) for queue in names}
            since_ms = min(starts.values(), default=0) or None
            if since_ms is not None:
                options["since"] = str(since_ms)
            bounds = {queue: (low, until_ms) for queue, low in starts.items() if low < until_ms}
            if name == "history":
                marks = ask(partial(_marks, deployment.prefix, list(bounds), until_ms))
                if known_marks:
                    options["marks"] = encode_marks(known_marks)
            # The data source's bounds are both inclusive.
            rows = read(name, **options, until=str(until_ms - 1))
            rows = _new_rows(rows, APPEND_TABLES[name], starts, until_ms)
            replaces = []
        else:
            bounds = {}
            day = day_of(now_ms)
            rows = _snapshot_rows(read(name, **options), day, now_ms)
            replaces = lake_table.files_of_day(day, names)
        _write(rows, lake_table.staging / run_id)
        files = lake_table.staged_files(run_id)
        manifest = Manifest(run_id, name, "placing", now_ms, bounds, files, replaces, marks)
        if files or replaces or marks.keys() - known_marks.keys():
            lake_table.write_manifest(manifest)
            lake_table.place_files(manifest)
        lake_table.merge_manifests()
        shutil.rmtree(lake_table.staging, ignore_errors=True)
    return ExportResult(
        run_id,
        name,
        manifest.rows,
        len(files),
        manifest.bytes,
        manifest.corrupt,
        since_ms,
        until_ms,
        recovered,
    )


def check_lake(folder: Path, *, writes: bool = False) -> None:
    """Raise `SchemaTooNew` if a newer release wrote a table of the lake, and `BadInput` if there is
    no lake, or no right to use it. ``writes``: a run will write to it, or make it."""
    if not writes and not folder.is_dir():
        raise BadInput(f"no lake at {folder}")
    if writes:
        made = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        if not os.access(made, os.W_OK | os.X_OK):
            raise BadInput(f"no right to write to the folder {made}")
    for table in TABLES.values():
        LakeTable(folder, table).runs()


def read_table(spark: SparkSession, folder: Path, table: str) -> DataFrame:
    """A table of a lake, with the ``day`` of its folders; empty if the lake does not have it."""
    from pyspark.sql import functions as F

    from .schemas import struct

    schema = struct(TABLES[table])
    path = (folder / table).absolute()  # a Connect server has another working directory
    if path.is_dir():
        # The first option makes Spark read again; a frame that it persisted may lack newer files.
        options = {"command": secrets.token_hex(8), "parquet.page.verify-checksum.enabled": "true"}
        rows = spark.read.schema(schema).options(**options).parquet(str(path))
    else:
        rows = spark.createDataFrame([], schema)
    # Spark finds the column in the folders' names, if there are any.
    return rows if "day" in rows.columns else rows.withColumn("day", F.lit(None).cast("date"))


async def _marks(prefix: str, names: Sequence[str], until_ms: int) -> dict[str, Mark]:
    """The marks of these queues' histories at a time."""
    from .read_partitions import open_queues

    if not names:
        return {}
    shard_queues = {
        f"{opened.queue.name}/{k}": shard_queue
        for opened in await open_queues(Options("history", tuple(names), prefix=prefix))
        for k, shard_queue in enumerate(opened.queue.shard_queues)
    }
    marks = await together(
        read_mark(shard_queue, until_ms) for shard_queue in shard_queues.values()
    )
    return dict(zip(shard_queues, marks, strict=True))


def _new_rows(frame: DataFrame, column: str, starts: Mapping[str, int], until_ms: int) -> DataFrame:
    """The rows of each queue from its start on.

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
    return frame.where(in_range | F.coalesce(without_time, F.lit(False))).withColumn(
        "day", F.when(F.col("_corrupt").isNull(), F.date_format(column, "yyyy-MM-dd"))
    )


def _snapshot_rows(frame: DataFrame, day: str, now_ms: int) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.withColumn(SNAPSHOT_TIME, F.timestamp_millis(F.lit(now_ms))).withColumn(
        "day", F.when(F.col("_corrupt").isNull(), F.lit(day))
    )


def _write(frame: DataFrame, path: Path) -> None:
    writer = frame.write.partitionBy("day", "queue").option("maxRecordsPerFile", ROWS_PER_FILE)
    translating(lambda: writer.parquet(path.as_uri()))
