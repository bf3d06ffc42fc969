"""A lake of Parquet files: what was in the queues, run by run, each row once.

``LAKE/TABLE/day=YYYY-MM-DD/queue=…/RUN-00000.parquet``; beside it ``_manifest/RUN.json``, a file
for each run: which files are its, of which rows, from when to when. Names that begin with ``_`` are
no rows to any reader.

Tables with times that only grow (`APPENDED`) are taken up where the last run ended, queue by queue.
All others are what there is at the moment: a later run of the same day takes the place of the
earlier one. Of a history each run also keeps a mark for every shard (see `ranges`), so that the
next one misses what was trimmed between the two.

A run writes its files aside, then its manifest, and only then puts the files where they belong. So
one that was interrupted before its manifest was there left nothing (the next one clears it away),
and one that was interrupted later is finished by the next.
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

from .options import Options
from .ranges import Mark, encoded, mark
from .tables import TABLES, Table
from .writing import Server, ran

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 1
APPENDED: Mapping[str, str] = {"history": "at", "dead": "since_at"}
"""tables a run goes on with, and the column of their time"""
MARGIN_MS = 1000
"""what is younger stays for the next run: another shard's clock may be behind"""
ROWS_A_FILE = 1_000_000
_NOWHEN = "__HIVE_DEFAULT_PARTITION__"
"""how Spark calls the day of a row that has none"""

Read = Callable[..., "DataFrame"]
"""gives a table: ``read(name, **options)``"""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a run: where it belongs, below the table's folder, and how much is in it."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One run. ``bounds``: of each queue the times (ms) it has rows of, the second not included;
    ``marks``: of a history where it ended, by queue/shard."""

    run: str
    table: str
    state: Literal["placing", "done"]
    at_ms: int
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    files: Sequence[File] = ()
    replaces: Sequence[str] = ()
    """files of earlier runs whose place it takes"""
    marks: Mapping[str, Mark] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files if not file.path.startswith("_"))

    @property
    def corrupt(self) -> int:
        """Rows that could not be read, kept aside."""
        return sum(file.rows for file in self.files if file.path.startswith("_"))

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


class Shelf:
    """One table's folder in a lake."""

    def __init__(self, lake: Path, table: Table) -> None:
        self.table = table
        self.path = (lake / table.name).absolute()
        self.manifests = self.path / "_manifest"
        self.staging = self.path / "_staging"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else's while a run lasts; a run that was killed doesn't hold on to it."""
        self.manifests.mkdir(parents=True, exist_ok=True)
        # Neither this nor a manifest goes behind a link: a lake may be several people's.
        way = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(self.manifests / ".lock", way, 0o666), "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise Refused(f"{self.path}: another export of it is running") from error
            yield

    def runs(self) -> list[Manifest]:
        """All runs, the oldest first."""
        return sorted(map(_manifest, self.manifests.glob("*.json")), key=lambda each: each.run)

    def recover(self) -> int:
        """Finish runs that were interrupted while they placed their files, clear away those that
        were earlier; how many were finished."""
        unfinished = [each for each in self.runs() if each.state == "placing"]
        for each in unfinished:
            self.place(each)
        if self.staging.exists():
            shutil.rmtree(self.staging)
        return len(unfinished)

    def place(self, manifest: Manifest) -> None:
        """Put a run's files where they belong; again, if need be, from wherever it stopped."""
        for file in manifest.files:
            target = self.path / file.path
            source = self.staging / manifest.run / "_placed" / target.name
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.replace(target)
            elif not target.exists():
                raise Refused(f"{target}: the file is gone, and its run isn't whole without it")
        for name in manifest.replaces:
            (self.path / name).unlink(missing_ok=True)
        self.write(replace(manifest, state="done"))

    def write(self, manifest: Manifest) -> None:
        part = self.manifests / f".{manifest.run}.{os.getpid()}"
        part.unlink(missing_ok=True)
        with part.open("x", encoding="utf-8") as file:
            json.dump({"redisq_lake": FORMAT, **asdict(manifest)}, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.manifests / f"{manifest.run}.json")

    def staged(self, run: str) -> list[File]:
        """What Spark wrote for a run, given the names it will have. Counts are the files' own."""
        import pyarrow.parquet as pq

        root = self.staging / run
        ready = root / "_placed"
        ready.mkdir(parents=True, exist_ok=True)
        files = []
        for k, part in enumerate(sorted(root.glob("day=*/queue=*/*.parquet"))):
            day, queue = part.parent.parent.name, part.parent.name
            rows = pq.read_metadata(part).num_rows
            name = f"{run}-{k:05}.parquet"
            folder = f"_corrupt/{queue}" if day == f"day={_NOWHEN}" else f"{day}/{queue}"
            files.append(File(f"{folder}/{name}", rows, part.stat().st_size))
            part.replace(ready / name)
        return files

    def bounds(self) -> dict[str, int]:
        """Up to when each queue is in the lake."""
        found: dict[str, int] = {}
        for each in self.runs():
            for queue, (_, until) in each.bounds.items():
                found[queue] = max(found.get(queue, 0), until)
        return found

    def marks(self, queues: Collection[str]) -> dict[str, Mark]:
        """Where the history of each shard of these queues ended when it was read last."""
        found: dict[str, Mark] = {}
        for each in self.runs():
            found |= each.marks
        return {shard: at for shard, at in found.items() if shard.rpartition("/")[0] in queues}


def _manifest(path: Path) -> Manifest:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        version = row.pop("redisq_lake")
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise BadInput(f"{path}: not to be read as a manifest") from error
    if version != FORMAT:
        raise SchemaTooNew(f"{path}: format {version}, this release knows {FORMAT}")
    row["files"] = [File(**file) for file in row["files"]]
    row["bounds"] = {queue: (low, high) for queue, (low, high) in row["bounds"].items()}
    return Manifest(**row)


@dataclass(frozen=True, slots=True)
class Exported:
    """What a run did."""

    run: str
    table: str
    rows: int
    files: int
    bytes: int
    corrupt: int
    since_ms: int | None
    until_ms: int
    recovered: int
    """earlier runs that were interrupted and are finished now"""


def export(
    spark: SparkSession,
    server: Server,
    read: Read,
    name: str,
    lake: Path,
    *,
    queues: Sequence[str] = (),
    until_ms: int | None = None,
    **options: str,
) -> Exported:
    """Take a table into a lake; what is there of it already stays as it is.

    ``until_ms``: rows from this moment on are for the next run (a second ago, unless told).
    ``options`` are the source's; what means nothing for the table is left out.
    """
    if name not in TABLES:
        raise BadInput(f"no table {name!r}: there are {', '.join(TABLES)}")
    shelf = Shelf(lake, TABLES[name])
    client, deployment = server.client, server.deployment()
    there = queues or [queue.name for queue in run(client, deployment.queues())]
    now_ms = run(client, server_ms())
    until_ms = now_ms - MARGIN_MS if until_ms is None else until_ms
    if queues:
        options["queue"] = ",".join(queues)
    if name != "history":
        options.pop("onTrim", None)
    with shelf.locked():
        recovered = shelf.recover()
        stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
        run_id = f"{stamp}{now_ms % 1000:03}Z-{secrets.token_hex(2)}"
        since_ms = None
        marks: dict[str, Mark] = {}
        before = shelf.marks(there)
        if name in APPENDED:
            known = shelf.bounds()
            begun = {queue: known.get(queue, 0) for queue in there}
            since_ms = min(begun.values(), default=0) or None
            if since_ms is not None:
                options["since"] = str(since_ms)
            bounds = {queue: (low, until_ms) for queue, low in begun.items() if low < until_ms}
            if name == "history":
                marks = run(client, _marks(deployment.prefix, list(bounds), until_ms))
                if before:
                    options["marks"] = encoded(before)
            # The source's bounds are both included.
            frame = _since(read(name, **options, until=str(until_ms - 1)), APPENDED[name], begun,
                           until_ms)  # fmt: skip
            _write(frame, shelf.staging / run_id)
            files, replaces = shelf.staged(run_id), []
        else:
            bounds = {}
            day = _day(now_ms)
            _write(_today(read(name, **options), day, now_ms), shelf.staging / run_id)
            files, replaces = shelf.staged(run_id), _earlier(shelf, day, there)
        done = Manifest(run_id, name, "placing", now_ms, bounds, files, replaces, marks)
        if files or replaces or marks.keys() - before.keys():
            shelf.write(done)
            shelf.place(done)
        shutil.rmtree(shelf.staging, ignore_errors=True)
    return Exported(
        run_id, name, done.rows, len(files), done.bytes, done.corrupt, since_ms, until_ms, recovered
    )


async def _marks(prefix: str, names: Sequence[str], until_ms: int) -> dict[str, Mark]:
    """The marks of a read of these queues' histories up to a moment."""
    from .partitions import queues

    if not names:
        return {}
    found = await queues(Options("history", tuple(names), prefix=prefix))
    leaves = {f"{each.queue.name}/{k}": leaf for each in found for k, leaf in
              enumerate(each.queue.shard_queues)}  # fmt: skip
    marks = await together(mark(leaf, until_ms) for leaf in leaves.values())
    return dict(zip(leaves, marks, strict=True))


def _since(frame: DataFrame, column: str, begun: Mapping[str, int], until_ms: int) -> DataFrame:
    """Of each queue what is at or after its bound; of events that don't say when by their ids, and
    every row that can't be read and has no time at all."""
    from pyspark.sql import functions as F

    at_ms = F.unix_millis(column)
    timeless = at_ms.isNull() & F.col("_corrupt").isNotNull()
    if "event_id" in frame.columns:
        written_ms = F.expr("try_cast(substring_index(event_id, '-', 1) as bigint)")
        at_ms = F.coalesce(at_ms, written_ms)
        timeless = F.col("event") == "gap"
    low = F.lit(0)
    if any(begun.values()):
        words = [F.lit(word) for queue, ms in begun.items() for word in (queue, ms)]
        low = F.coalesce(F.create_map(*words)[F.col("queue")], F.lit(0))
    meant = (at_ms >= low) & (at_ms < until_ms)
    return frame.where(meant | F.coalesce(timeless, F.lit(False))).withColumn(
        "day", F.when(F.col("_corrupt").isNull(), F.date_format(column, "yyyy-MM-dd"))
    )


def _today(frame: DataFrame, day: str, now_ms: int) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.withColumn("exported_at", F.timestamp_millis(F.lit(now_ms))).withColumn(
        "day", F.when(F.col("_corrupt").isNull(), F.lit(day))
    )


def _day(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


def _earlier(shelf: Shelf, day: str, queues: Sequence[str]) -> list[str]:
    """Files of earlier runs of that day, of these queues."""
    found = []
    for each in shelf.runs():
        # Rows that could not be read have no day of their own.
        days = {f"day={day}"} | ({"_corrupt"} if _day(each.at_ms) == day else set())
        for file in each.files:
            folder, _, name = file.path.rpartition("/")
            of, _, queue = folder.partition("/")
            if of in days and unquote(queue.partition("=")[2]) in queues:
                found.append(f"{folder}/{name}")
    return found


def _write(frame: DataFrame, path: Path) -> None:
    writer = frame.write.partitionBy("day", "queue").option("maxRecordsPerFile", ROWS_A_FILE)
    ran(lambda: writer.parquet(path.as_uri()))
