"""Keep a lake small: merge the small files of past days, delete days that are too old.

Both are runs with a manifest, like exports (see `lake`): an interrupted run either left nothing or
is finished by the next run of the table. pyarrow does the work, batch by batch, in bounded memory
and without Spark.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import BadInput

from .lake import ROWS_PER_FILE, SNAPSHOT_TIME
from .lake_table import LakeFile, LakeTable, Manifest
from .parquet_files import whole_parquet
from .tables import TableDefinition

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 64_000


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """What a run did to a table."""

    merged: int = 0
    """small files that were merged"""
    into: int = 0
    """files that replaced them"""
    deleted: int = 0
    """files of days that were too old"""


def maintain(lake_table: LakeTable, now_ms: int, keep_ms: int | None = None) -> MaintenanceResult:
    """Delete the days that ended ``keep_ms`` ago or earlier (None: no day), and merge the files of
    each queue's past days. Today's files are left: the next export adds to them."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC)
    oldest = None
    if keep_ms is not None:
        oldest = f"day={(today - timedelta(milliseconds=keep_ms)).strftime('%Y-%m-%d')}"
    with lake_table.locked():
        lake_table.finish_interrupted()
        old, small = [], []
        for folder in sorted(lake_table.path.glob("day=*/queue=*")):
            files = sorted(folder.glob("*.parquet"))
            if oldest is not None and folder.parent.name < oldest:
                old += files
            elif folder.parent.name < f"day={today.strftime('%Y-%m-%d')}":
                small.append((folder, [file for file in files if _rows(file) < ROWS_PER_FILE // 2]))
        small = [(folder, files) for folder, files in small if len(files) > 1]
        if not old and not small:
            return MaintenanceResult()
        run = f"{today.strftime('%Y%m%dT%H%M%S')}{now_ms % 1000:03}Z-{secrets.token_hex(2)}"
        placed: list[LakeFile] = []
        for folder, files in small:
            placed += _merge(lake_table, run, folder, files, len(placed))
        merged = [file for _, files in small for file in files]
        replaces = [str(file.relative_to(lake_table.path)) for file in [*old, *merged]]
        manifest = Manifest(
            run, lake_table.table.name, "placing", now_ms, files=placed, replaces=replaces
        )
        lake_table.write_manifest(manifest)
        lake_table.place_files(manifest)
        shutil.rmtree(lake_table.staging, ignore_errors=True)
        for folder in {file.parent for file in old}:
            _remove_if_empty(folder)
            _remove_if_empty(folder.parent)
    return MaintenanceResult(len(merged), len(placed), len(old))


def _merge(
    lake_table: LakeTable, run: str, folder: Path, files: Sequence[Path], first: int
) -> Iterator[LakeFile]:
    """Write the rows of these files to new staged files, at most `ROWS_PER_FILE` in each. A column
    that an older file lacks is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schemas = [_schema(file, lake_table.table) for file in files]
    try:
        schema = pa.unify_schemas(schemas)
    except pa.ArrowException as error:
        raise BadInput(f"{folder}: a file was changed: {error}; restore it") from error
    batches = _batches(files, schema)
    ready = lake_table.staging / run / "_placed"
    ready.mkdir(parents=True, exist_ok=True)
    batch = next(batches, None)
    while batch is not None:
        name = f"{run}-{first:05}.parquet"
        first += 1
        written = 0
        with pq.ParquetWriter(ready / name, schema, write_page_checksum=True) as writer:
            while batch is not None and written + batch.num_rows <= ROWS_PER_FILE:
                writer.write_batch(batch)
                written += batch.num_rows
                batch = next(batches, None)
        place = folder.relative_to(lake_table.path) / name
        yield LakeFile(str(place), written, (ready / name).stat().st_size)


def _schema(file: Path, table: TableDefinition) -> pa.Schema:
    """The columns of a file, checked: names have no checksum, and with a damaged one all values
    of its column would be null."""
    import pyarrow.parquet as pq

    with whole_parquet(file):
        found = pq.read_schema(file)
    known = {column.name for column in table.columns} | {SNAPSHOT_TIME}
    if unknown := [name for name in found.names if name not in known]:
        raise BadInput(
            f"{file}: {table.name} has no column {unknown[0][:40]!r}: the file was changed, or a "
            "newer release wrote it; restore it, or update redisq-ops"
        )
    return found


def _batches(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the files; pages are compared with their checksums, since the files will be
    deleted."""
    import pyarrow.dataset as ds

    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    kind = ds.ParquetFileFormat(default_fragment_scan_options=checked)
    for file in files:
        with whole_parquet(file):
            rows = ds.dataset(str(file), schema=schema, format=kind)
            missing = _rows(file)
            for batch in rows.scanner(batch_size=BATCH_ROWS, batch_readahead=1).to_batches():
                missing -= batch.num_rows
                yield batch
            if missing:
                raise BadInput(f"{file}: not the rows that its end counts; restore it")


def _rows(file: Path) -> int:
    import pyarrow.parquet as pq

    with whole_parquet(file):
        return int(pq.read_metadata(file).num_rows)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
