"""The lake: each row once, after interrupted and repeated runs."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis

from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput, RedisqError, Refused
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.operation import run
from redisq_ops.pipeline import lake
from redisq_ops.pipeline.connection import Server
from redisq_ops.pipeline.job_errors import translate_job_error
from redisq_ops.pipeline.lake_maintenance import MaintenanceResult, maintain
from redisq_ops.pipeline.lake_table import LakeFile, LakeTable, Manifest
from redisq_ops.pipeline.tables import TABLES
from tests.command_line import ERROR, dead_letters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HISTORY = TABLES["history"]


def stage_files(lake_table: LakeTable, run: str, days: dict[str, int], queue: str = "mail") -> None:
    """Files as Spark leaves them in staging; ``days``: rows of each day."""
    for day, n in days.items():
        folder = lake_table.staging / run / f"day={day}" / f"queue={queue}"
        folder.mkdir(parents=True)
        ids = [f"{run}-{day}-{k}" for k in range(n)]
        pq.write_table(pa.table({"event_id": ids}), folder / "part-0.snappy.parquet")


def rows_in_lake(lake_table: LakeTable) -> list[str]:
    """All rows that a reader of the folder finds."""
    return [
        id
        for path in sorted(lake_table.path.glob("day=*/**/*.parquet"))
        for id in pq.read_table(path, partitioning=None).column("event_id").to_pylist()
    ]


def written(lake_table: LakeTable, run: str, days: dict[str, int], **given: Any) -> Manifest:
    stage_files(lake_table, run, days)
    made = Manifest(run, "history", "placing", 1, files=lake_table.staged_files(run), **given)
    lake_table.write_manifest(made)
    return made


# --- without Spark --------------------------------------------------------------------------------


def test_files_are_placed_and_listed_in_the_manifest(tmp_path: Path) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    with lake_table.locked():
        lake_table.place_files(written(lake_table, "r1", {"2026-11-20": 3, "2026-11-21": 2}))
    (made,) = lake_table.runs()
    assert [file.path for file in made.files] == [
        "day=2026-11-20/queue=mail/r1-00000.parquet",
        "day=2026-11-21/queue=mail/r1-00001.parquet",
    ]
    assert (made.state, made.rows) == ("done", 5) and len(rows_in_lake(lake_table)) == 5


def test_a_run_interrupted_before_its_manifest_leaves_nothing(tmp_path: Path) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    with lake_table.locked():
        stage_files(lake_table, "r1", {"2026-11-20": 3})
        lake_table.staged_files("r1")
        assert lake_table.finish_interrupted() == 0
    assert (
        rows_in_lake(lake_table) == []
        and lake_table.runs() == []
        and not lake_table.staging.exists()
    )


@pytest.mark.parametrize("placed", [0, 1, 2, 3])
def test_a_run_interrupted_while_placing_files_is_finished(tmp_path: Path, placed: int) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    with lake_table.locked():
        made = written(lake_table, "r1", {"2026-11-19": 1, "2026-11-20": 2, "2026-11-21": 3})
        for file in made.files[:placed]:
            target = lake_table.path / file.path
            target.parent.mkdir(parents=True)
            (lake_table.staging / "r1" / "_placed" / target.name).replace(target)
        assert lake_table.finish_interrupted() == 1
        assert lake_table.finish_interrupted() == 0
    assert len(rows_in_lake(lake_table)) == len(set(rows_in_lake(lake_table))) == 6
    assert [each.state for each in lake_table.runs()] == ["done"]


def test_a_later_snapshot_replaces_an_earlier_one_of_the_day(tmp_path: Path) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    with lake_table.locked():
        lake_table.place_files(written(lake_table, "r1", {"2026-11-21": 4}))
        old = lake_table.files_of_day("2026-11-21", ["mail"])
        assert lake_table.files_of_day("2026-11-21", ["other"]) == []
        assert lake_table.files_of_day("2026-11-20", ["mail"]) == []
        lake_table.place_files(written(lake_table, "r2", {"2026-11-21": 2}, replaces=old))
    assert rows_in_lake(lake_table) == ["r2-2026-11-21-0", "r2-2026-11-21-1"]


def test_a_later_snapshot_replaces_corrupt_rows_too(tmp_path: Path) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    with lake_table.locked():
        lake_table.place_files(
            written(lake_table, "r1", {"__HIVE_DEFAULT_PARTITION__": 1, "1970-01-01": 2})
        )
        old = lake_table.files_of_day("1970-01-01", ["mail"])
        assert sorted(name.partition("/")[0] for name in old) == ["_corrupt", "day=1970-01-01"]
        assert lake_table.files_of_day("1970-01-02", ["mail"]) == []


def test_marks_are_the_latest_of_each_shard_and_older_manifests_have_none(tmp_path: Path) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    with lake_table.locked():
        marks_of_runs: list[dict[str, int | str]] = [
            {"a/0": 5, "a/1": "7-0", "b/0": 1},
            {"a/0": "9-1"},
        ]
        for k, marks in enumerate(marks_of_runs):
            lake_table.write_manifest(Manifest(f"r{k}", "history", "done", k, marks=marks))
        old = '{"redisq_lake":1,"run":"r9","table":"history","state":"done","at_ms":9,'
        old += '"bounds":{"a":[0,5]},"files":[],"replaces":[]}'
        (lake_table.manifests / "r9.json").write_text(old)
    assert lake_table.marks({"a"}) == {"a/0": "9-1", "a/1": "7-0"}
    assert lake_table.marks({"a", "b"})["b/0"] == 1


def test_a_missing_file_of_an_unfinished_run_is_reported(tmp_path: Path) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    with lake_table.locked():
        made = written(lake_table, "r1", {"2026-11-21": 4})
        (lake_table.staging / "r1" / "_placed" / "r1-00000.parquet").unlink()
        with pytest.raises(Refused, match=r"r1-00000\.parquet: the file is gone"):
            lake_table.place_files(made)


def test_concurrent_runs_are_refused_and_a_killed_run_holds_no_lock(tmp_path: Path) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    code = (
        "import sys, time; from pathlib import Path\n"
        "from redisq_ops.pipeline.lake_table import LakeTable\n"
        "from redisq_ops.pipeline.tables import TABLES\n"
        f"with LakeTable(Path({str(tmp_path)!r}), TABLES['history']).locked():\n"
        "    print('mine', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"mine\n"
        with pytest.raises(Refused, match="another export"), lake_table.locked():
            pass
        other.kill()
    with lake_table.locked():
        pass


def test_an_invalid_manifest_is_named(tmp_path: Path) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    lake_table.manifests.mkdir(parents=True)
    for text in ('{"run": ', '{"redisq_lake": 1, "files": [{"size": 1}], "bounds": {}}'):
        (lake_table.manifests / "r1.json").write_text(text)
        with pytest.raises(BadInput, match=r"r1\.json"):
            lake_table.runs()


def test_a_half_written_file_is_named_and_nothing_is_merged(tmp_path: Path) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    with lake_table.locked():
        for run_name in ("r1", "r2"):
            lake_table.place_files(written(lake_table, run_name, {"2026-11-20": 2}))
    before = sorted(lake_table.path.rglob("*.parquet"))
    before[0].write_bytes(before[0].read_bytes()[:-9])
    with pytest.raises(BadInput, match=rf"{before[0].name}: not a whole Parquet file"):
        maintain(lake_table, round(datetime(2026, 11, 25, tzinfo=UTC).timestamp() * 1000))
    assert sorted(lake_table.path.rglob("*.parquet")) == before


def with_name_in_its_end(data: bytes) -> bytes:
    """The column has another name in the schema, so its rows would be null."""
    return data.replace(b"event_id", b"event_ix")


def of_another_type(_: bytes) -> bytes:
    out = BytesIO()
    pq.write_table(pa.table({"event_id": [1, 2]}), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (with_name_in_its_end, "history has no column 'event_ix': the file was changed, or"),
        (of_another_type, "a file was changed: .*incompatible types"),
    ],
)
def test_files_with_other_columns_are_not_merged(
    tmp_path: Path, change: Callable[[bytes], bytes], why: str
) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    with lake_table.locked():
        for run_name in ("r1", "r2"):
            lake_table.place_files(written(lake_table, run_name, {"2026-11-20": 2}))
    before = sorted(lake_table.path.rglob("*.parquet"))
    before[0].write_bytes(change(before[0].read_bytes()))
    with pytest.raises(BadInput, match=why):
        maintain(lake_table, round(datetime(2026, 11, 25, tzinfo=UTC).timestamp() * 1000))
    assert sorted(lake_table.path.rglob("*.parquet")) == before


def test_small_files_of_past_days_are_merged_and_old_days_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    noon = round(datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp() * 1000)
    runs = [
        {"2026-11-01": 1, "2026-11-20": 3},
        {"2026-11-20": 2, "2026-11-25": 4},
        {"2026-11-25": 1},
    ]
    with lake_table.locked():
        for k, days in enumerate(runs):
            lake_table.place_files(written(lake_table, f"r{k}", days, bounds={"mail": (0, k + 1)}))
    before = sorted(rows_in_lake(lake_table))
    # Killed after its manifest, in the middle of the files: the next run finishes it.
    real, unlinked = Path.unlink, list[Path]()

    def killed(self: Path, missing_ok: bool = False) -> None:
        if "day=" in str(self):
            if unlinked:
                raise _Killed
            unlinked.append(self)
        real(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(_Killed):
        maintain(lake_table, noon, 10 * 86_400_000)
    monkeypatch.setattr(Path, "unlink", real)
    assert maintain(lake_table, noon, 10 * 86_400_000) == MaintenanceResult()
    assert sorted(rows_in_lake(lake_table)) == [id for id in before if "2026-11-01" not in id]
    files = [str(path.relative_to(lake_table.path)) for path in lake_table.path.glob("day=*/*/*")]
    assert sorted(name.partition("/")[0] for name in files) == [
        "day=2026-11-20",
        "day=2026-11-25",
        "day=2026-11-25",
    ], "today's stay apart"
    assert lake_table.bounds() == {"mail": 3}, "the next export continues where the last ended"
    assert maintain(lake_table, noon + 86_400_000) == MaintenanceResult(2, 1, 0)


def test_a_lake_of_a_newer_release_is_refused_in_one_line(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from redisq_ops.cli.main import run

    manifests = tmp_path / "history" / "_manifest"
    manifests.mkdir(parents=True)
    (manifests / "r1.json").write_text('{"redisq_lake": 9}')
    words = ["--lake", str(tmp_path)]
    for command in (
        ["report"],
        ["sql", "select * from history"],
        ["groups"],
        ["history", "--keep", "1d"],
        ["export", "--table", "dead", "--table", "history"],
    ):
        assert run(["--url", url, "spark", *command, *words]) == 1
        err = capsys.readouterr().err
        assert "format 9, this release reads format 1; update redisq-ops" in err
        assert len(err.splitlines()) == 1, err
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["r1.json"]


def test_bounds_are_kept_per_queue_while_the_manifests_of_a_day_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_table = LakeTable(tmp_path, HISTORY)
    day = 86_400_000
    bounds: list[dict[str, tuple[int, int]]] = [
        {"a": (0, 5), "b": (0, 5)},
        {"a": (5, 9)},
        {},
        {"a": (9, 12)},
        {"a": (12, 13)},
    ]
    marks: list[dict[str, int | str]] = [{"a/0": 5, "b/0": 1}, {"a/0": "9-1"}, {}, {}, {}]
    replaces = [[], [], [], ["day=1970-01-01/queue=a/r0.parquet"], []]
    with lake_table.locked():
        for k, at_ms in enumerate([1, 2, 3, day, day + 1]):
            files = [LakeFile(f"day=1970-01-01/queue=a/r{k}.parquet", k, 1)]
            lake_table.write_manifest(
                Manifest(f"r{k}", "history", "done", at_ms, bounds[k], files, replaces[k], marks[k])
            )
        monkeypatch.setattr("redisq_ops.pipeline.lake_table.RUNS_APART", 1)
        real = Path.unlink
        monkeypatch.setattr(Path, "unlink", _raise_killed)
        with pytest.raises(_Killed):
            lake_table.merge_manifests()
        monkeypatch.setattr(Path, "unlink", real)
        for _ in range(2):
            lake_table.merge_manifests()
    merged = lake_table.runs()
    assert [(m.run, [Path(file.path).stem for file in m.files]) for m in merged] == [
        ("r2", ["r1", "r2"]),
        ("r3", ["r3"]),
        ("r4", ["r4"]),
    ]
    assert merged[0].bounds == {"a": (0, 9), "b": (0, 5)}
    assert lake_table.bounds() == {"a": 13, "b": 5}
    assert lake_table.marks(["a", "b"]) == {"a/0": "9-1", "b/0": 1}


def test_a_full_disk_is_reported_in_one_line() -> None:
    error = translate_job_error(
        RuntimeError("Job aborted.\nCaused by: java.io.IOException: No space left on device")
    )
    assert isinstance(error, RedisqError) and "the disk is full" in str(error)


# --- with Spark, where one kind of server is enough -----------------------------------------------


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url, protocol=3) as client:
        client.flushall()
        yield client


def reader(spark: "SparkSession", url: str) -> lake.ReadTable:
    def read(name: str, **options: str) -> "DataFrame":
        given = {"table": name, "url": url, **options}
        return spark.read.format("redisq").options(**given).load()

    return read


@pytest.mark.slow
def test_repeated_exports_store_each_event_once(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    server, read = Server(ServerAddress(valkey_url)), reader(spark, valkey_url)
    queues = [RequestQueue(valkey, name) for name in ("mail", "1234")]
    rows: Counter[tuple[str, str, str]] = Counter()

    def happen(n: int) -> None:
        for queue in queues:
            queue.submit([b"x"] * n, id=f"r{queue.now()}")
            while taken := queue.take(100, consumer="w1").deliveries:
                queue.settle([Settlement(each, "reject", ERROR.encoded()) for each in taken])

    def export() -> lake.ExportResult:
        until = run(valkey, server_ms()) + 1
        while run(valkey, server_ms()) < until:
            pass
        return lake.export(server, read, "history", tmp_path, until_ms=until)

    def lying() -> int:
        return spark.read.parquet(str(tmp_path / "history")).count()

    for queue in queues:
        queue.configure("op", 1, {"history": "all"})
    happen(30)
    first = export()
    assert first.rows > 100 and lying() == first.rows
    assert export().rows == 0 and lying() == first.rows
    happen(20)
    # Killed after it wrote its manifest: the next run finishes it and continues behind it.
    place, LakeTable.place_files = LakeTable.place_files, _raise_killed  # type: ignore[method-assign]
    try:
        with pytest.raises(_Killed):
            export()
    finally:
        LakeTable.place_files = place  # type: ignore[method-assign]
    assert lying() == first.rows
    happen(10)
    third = export()
    assert third.recovered == 1
    frame = spark.read.option("basePath", str(tmp_path / "history")).parquet(
        str(tmp_path / "history")
    )
    rows.update((str(r.queue), r.event_id, f"{r.event} {r.id}") for r in frame.collect())
    direct: Counter[tuple[str, str, str]] = Counter(
        (r.queue, r.event_id, f"{r.event} {r.id}") for r in read("history").collect()
    )
    assert rows == direct and rows.total() > first.rows
    names = [path.name for path in (tmp_path / "history").iterdir()]
    assert all(name.startswith(("day=", "_manifest")) for name in names)


class _Killed(Exception):
    pass


def _raise_killed(*_: Any, **given: Any) -> None:
    raise _Killed


@pytest.mark.slow
def test_a_snapshot_table_has_one_snapshot_per_day(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    server, read = Server(ServerAddress(valkey_url)), reader(spark, valkey_url)
    queue = RequestQueue(valkey, "mail")
    queue.submit([b"x"] * 30, id="r1")
    assert lake.export(server, read, "waiting", tmp_path).rows == 30
    queue.take(4, consumer="w1")
    assert lake.export(server, read, "waiting", tmp_path).rows == 26
    assert spark.read.parquet(str(tmp_path / "waiting")).count() == 26


@pytest.mark.slow
def test_later_exports_add_new_dead_letters(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    server, read = Server(ServerAddress(valkey_url)), reader(spark, valkey_url)
    dead_letters(valkey, 12)

    def export(**options: str) -> lake.ExportResult:
        until = run(valkey, server_ms()) + 1
        return lake.export(
            server, read, "dead", tmp_path, until_ms=until, queues=["mail"], **options
        )

    assert export(payloads="true").rows == 12
    assert export().rows == 0
    queue = RequestQueue(valkey, "mail")
    queue.submit([b"y"] * 3, id="r2")
    queue.settle([Settlement(d, "reject", b"") for d in queue.take(9, consumer="w1").deliveries])
    assert export(payloads="true").rows == 3
    found = spark.read.parquet(str(tmp_path / "dead")).collect()
    assert Counter(bytes(row.payload) for row in found) == {b"x": 12, b"y": 3}


@pytest.mark.slow
def test_a_changed_value_is_an_error_that_names_the_file(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Spark writes checksums of pages, and compares them if it is asked to."""
    folder = tmp_path / "history" / "day=2026-11-20" / "queue=mail"
    rows = spark.createDataFrame([("r1-1",), ("r1-2",)], "event_id string").coalesce(1)
    rows.write.option("compression", "uncompressed").parquet(str(folder))
    (file,) = folder.glob("*.parquet")
    read = lake.read_table(spark, tmp_path, "history").select("event_id")
    assert read.count() == 2
    for crc in folder.glob(".*.crc"):  # Hadoop's own, which the files of a lake don't have
        crc.unlink()
    file.write_bytes(file.read_bytes().replace(b"r1-1", b"r1-9"))
    with pytest.raises(Exception) as raised:
        read.collect()
    error = translate_job_error(raised.value)
    assert isinstance(error, BadInput) and str(file) in str(error), error
