"""A lake of Parquet files: exports of tables, each row once.

Files are ``LAKE/TABLE/day=YYYY-MM-DD/queue=…/RUN-00000.parquet``; next to them
``_manifest/RUN.json`` has, for each run, its files and the time range of its rows. Parquet readers
ignore names that begin with ``_``.

A run of a table with growing times (`APPEND_TABLES`) continues where the last run ended, queue by
queue. A run of any other table is a snapshot, and replaces an earlier one of the same day. Runs of
the history also keep a mark per shard (see `history_ranges`), by which the next run finds what was
trimmed in between.

A run writes its files to a staging folder, then its manifest, and only then moves the files to
their places. A run interrupted before its manifest left nothing; the next run deletes the staged
files. A run interrupted later is finished by the next. Manifests of older runs are merged, one for
each day.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.errors import BadInput, Refused, SchemaTooNew
from redisq_ops.core.redis.operation import run, together

from .atomic_json import write_json
from .connection import Server
from .history_ranges import Mark, encode_marks, read_mark
from .job_errors import translating
from .options import Options, table_named
from .tables import TABLES, TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 1
APPEND_TABLES: Mapping[str, str] = {"history": "at", "dead": "since_at"}
"""tables that a run continues, and their time column"""
MARGIN_MS = 1000
"""younger rows are left for the next run: another shard's clock may be behind"""
ROWS_PER_FILE = 1_000_000
RUNS_APART = 20
"""latest runs that keep a manifest of their own"""
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Spark's folder name for the day of a row without one"""

ReadTable = Callable[..., "DataFrame"]
"""a function that reads a table: ``read(name, **options)``"""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of a run: its place below the table's folder, and its size."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """A run. ``bounds``: by queue the time range of its rows in ms, the end exclusive; ``marks``:
    the end of a history by ``queue/shard``."""

    run: str
    table: str
    state: Literal["placing", "done"]
    at_ms: int
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    files: Sequence[LakeFile] = ()
    replaces: Sequence[str] = ()
    """files of earlier runs that it replaces"""
    marks: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files if not file.path.startswith("_"))

    @property
    def corrupt(self) -> int:
        """Rows that could not be read, in a folder of their own."""
        return sum(file.rows for file in self.files if file.path.startswith("_"))

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


class LakeTable:
    """A table's folder in a lake."""

    def __init__(self, lake: Path, table: TableDefinition) -> None:
        self.table = table
        self.path = (lake / table.name).absolute()
        self.manifests = self.path / "_manifest"
        self.staging = self.path / "_staging"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the table for a run; the lock of a killed run is released by the system."""
        self.manifests.mkdir(parents=True, exist_ok=True)
        # Follow no symbolic link, as for manifests: a lake may be shared by several users.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(self.manifests / ".lock", flags, 0o666), "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise Refused(f"{self.path}: another export of this table is running") from error
            yield

    def runs(self) -> list[Manifest]:
        """All runs, the oldest first."""
        return sorted(
            map(_manifest, self.manifests.glob("*.json")), key=lambda manifest: manifest.run
        )

    def finish_interrupted(self) -> int:
        """Finish runs that were interrupted while moving their files, and delete staged files of
        others.

        Returns the number of finished runs.
        """
        unfinished = [manifest for manifest in self.runs() if manifest.state == "placing"]
        for manifest in unfinished:
            self.place_files(manifest)
        if self.staging.exists():
            shutil.rmtree(self.staging)
        return len(unfinished)

    def place_files(self, manifest: Manifest) -> None:
        """Move a run's files to their places, from wherever an interrupted move stopped."""
        for file in manifest.files:
            target = self.path / file.path
            source = self.staging / manifest.run / "_placed" / target.name
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.replace(target)
            elif not target.exists():
                raise Refused(f"{target}: the file is gone, so its run can't be finished")
        for name in manifest.replaces:
            (self.path / name).unlink(missing_ok=True)
        self.write_manifest(replace(manifest, state="done"))

    def write_manifest(self, manifest: Manifest) -> None:
        document = {"redisq_lake": FORMAT, **asdict(manifest)}
        write_json(self.manifests / f"{manifest.run}.json", document)

    def merge_manifests(self) -> None:
        """Merge the manifests of the runs of each day into that of its last one, except those of
        the latest `RUNS_APART`; so their number grows with the days, not with the runs.

        A merged manifest lists only files that are still there. Killed on the way, it leaves some
        manifests whose content is in another one, too, until the next run merges them.
        """
        runs = self.runs()
        gone = {name for manifest in runs for name in manifest.replaces}
        days: dict[str, list[Manifest]] = {}
        for manifest in runs[:-RUNS_APART]:
            days.setdefault(_day(manifest.at_ms), []).append(manifest)
        for manifests in days.values():
            merged = _merged(manifests, gone)
            if merged != manifests[-1]:
                self.write_manifest(merged)
                for manifest in manifests[:-1]:
                    (self.manifests / f"{manifest.run}.json").unlink(missing_ok=True)

    def staged_files(self, run: str) -> list[LakeFile]:
        """The files that Spark wrote for a run, renamed to their final names, with row counts."""
        import pyarrow.parquet as pq

        root = self.staging / run
        ready = root / "_placed"
        ready.mkdir(parents=True, exist_ok=True)
        files = []
        for k, part in enumerate(sorted(root.glob("day=*/queue=*/*.parquet"))):
            day, queue = part.parent.parent.name, part.parent.name
            rows = pq.read_metadata(part).num_rows
            name = f"{run}-{k:05}.parquet"
            folder = f"_corrupt/{queue}" if day == f"day={_NULL_PARTITION}" else f"{day}/{queue}"
            files.append(LakeFile(f"{folder}/{name}", rows, part.stat().st_size))
            part.replace(ready / name)
        return files

    def bounds(self) -> dict[str, int]:
        """The end of each queue's exported time range, in ms."""
        found: dict[str, int] = {}
        for manifest in self.runs():
            for queue, (_, until) in manifest.bounds.items():
                found[queue] = max(found.get(queue, 0), until)
        return found

    def marks(self, queues: Collection[str]) -> dict[str, Mark]:
        """The mark of each shard of these queues in the latest run that has it."""
        found: dict[str, Mark] = {}
        for manifest in self.runs():
            found |= manifest.marks
        return {shard: at for shard, at in found.items() if shard.rpartition("/")[0] in queues}


def _merged(manifests: Sequence[Manifest], gone: Collection[str]) -> Manifest:
    """One manifest, under the name of the last run, for these in their order."""
    bounds: dict[str, tuple[int, int]] = {}
    marks: dict[str, Mark] = {}
    files: dict[str, LakeFile] = {}
    for manifest in manifests:
        marks |= manifest.marks
        files |= {file.path: file for file in manifest.files if file.path not in gone}
        for queue, (low, high) in manifest.bounds.items():
            first, last = bounds.get(queue, (low, high))
            bounds[queue] = (min(first, low), max(last, high))
    return replace(
        manifests[-1], bounds=bounds, marks=marks, files=list(files.values()), replaces=[]
    )


def _manifest(path: Path) -> Manifest:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        version = row.pop("redisq_lake")
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise BadInput(f"{path}: not a valid manifest") from error
    if version != FORMAT:
        raise SchemaTooNew(
            f"{path}: written in format {version}, this release reads format {FORMAT}"
        )
    row["files"] = [LakeFile(**file) for file in row["files"]]
    row["bounds"] = {queue: (low, high) for queue, (low, high) in row["bounds"].items()}
    return Manifest(**row)


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
    """Export a table to a lake; rows that are there already stay unchanged.

    ``until_ms``: later rows are left for the next run (default: a second ago). ``options`` are
    options of the data source.
    """
    lake_table = LakeTable(lake, table_named(name))
    client, deployment = server.client, server.deployment()
    names = queues or [queue.name for queue in run(client, deployment.queues())]
    now_ms = run(client, server_ms())
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
                marks = run(client, _marks(deployment.prefix, list(bounds), until_ms))
                if known_marks:
                    options["marks"] = encode_marks(known_marks)
            # The data source's bounds are both inclusive.
            rows = read(name, **options, until=str(until_ms - 1))
            rows = _new_rows(rows, APPEND_TABLES[name], starts, until_ms)
            replaces = []
        else:
            bounds = {}
            day = _day(now_ms)
            rows = _snapshot_rows(read(name, **options), day, now_ms)
            replaces = _replaced_files(lake_table, day, names)
        _write(rows, lake_table.staging / run_id)
        files = lake_table.staged_files(run_id)
        manifest = Manifest(run_id, name, "placing", now_ms, bounds, files, replaces, marks)
        if files or replaces or marks.keys() - known_marks.keys():
            lake_table.write_manifest(manifest)
            lake_table.place_files(manifest)
        lake_table.merge_manifests()
        shutil.rmtree(lake_table.staging, ignore_errors=True)
    return ExportResult(
        run_id, name, manifest.rows, len(files), manifest.bytes, manifest.corrupt, since_ms,
        until_ms, recovered,
    )  # fmt: skip


def check_lake(folder: Path) -> None:
    """Raise `BadInput` if there is no lake, `SchemaTooNew` if a newer release wrote to it."""
    if not folder.is_dir():
        raise BadInput(f"no lake at {folder}")
    for table in TABLES.values():
        LakeTable(folder, table).runs()


def read_table(spark: SparkSession, folder: Path, table: str) -> DataFrame:
    """A table of a lake, with the ``day`` of its folders; empty if the lake does not have it."""
    from pyspark.sql import functions as F

    from .schemas import struct

    schema = struct(TABLES[table])
    path = (folder / table).absolute()  # a Connect server has another working directory
    if path.is_dir():
        rows = spark.read.schema(schema).parquet(str(path))
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

    return frame.withColumn("exported_at", F.timestamp_millis(F.lit(now_ms))).withColumn(
        "day", F.when(F.col("_corrupt").isNull(), F.lit(day))
    )


def _day(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


def _replaced_files(lake_table: LakeTable, day: str, queues: Sequence[str]) -> list[str]:
    """Files of the same day's earlier runs of these queues."""
    found = []
    for manifest in lake_table.runs():
        # Unreadable rows have no day.
        days = {f"day={day}"} | ({"_corrupt"} if _day(manifest.at_ms) == day else set())
        for file in manifest.files:
            folder, _, name = file.path.rpartition("/")
            day_folder, _, queue = folder.partition("/")
            if day_folder in days and unquote(queue.partition("=")[2]) in queues:
                found.append(f"{folder}/{name}")
    return found


def _write(frame: DataFrame, path: Path) -> None:
    writer = frame.write.partitionBy("day", "queue").option("maxRecordsPerFile", ROWS_PER_FILE)
    translating(lambda: writer.parquet(path.as_uri()))
