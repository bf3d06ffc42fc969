"""Files that Spark commands read, mutated; see `tests/ops/files/test_fuzz.py`."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from redisq_ops.core.model.errors import BadInput, RedisqError
from redisq_ops.pipeline.lake.lake_export import lake_rows
from redisq_ops.pipeline.lake.lake_table import (
    Lake,
    LakeFile,
    LakeTable,
    queue_ends,
    row_count,
    shard_marks,
)
from redisq_ops.pipeline.source.history_stream import HistoryStreamReader
from redisq_ops.pipeline.source.options import parse_options
from redisq_ops.pipeline.source.starting_offsets import checked_offsets
from redisq_ops.pipeline.source.tables import TABLES

from ..command_line import dead_letters
from ..ops.files.test_fuzz import each, mutated, soon, warped

NOON = 1_763_640_000_000
DAY = "2025-11-20"


@contextmanager
def in_one_line(k: int) -> Iterator[None]:
    try:
        with soon():
            yield
    except RedisqError as error:
        assert "\n" not in str(error) and len(str(error)) < 1500, (k, error)


def changed(data: bytes, rng: random.Random) -> bytes:
    """JSON with other bytes, or another value."""
    if rng.random() < 0.4:
        return mutated(data, rng)
    return json.dumps(warped(json.loads(data), rng)).encode()


def lake_with(folder: Path, path: str) -> tuple[LakeTable, Path]:
    """A table with one file, and its log's commit of that."""
    table = LakeTable(Lake(str(folder)), TABLES["history"])
    table.created()
    file = LakeFile(path, DAY, "mail", 2, 0, 500)
    table.commit("r", NOON, [file], {}, {"mail": NOON}, {"mail/0": "5-1", "mail/1": 7})
    return table, folder / "history" / "_delta_log" / f"{1:020}.json"


def test_logs_of_a_lake(tmp_path: Path) -> None:
    table, log = lake_with(tmp_path, f"day={DAY}/a.parquet")
    lines = log.read_bytes().splitlines()
    lake_rows(Lake(str(tmp_path)), ["history"])  # what the first look imports takes its time
    for k, rng in each("log of a lake"):
        at = rng.randrange(len(lines))
        other = [*lines[:at], changed(lines[at], rng), *lines[at + 1 :]]
        log.write_bytes(b"\n".join(other) + b"\n")
        with in_one_line(k):
            found = table.opened()
            assert found is not None
            row_count(found), queue_ends(found, ["mail"]), shard_marks(found, ["mail/0", "mail/1"])
            table.spark_paths(found)


@pytest.mark.parametrize("path", ["../x", f"day={DAY}/../../x", f"day={DAY}/a/x", "/x", "x"])
def test_a_log_names_no_file_outside_the_folders_of_its_days(tmp_path: Path, path: str) -> None:
    table, _ = lake_with(tmp_path, path)
    found = table.opened()
    assert found is not None
    with pytest.raises(BadInput, match=f"another program put '.*x' outside day={DAY}"):
        table.spark_paths(found)


@pytest.mark.alike
def test_checkpoints(client: redis.Redis, url: str) -> None:
    """Offsets, which Spark hands on as they are in its checkpoint."""
    dead_letters(client, 3)
    reader = HistoryStreamReader(parse_options({"table": "history", "url": url}))
    every = reader.getDefaultReadLimit()
    end = reader.latestOffset({}, every)
    for k, rng in each("offset"):
        other = warped(end, rng)
        for read in (
            lambda o=other: reader.partitions(o, end),
            lambda o=other: reader.partitions({}, o),
            lambda o=other: reader.latestOffset(o, every),
        ):
            try:
                with soon():
                    read()
            except RedisqError as error:
                assert "\n" not in str(error), k
            except Exception as error:  # as Spark gets it, with the message first
                assert isinstance(error.__cause__, RedisqError), (k, error)


def test_a_damaged_checkpoint_is_named() -> None:
    for offset in ({"id": "1-1", "seen": -1}, {"id": "9" * 30 + "-0", "seen": 1}, {"id": "1-1"}):
        with pytest.raises(BadInput, match="the stream's checkpoint is damaged"):
            checked_offsets({"mail/0": offset})
    with pytest.raises(BadInput, match="no queue/shard"):
        checked_offsets({"mail": {"id": "1-1", "seen": 1}})
