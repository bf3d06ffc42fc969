"""Files that Spark commands read, mutated; see `tests/ops/files/test_fuzz.py`."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from redisq_ops.core.model.errors import BadInput, RedisqError, Refused
from redisq_ops.pipeline.jobs.replay import check_plan
from redisq_ops.pipeline.jobs.replay_plan import ReplayPlan
from redisq_ops.pipeline.lake.lake_table import (
    LakeFile,
    LakeTable,
    queue_ends,
    row_count,
    shard_marks,
)
from redisq_ops.pipeline.source.connection import Server
from redisq_ops.pipeline.source.history_stream import HistoryStreamReader
from redisq_ops.pipeline.source.options import parse_options
from redisq_ops.pipeline.source.starting_offsets import checked_offsets
from redisq_ops.pipeline.source.tables import TABLES

from ..command_line import dead_letters
from ..ops.files.test_fuzz import each, mutated, soon, warped
from ..sealed_files import rows_of, seal, warped_row
from .test_replay import ids, planned, replay_request, server_at

__all__ = ["server_at"]
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
    table = LakeTable(str(folder), TABLES["history"])
    table.created()
    file = LakeFile(path, DAY, "mail", 2, 0, 500)
    table.commit("r", NOON, [file], {}, {"mail": NOON}, {"mail/0": "5-1", "mail/1": 7})
    return table, folder / "history" / "_delta_log" / f"{1:020}.json"


def test_logs_of_a_lake(tmp_path: Path) -> None:
    table, log = lake_with(tmp_path, f"day={DAY}/a.parquet")
    lines = log.read_bytes().splitlines()
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
@pytest.mark.parametrize("what", ["file", "other hand", "rows"])
def test_plans_in_folders(
    client: redis.Redis, server_at: Server, tmp_path: Path, what: str
) -> None:
    queue = dead_letters(client, 6)
    plan = planned(server_at, tmp_path, ids(queue, "dead"), parts=2)
    file = tmp_path / "plan.ndjson"
    rows = rows_of(file)
    if what == "rows":
        file = plan.rows / "part=1" / "a.parquet"
    data = file.read_bytes()
    for k, rng in each(f"Spark plan {what}"):
        other = warped_row(rows, rng, warped) if what == "other hand" else mutated(data, rng)
        file.write_bytes(other)
        with in_one_line(k):
            found = ReplayPlan.read(tmp_path)
            assert found is not None
            found.check_request(replay_request(queues=("mail",), parts=2))
            assert [each.count for each in found.queues] == [6], k
            assert check_plan(server_at, found), k


@pytest.mark.alike
def test_the_figures_of_a_plan_are_those_of_its_rows(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 6)
    planned(server_at, tmp_path, ids(queue, "dead"), parts=2)
    file = tmp_path / "plan.ndjson"
    head, row = rows_of(file)
    for other in ({"count": 1}, {"groups": {"harmless": 6}}, {"parts": 1}):
        file.write_bytes(seal([head, row | other]))
        with pytest.raises(BadInput, match="nothing was done"):
            ReplayPlan.read(tmp_path)
    purge = row | {"header": row["header"] | {"verb": "purge"}}
    file.write_bytes(seal([head, purge]))
    found = ReplayPlan.read(tmp_path)
    with pytest.raises(BadInput, match="holds another plan"):
        assert found is not None
        found.check_request(replay_request(queues=("mail",), parts=2))


@pytest.mark.alike
def test_a_plan_whose_file_was_edited_is_refused_with_the_line(
    client: redis.Redis, server_at: Server, tmp_path: Path
) -> None:
    queue = dead_letters(client, 6)
    planned(server_at, tmp_path, ids(queue, "dead"), parts=2)
    file = tmp_path / "plan.ndjson"
    text = file.read_text()
    file.write_text(text.replace('"filter": "all"', '"filter": "some"'))
    with pytest.raises(BadInput, match=r"plan\.ndjson, line 2: it was changed.*nothing was done"):
        ReplayPlan.read(tmp_path)
    file.write_text("".join(text.splitlines(keepends=True)[:-1]))
    with pytest.raises(BadInput, match=r"plan\.ndjson, line 3: the end .* is missing"):
        ReplayPlan.read(tmp_path)


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


def test_a_pipe_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "plan.ndjson")
    with soon(), pytest.raises((BadInput, Refused), match="is a pipe"):
        ReplayPlan.read(tmp_path)
