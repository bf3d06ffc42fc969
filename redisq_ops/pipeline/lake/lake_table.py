"""A table of a lake: a Delta table, which delta-rs reads and changes.

Spark's tasks write the Parquet files, and one commit adds them. The commit also has, as Delta's
application transactions, where each queue's rows end and where each shard's history ended: a run
that is killed before its commit changed nothing, the next run continues behind it, and of two runs
over the same rows the second commit fails.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from redisq_ops.core.model.errors import BadInput, RedisqError, Refused, SchemaTooNew, Unreachable

from ..source.history_ranges import Mark, id_key
from ..source.job_errors import message_first, translating
from ..source.schemas import arrow
from ..source.tables import TableDefinition

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

# delta-rs would write warnings of its own to standard error.
os.environ.setdefault("RUST_LOG", "off")

APPEND_TABLES: Mapping[str, str] = {"history": "at", "dead": "since_at"}
"""tables that a run continues, and their time column"""
SNAPSHOT_TIME = "exported_at"
"""a column that the other tables, of snapshots, have in addition"""
_BYTES_PER_ROW = 20
"""estimated size of a row in a file whose writer did not count its rows"""
_COMMITS = 5
"""attempts of a commit, if others merge or delete files meanwhile"""
_BOUNDED = {"connect_timeout": "5s", "timeout": "30s", "max_retries": "3", "retry_timeout": "60s"}
"""how long an object store may stall; the default of delta-rs is three minutes"""
_CREDENTIALS = ("AWS_", "AZURE_", "GOOGLE_")
"""environment variables that delta-rs knows"""
_END, _MARK_MS, _MARK_NUMBER = "redisq-end:", "redisq-mark-ms:", "redisq-mark-number:"
"""application transactions: the end of a queue's rows in ms; the two parts of a shard's mark"""
_WHOLE = -1
"""the first part of a mark that is a number of events"""
_MOST = 2**63 - 1


class Overtaken(Refused):
    """Another run exported the same queues meanwhile."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file that a task wrote; its rows are of one day and queue. ``corrupt``: its rows that could
    not be read."""

    path: str
    day: str
    queue: str
    rows: int
    corrupt: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What was done to a table's files."""

    merged: int = 0
    """small files that were merged"""
    into: int = 0
    """files that replaced them"""
    deleted: int = 0
    """files of days that were too old"""


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake in a folder of this machine, or at the URL of an object store."""

    place: str
    as_of_ms: int | None = None
    """it is read as it was then; None: as it is"""


class LakeTable:
    """A table of a lake."""

    def __init__(self, lake: Lake, definition: TableDefinition) -> None:
        self.definition = definition
        self.is_local = "://" not in lake.place
        name, place = definition.name, lake.place
        self.uri = (
            str(Path(place, name).absolute()) if self.is_local else f"{place.rstrip('/')}/{name}"
        )
        self._as_of_ms = lake.as_of_ms
        given = {name: text for name, text in os.environ.items() if name.startswith(_CREDENTIALS)}
        self._storage = None if self.is_local else _BOUNDED | given
        self.columns = arrow(definition)
        if name not in APPEND_TABLES:
            self.columns = self.columns.append(pa.field(SNAPSHOT_TIME, pa.timestamp("us", "UTC")))

    def opened(self) -> DeltaTable | None:
        """The snapshot of the lake's time, else the latest; None if there is no such table."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with delta_errors(self.uri):
            try:
                found = DeltaTable(self.uri, storage_options=self._storage)
            except TableNotFoundError:
                made = self.is_local and os.path.lexists(self.uri) and os.listdir(self.uri)
                if made and made != ["_delta_log"]:  # an empty log: another run is making it
                    raise BadInput(f"{self.uri}: not a Delta table; move it elsewhere") from None
                return None
            if self._as_of_ms is not None:
                version = self._version_at(found, self._as_of_ms)
                if version is None:
                    return None
                found.load_as_version(version)
            self._check(found)
        return found

    def _version_at(self, found: DeltaTable, at_ms: int) -> int | None:
        """The version of a time, by the commits' own times; None if the table was made later."""
        # delta-rs would take the times of the files, and its first version for any earlier time.
        commits = found.history()
        known: list[int] = [each["version"] for each in commits if each["timestamp"] <= at_ms]
        if known:
            return max(known)
        first = min(commits, key=lambda each: each["version"])
        if first["version"]:
            raise BadInput(f"{self.uri}: its log begins {moment_text(first['timestamp'])}")
        return None

    def _check(self, found: DeltaTable) -> None:
        """Raise `SchemaTooNew` for a table that this release would read wrongly."""
        if found.metadata().partition_columns != ["day"]:
            raise BadInput(f"{self.uri}: another program's table, not partitioned by day")
        protocol = found.protocol()
        if protocol.min_reader_version > 1:
            features = ", ".join(sorted(protocol.reader_features or ())) or "renamed columns"
            raise SchemaTooNew(
                f"{self.uri}: another program gave it Delta's protocol "
                f"{protocol.min_reader_version} ({features}); redisq reads protocol 1"
            )
        types = {field.name: field.type for field in self.columns}
        for field in pa.schema(found.schema().to_arrow()):
            if types.get(field.name, field.type) != field.type:
                raise SchemaTooNew(
                    f"{self.uri}: its column {field.name} is {field.type}, here "
                    f"{types[field.name]}; update redisq-ops"
                )

    def created(self) -> DeltaTable:
        """The latest snapshot of the table, which is made, and gets new columns, if need be."""
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import CommitFailedError

        schema = Schema.from_arrow(self.columns.append(pa.field("day", pa.date32())))
        found = self.opened()
        with delta_errors(self.uri):
            if found is None:
                with suppress(CommitFailedError):  # another run made it meanwhile
                    return DeltaTable.create(
                        self.uri, schema, "ignore", ["day"], storage_options=self._storage
                    )
                return self.created()
            known = {field.name for field in found.schema().fields}
            if missing := [field for field in schema.fields if field.name not in known]:
                found.alter.add_columns(missing)
        return found

    def write(self, frame: DataFrame) -> list[LakeFile]:
        """Write the rows of a frame, which has the table's columns and ``day``, to new files in
        Spark's tasks. Files of a task that failed stay, and are no part of the table."""
        rows = frame.select(*self.columns.names, "day").sortWithinPartitions("day", "queue")
        kinds = "path string, day string, queue string, rows long, corrupt long, bytes long"
        found = translating(lambda: rows.mapInArrow(self._task, kinds).collect())
        return [LakeFile(**row.asDict()) for row in found]

    def _task(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with message_first():
            files = [asdict(file) for file in self.write_files(batches)]
        if files:
            yield pa.RecordBatch.from_pylist(files)

    def write_files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[LakeFile]:
        """Write rows, sorted by day and queue, to a file per day and queue."""
        import pyarrow.parquet as pq
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        with delta_errors(self.uri):
            files = PyFileSystem(DeltaStorageHandler(self.uri, self._storage))
            parts = _parts(batches)
            part = next(parts, None)
            while part is not None:
                (day, queue), rows, corrupt = part[0], 0, 0
                path = f"day={day}/{secrets.token_hex(16)}.parquet"
                with (
                    files.open_output_stream(path) as out,
                    pq.ParquetWriter(out, self.columns, write_page_checksum=True) as writer,
                ):
                    while part is not None and part[0] == (day, queue):
                        batch = part[1].select(self.columns.names).cast(self.columns)
                        writer.write_batch(batch)
                        rows += batch.num_rows
                        corrupt += batch.num_rows - batch["_corrupt"].null_count
                        part = next(parts, None)
                size = files.get_file_info(path).size
                yield LakeFile(path, day, queue, rows, corrupt, size)

    def commit(
        self,
        run: str,
        at_ms: int,
        files: Sequence[LakeFile],
        starts: Mapping[str, int],
        ends: Mapping[str, int],
        marks: Mapping[str, Mark],
    ) -> int:
        """Add files in one transaction, and return the table's version. A snapshot replaces these
        queues' rows of its day.

        ``starts``: `ends` as they were when the rows were read; raises `Overtaken` and changes
        nothing if they are others now.
        """
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        versions = {_END + queue: ms for queue, ms in ends.items()} | _mark_versions(marks)
        properties = CommitProperties(
            custom_metadata={"redisq": run},
            app_transactions=[Transaction(app, version) for app, version in versions.items()],
        )
        for _ in range(_COMMITS):
            table = self.created()
            known = queue_ends(table, ends)
            if known == ends:  # the answer to an attempt was lost
                return table.version()
            if known != starts:
                raise Overtaken(f"{self.uri}: another run exported the same queues meanwhile")
            actions: list[Any] = [_added(file, at_ms) for file in files]
            if self.definition.name not in APPEND_TABLES:
                actions += self._removed(table, at_ms, ends)
            with delta_errors(self.uri):
                try:
                    table.create_write_transaction(
                        actions, "append", table.schema(), ["day"], commit_properties=properties
                    )
                except CommitFailedError as error:
                    if _UNSUPPORTED in str(error):
                        raise
                    continue
            if self.definition.name not in APPEND_TABLES:
                self._clean(table)
            return table.version()
        raise Refused(f"{self.uri}: others changed it all the time; nothing was added")

    def maintain(self, now_ms: int, keep_ms: int | None = None) -> MaintenanceResult:
        """Delete the days that ended ``keep_ms`` ago or earlier (None: no day), and merge the small
        files of past days. Today's files are left: the next export adds to them.

        Nothing is merged if another program changes the table meanwhile.
        """
        from deltalake.exceptions import CommitFailedError

        table = self.opened()
        if table is None:
            return MaintenanceResult()
        deleted = 0
        with delta_errors(self.uri):
            try:
                if keep_ms is not None:
                    oldest = day_of(now_ms - keep_ms)
                    if table.file_uris(file_pruning_predicate=f"day < '{oldest}'"):
                        deleted = int(table.delete(f"day < '{oldest}'")["num_removed_files"])
                done = table.optimize.compact(partition_filters=[("day", "<", day_of(now_ms))])
            except CommitFailedError as error:
                if _UNSUPPORTED in str(error):
                    raise
                return MaintenanceResult(deleted=deleted)
        if deleted or done["numFilesRemoved"]:
            self._clean(table)
        return MaintenanceResult(done["numFilesRemoved"], done["numFilesAdded"], deleted)

    def _clean(self, table: DeltaTable) -> None:
        """Delete files that were replaced, or left by killed runs, a week ago: by then no reader
        has them open."""
        from deltalake.exceptions import CommitFailedError

        with delta_errors(self.uri), suppress(CommitFailedError):
            table.vacuum(dry_run=False, full=True)

    @property
    def spark_root(self) -> str:
        """The table's place as Spark knows it."""
        return re.sub("^s3:", "s3a:", self.uri)

    def spark_paths(self, table: DeltaTable) -> list[str]:
        """The files of a snapshot, for Spark, which reads their day from their folders."""
        found = _add_actions(table)
        paths, days = (found[name].to_pylist() for name in ("path", "partition.day"))
        for path, day in zip(paths, days, strict=True):
            if path != f"day={day}/{path.rpartition('/')[2]}":
                raise BadInput(f"{self.uri}: another program put {path[:80]!r} outside day={day}")
        return [f"{self.spark_root}/{path}" for path in paths]

    def _removed(self, table: DeltaTable, at_ms: int, queues: Collection[str]) -> Iterator[Any]:
        """The actions that remove the rows of these queues on the day of a time."""
        from deltalake.transaction import RemoveAction

        day = day_of(at_ms)
        for row in _add_actions(table).to_pylist():
            if str(row["partition.day"]) != day:
                continue
            queue = row.get("min.queue")
            if queue is None or queue != row.get("max.queue"):
                raise Refused(
                    f"{self.uri}: another program merged the files of {day}, so its snapshot can't "
                    "be replaced; the next one is possible tomorrow"
                )
            if queue in queues:
                yield RemoveAction(row["path"], True, at_ms, row["size_bytes"], {"day": day})


def queue_ends(table: DeltaTable, queues: Collection[str]) -> dict[str, int]:
    """The end of each queue's exported time range, in ms."""
    found = _versions(table, [_END + queue for queue in queues])
    return {app.removeprefix(_END): ms for app, ms in found.items()}


def shard_marks(table: DeltaTable, shards: Collection[str]) -> dict[str, Mark]:
    """The mark of each ``queue/shard`` that has one."""
    times = _versions(table, [_MARK_MS + shard for shard in shards])
    numbers = _versions(table, [_MARK_NUMBER + shard for shard in shards])
    found: dict[str, Mark] = {}
    for shard in shards:
        ms, number = times.get(_MARK_MS + shard), numbers.get(_MARK_NUMBER + shard)
        if ms is not None and number is not None:
            found[shard] = number if ms == _WHOLE else f"{ms}-{number}"
    return found


def row_count(table: DeltaTable) -> int:
    """The rows of a snapshot, by the counts of its files' writers."""
    found = _add_actions(table)
    counts = zip(found["num_records"].to_pylist(), found["size_bytes"].to_pylist(), strict=True)
    return sum(size // _BYTES_PER_ROW if rows is None else rows for rows, size in counts)


def moment_text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def day_of(ms: int) -> str:
    """The day (UTC) of a time."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


_UNSUPPORTED = "Unsupported"
_CAUSE = re.compile(r"<Message>(.*?)</Message>|↳ ?\s*([^↳]+?)\s*$", re.DOTALL)


@contextmanager
def delta_errors(uri: str) -> Iterator[None]:
    """What delta-rs raises in the block, as an error of this program in one line."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        text = re.sub(r"\x1b\[\d+m", "", str(error))
        cause = _CAUSE.search(text)
        words = next(filter(None, cause.groups())) if cause else text.partition("\n")[0]
        words = words.partition(": ParsedLogPath")[0].removeprefix("Kernel error: ")[:300]
        said = f"{uri}: {' '.join(words.split())}"
        if _UNSUPPORTED in text:
            raise SchemaTooNew(f"{said}: a newer program wrote it; update deltalake") from error
        if "No space left" in text:
            raise RedisqError(f"{said}: nothing was added to the lake") from error
        if "error sending request" in text or re.search(r"\b5\d\d [A-Z]", text):
            raise Unreachable(f"{said}: the object store doesn't answer") from error
        if not (cause and "://" in uri):  # the store's own words are enough
            said += "; if files are damaged or missing, restore them"
        raise BadInput(said) from error


def _versions(table: DeltaTable, apps: Iterable[str]) -> dict[str, int]:
    """The versions of those of these application transactions that exist."""
    with delta_errors(table.table_uri):
        found = {app: table.transaction_version(app) for app in apps}
    return {app: version for app, version in found.items() if version is not None}


def _add_actions(table: DeltaTable) -> pa.Table:
    with delta_errors(table.table_uri):
        return pa.table(table.get_add_actions(flatten=True))


def _mark_versions(marks: Mapping[str, Mark]) -> dict[str, int]:
    versions: dict[str, int] = {}
    for shard, mark in marks.items():
        ms, number = (_WHOLE, mark) if isinstance(mark, int) else id_key(mark)
        versions |= {_MARK_MS + shard: ms, _MARK_NUMBER + shard: min(number, _MOST)}
    return versions


def _added(file: LakeFile, at_ms: int) -> Any:
    from deltalake.transaction import AddAction

    queue = {"queue": file.queue}
    stats = {"numRecords": file.rows, "minValues": queue, "maxValues": queue}
    return AddAction(file.path, file.bytes, {"day": file.day}, at_ms, True, json.dumps(stats))


def _parts(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """The batches, sorted by day and queue, in parts of one day and queue each."""
    for batch in batches:
        keys = pa.Table.from_batches([batch]).group_by(["day", "queue"], use_threads=False)
        at = 0
        for row in keys.aggregate([([], "count_all")]).to_pylist():
            yield (row["day"], row["queue"]), batch.slice(at, row["count_all"])
            at += row["count_all"]
