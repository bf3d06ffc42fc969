"""Files that Spark commands read, mutated; see `tests/ops/files/test_fuzz.py`."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from redisq_ops.core.model.errors import BadInput, RedisqError, Refused
from redisq_ops.pipeline.connection import Server
from redisq_ops.pipeline.history_stream import HistoryStreamReader
from redisq_ops.pipeline.lake_maintenance import maintain
from redisq_ops.pipeline.lake_table import LakeFile, LakeTable, Manifest
from redisq_ops.pipeline.options import parse_options
from redisq_ops.pipeline.replay import check_plan
from redisq_ops.pipeline.replay_plan import ReplayPlan
from redisq_ops.pipeline.starting_offsets import checked_offsets
from redisq_ops.pipeline.tables import TABLES

from ..command_line import dead_letters
from ..ops.files.test_fuzz import each, mutated, soon, warped
from ..sealed_files import rows_of, seal, warped_row
from .test_replay import ids, planned, replay_request, server_at

__all__ = ["server_at"]
NOON = 1_763_640_000_000
"""of 2025-11-20, a day that is over"""
PLACE = "day=2025-11-20/queue=mail"


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


def small_lake(folder: Path) -> LakeTable:
    """One run whose files are in their places, and one that was interrupted before."""
    lake_table = LakeTable(folder, TABLES["history"])
    for run, n in (("r1", 2), ("r2", 3)):
        name = f"{PLACE}/{run}-00000.parquet"
        ready = lake_table.staging / run / "_placed"
        ready.mkdir(parents=True)
        rows = pa.table({"event_id": [f"{run}-{k}" for k in range(n)]})
        pq.write_table(rows, ready / f"{run}-00000.parquet", write_page_checksum=True)
        lake_table.manifests.mkdir(exist_ok=True)
        made = Manifest(
            run,
            "history",
            "placing",
            NOON,
            {"mail": (0, NOON)},
            [LakeFile(name, n, 500)],
            [f"{PLACE}/old.parquet"],
            {"mail/0": "5-1", "mail/1": 7},
        )
        lake_table.write_manifest(made)
        if run == "r1":
            lake_table.place_files(made)
    return lake_table


def test_manifests(tmp_path: Path) -> None:
    """Another's manifest moves and deletes nothing outside the places of a lake's files."""
    for k, rng in each("manifest"):
        lake_table = small_lake(tmp_path / str(k))
        outside = [tmp_path / str(k) / "x", lake_table.path / "x"]
        for path in outside:
            path.write_text("mine")
        file = lake_table.manifests / rng.choice(["r1.json", "r2.json"])
        file.write_bytes(changed(file.read_bytes(), rng))
        for read in (
            lake_table.bounds,
            lambda t=lake_table: t.marks({"mail"}),
            lambda t=lake_table: t.files_of_day("2025-11-20", ["mail"]),
            lake_table.finish_interrupted,
            lake_table.merge_manifests,
        ):
            with in_one_line(k):
                read()
        assert [path.read_text() for path in outside] == ["mine", "mine"], k


@pytest.mark.parametrize(
    "place", ["../x", "day=2025-11-20/queue=mail/../../../x", "/x", "x", "_manifest/r1.json", ""]
)
def test_a_manifest_names_no_file_outside_the_places_of_a_lake(tmp_path: Path, place: str) -> None:
    lake_table = small_lake(tmp_path)
    for change in ({"replaces": [place]}, {"files": [{"path": place, "rows": 1, "bytes": 1}]}):
        file = lake_table.manifests / "r2.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
        with pytest.raises(BadInput, match="can't be a file of a lake; restore it"):
            lake_table.finish_interrupted()


def test_files_of_a_lake(tmp_path: Path) -> None:
    """A file that was changed is not merged, nor the one that it would be merged with; unless its
    rows are the same."""
    for k, rng in each("lake file"):
        lake_table = small_lake(tmp_path / str(k))
        lake_table.finish_interrupted()
        first, second = sorted(lake_table.path.glob("day=*/*/*.parquet"))
        first.write_bytes(mutated(first.read_bytes(), rng))
        with in_one_line(k):
            maintain(lake_table, NOON + 5 * 86_400_000)
            (merged,) = lake_table.path.glob("day=*/*/*.parquet")
            rows = pq.read_table(merged, partitioning=None).column("event_id").to_pylist()
            assert rows == ["r1-0", "r1-1", "r2-0", "r2-1", "r2-2"], k
            continue
        assert first.exists() and second.exists(), k


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

    lake_table = small_lake(tmp_path)
    os.mkfifo(lake_table.manifests / "r3.json")
    os.mkfifo(tmp_path / "plan.ndjson")
    with soon(), pytest.raises(BadInput, match="is a pipe"):
        lake_table.runs()
    with soon(), pytest.raises((BadInput, Refused), match="is a pipe"):
        ReplayPlan.read(tmp_path)
