"""A table's folder in a lake: its Parquet files, and manifests that say which run wrote them.

Files are ``LAKE/TABLE/day=YYYY-MM-DD/queue=…/RUN-00000.parquet``; next to them
``_manifest/RUN.json`` has, for each run, its files and the time range of its rows. Parquet readers
ignore names that begin with ``_``.

A run writes its files to a staging folder, then its manifest, and only then moves the files to
their places. A run interrupted before its manifest placed no file; the next run deletes the staged
ones. A run interrupted later is finished by the next. Manifests of older runs are merged, one for
each day.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from redisq_ops.core.model.errors import BadInput, Refused, SchemaTooNew
from redisq_ops.ops.ndjson import line
from redisq_ops.ops.private_files import SHARED, atomic_write, open_regular
from redisq_ops.ops.typed_json import json_object, typed

from .history_ranges import Mark, check_mark
from .parquet_files import whole_parquet
from .tables import TableDefinition

FORMAT = 1
RUNS_APART = 20
"""latest runs that keep a manifest of their own"""
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Spark's folder name for rows without a day"""
_PLACE = re.compile(r"(day=[+-]?\d{4,6}-\d\d-\d\d|_corrupt)/queue=[^/\0]+/[^/\0]+\.parquet")
"""the form of a file's place: a manifest can't make a run move or delete other files"""
_LATEST_MS = 10**14


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
        # `glob` would find nothing in a folder that this user may not read.
        names = os.listdir(self.manifests) if self.manifests.exists() else []
        manifests = [
            _manifest(self.manifests / name, self.table.name)
            for name in names
            if name.endswith(".json")
        ]
        return sorted(manifests, key=lambda manifest: manifest.run)

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
        with atomic_write(self.manifests / f"{manifest.run}.json", SHARED) as file:
            file.write(line(document))

    def merge_manifests(self) -> None:
        """Merge the manifests of each day into that of the day's last run, except those of the
        latest `RUNS_APART` runs; so their number grows with the days, not with the runs.

        A merged manifest lists only files that still exist. A merge killed on the way leaves
        manifests whose content is also in a merged one, until the next run merges them.
        """
        runs = self.runs()
        gone = {name for manifest in runs for name in manifest.replaces}
        days: dict[str, list[Manifest]] = {}
        for manifest in runs[:-RUNS_APART]:
            days.setdefault(day_of(manifest.at_ms), []).append(manifest)
        for manifests in days.values():
            merged = _merged(manifests, gone)
            if merged != manifests[-1]:
                self.write_manifest(merged)
            for manifest in manifests[:-1]:  # also those that a killed merge left
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
            with whole_parquet(part):
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

    def files_of_day(self, day: str, queues: Collection[str]) -> list[str]:
        """The files of these queues that earlier runs wrote on a day."""
        found = []
        for manifest in self.runs():
            # Unreadable rows have no day.
            days = {f"day={day}"} | ({"_corrupt"} if day_of(manifest.at_ms) == day else set())
            for file in manifest.files:
                folder, _, name = file.path.rpartition("/")
                day_folder, _, queue = folder.partition("/")
                if day_folder in days and unquote(queue.partition("=")[2]) in queues:
                    found.append(f"{folder}/{name}")
        return found

    def marks(self, queues: Collection[str]) -> dict[str, Mark]:
        """The mark of each shard of these queues in the latest run that has it."""
        found: dict[str, Mark] = {}
        for manifest in self.runs():
            found |= manifest.marks
        return {shard: at for shard, at in found.items() if shard.rpartition("/")[0] in queues}


def day_of(ms: int) -> str:
    """The day (UTC) whose folder has a snapshot of this time."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")


def _merged(manifests: Sequence[Manifest], gone: Collection[str]) -> Manifest:
    """These manifests, in their order, as one under the name of the last run."""
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


def _manifest(path: Path, table: str) -> Manifest:
    try:
        with open_regular(path) as file:
            row = json_object(file.read())
        version = row.pop("redisq_lake", None)
        if type(version) is int and version > FORMAT:
            raise SchemaTooNew(
                f"{path}: written in format {version}, this release reads format {FORMAT}; "
                "update redisq-ops"
            )
        if version != FORMAT:
            raise BadInput("redisq_lake must be the number of its format")
        found: Manifest = typed(Manifest, row, "manifest")
        _check(found, path.stem, table)
    except BadInput as error:
        if isinstance(error.__cause__, PermissionError):
            raise error.__cause__ from None
        raise BadInput(f"{path}: not a valid manifest: {error}; restore it") from error
    return found


def _check(manifest: Manifest, run: str, table: str) -> None:
    if (manifest.run, manifest.table) != (run, table):
        raise BadInput("it is of another run or table")
    if not 0 <= manifest.at_ms < _LATEST_MS:
        raise BadInput("manifest.at_ms must be a time")
    for queue, (low, high) in manifest.bounds.items():
        if not 0 <= low <= high < _LATEST_MS:
            raise BadInput(f"manifest.bounds.{queue[:40]} must be a range of time")
    for place in [*(file.path for file in manifest.files), *manifest.replaces]:
        if not _PLACE.fullmatch(place):
            raise BadInput(f"{place[:80]!r} can't be a file of a lake")
    if any(file.rows < 0 or file.bytes < 0 for file in manifest.files):
        raise BadInput("rows and bytes of a file must be 0 or more")
    for shard, mark in manifest.marks.items():
        check_mark(shard, mark)
