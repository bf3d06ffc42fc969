"""The lake: each row once, after interrupted, repeated and concurrent runs."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, date, datetime
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import redis
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from redisq_ops.cli.main import run as run_command
from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput, Refused, Unreachable
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.operation import run
from redisq_ops.pipeline.lake import lake_export
from redisq_ops.pipeline.lake.lake_table import (
    APPEND_TABLES,
    Lake,
    LakeFile,
    LakeTable,
    MaintenanceResult,
    Overtaken,
    queue_ends,
    row_count,
    shard_marks,
)
from redisq_ops.pipeline.source.connection import Server
from redisq_ops.pipeline.source.job_errors import translate_job_error
from redisq_ops.pipeline.source.options import name_list
from redisq_ops.pipeline.source.schemas import arrow
from redisq_ops.pipeline.source.tables import TABLES
from tests.command_line import ERROR, Redisq, dead_letters
from tests.pipeline.rows import reading
from tests.ports import free_port
from tests.queue_steps import eventually

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = 1_763_640_000_000
"""of 2025-11-20"""
DAY = 86_400_000
TODAY = {"2025-11-20": 3}


def table_at(folder: Path | str, name: str = "history") -> LakeTable:
    return LakeTable(Lake(str(folder)), TABLES[name])


def written(lake_table: LakeTable, days: dict[str, int], queue: str = "mail") -> list[LakeFile]:
    """Files as Spark's tasks write them; ``days``: rows of each day."""
    schema = lake_table.columns.append(pa.field("day", pa.string()))
    named = [(day, f"{day}-{k}") for day, n in days.items() for k in range(n)]
    rows = [{"queue": queue, "event_id": id, "day": day} for day, id in named]
    return list(lake_table.write_files([pa.RecordBatch.from_pylist(rows, schema=schema)]))


def added(
    lake_table: LakeTable, days: dict[str, int], end: int, queue: str = "mail", start: int = 0
) -> None:
    starts = {queue: start} if start else {}
    lake_table.created()
    files = written(lake_table, days, queue)
    lake_table.commit("r", end, files, starts, {queue: end}, {})


def opened(lake_table: LakeTable) -> DeltaTable:
    found = lake_table.opened()
    assert found is not None
    return found


def ids(lake_table: LakeTable) -> list[str]:
    return sorted(pa.table(opened(lake_table).to_pyarrow_table())["event_id"].to_pylist())


# --- without Spark --------------------------------------------------------------------------------


def killed_run(folder: str, where: str) -> None:
    """A run that is killed before or after its commit."""
    lake_table = table_at(folder)
    start = queue_ends(lake_table.created(), ["mail"])
    files = written(lake_table, TODAY)
    if where == "after":
        lake_table.commit("r", NOON, files, start, {"mail": NOON}, {"mail/0": 5})
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("where", "rows"), [("before", 0), ("after", 3)])
def test_a_run_killed_at_its_commit_is_either_whole_or_nothing(
    tmp_path: Path, where: str, rows: int
) -> None:
    process = get_context("spawn").Process(target=killed_run, args=(str(tmp_path), where))
    process.start()
    process.join()
    lake_table = table_at(tmp_path)
    table = opened(lake_table)
    assert row_count(table) == len(ids(lake_table)) == rows
    assert bool(queue_ends(table, ["mail"])) == bool(rows) == bool(shard_marks(table, ["mail/0"]))


def test_two_runs_over_the_same_rows_add_them_once_and_others_both(tmp_path: Path) -> None:
    lake_table = table_at(tmp_path)
    added(lake_table, TODAY, NOON)
    with pytest.raises(Overtaken, match="another run exported the same queues"):
        added(lake_table, TODAY, NOON + 5)
    # The answer to a commit was lost: the repeated one adds nothing.
    added(lake_table, TODAY, NOON)
    added(lake_table, TODAY, NOON + 9, queue="other")
    assert len(ids(lake_table)) == 6
    assert queue_ends(opened(lake_table), ["mail", "other"]) == {"mail": NOON, "other": NOON + 9}


def test_a_table_that_another_run_makes_at_once_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = DeltaTable.create

    def overtaken(*given: Any, **named: Any) -> None:
        create(*given, **named)
        raise CommitFailedError("protocol changed")

    monkeypatch.setattr(DeltaTable, "create", overtaken)
    assert table_at(tmp_path).created().version() == 0


def test_a_commit_survives_others_that_merge_and_delete_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake_table = table_at(tmp_path)
    added(lake_table, {"2025-11-01": 1}, 1)
    create, calls = DeltaTable.create_write_transaction, list[int]()

    def late(self: DeltaTable, *given: Any, **named: Any) -> None:
        if not calls:
            lake_table.maintain(NOON, 10 * DAY)
        calls.append(1)
        create(self, *given, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    added(lake_table, TODAY, NOON, start=1)
    assert len(calls) == 2 and len(ids(lake_table)) == 3


def test_a_later_snapshot_replaces_an_earlier_one_of_its_queues_and_day(tmp_path: Path) -> None:
    lake_table = table_at(tmp_path, "counts")
    added(lake_table, {"2025-11-19": 4}, NOON - DAY)
    added(lake_table, TODAY, NOON, start=NOON - DAY)
    added(lake_table, TODAY, NOON, queue="other")
    added(lake_table, {"2025-11-20": 2}, NOON + 1, start=NOON)
    queues = opened(lake_table).to_pyarrow_table()["queue"].to_pylist()
    assert Counter(queues) == {"mail": 6, "other": 3}
    opened(lake_table).optimize.compact()
    with pytest.raises(Refused, match="another program merged the files of 2025-11-20"):
        added(lake_table, TODAY, NOON + 2, start=NOON + 1)


def test_an_export_reads_the_queues_whose_end_it_marks(
    client: redis.Redis, url: str, tmp_path: Path
) -> None:
    class Asked(Exception):
        pass

    def read(table: str, **options: str) -> Any:
        raise Asked(*name_list(options["queue"]))

    for name in ("a", "b", "a,b"):
        dead_letters(client, 1, name)
    with pytest.raises(Asked) as asked:
        lake_export.export(
            Server(ServerAddress(url)), read, "dead", Lake(str(tmp_path)), queues=["a,b", "b"]
        )
    assert asked.value.args == ("a,b", "b")


def test_marks_are_the_latest_of_each_shard(tmp_path: Path) -> None:
    lake_table = table_at(tmp_path)
    lake_table.created()
    lake_table.commit("r1", NOON, [], {}, {"a": 1, "b": 1}, {"a/0": 5, "a/1": "7-0", "b/0": "3-1"})
    lake_table.commit("r2", NOON, [], {"a": 1}, {"a": 2}, {"a/0": "9-1", "a/1": 12})
    found = shard_marks(opened(lake_table), ["a/0", "a/1", "a/2", "b/0"])
    assert found == {"a/0": "9-1", "a/1": 12, "b/0": "3-1"}


def test_small_files_of_past_days_are_merged_and_old_days_deleted(tmp_path: Path) -> None:
    lake_table = table_at(tmp_path)
    runs = [{"2025-11-01": 1, "2025-11-19": 3}, {"2025-11-19": 2, **TODAY}, TODAY]
    for k, days in enumerate(runs):
        added(lake_table, days, k + 1, start=k)
    before = ids(lake_table)
    assert lake_table.maintain(NOON, 10 * DAY) == MaintenanceResult(2, 1, 1)
    assert lake_table.maintain(NOON, 10 * DAY) == MaintenanceResult()
    assert ids(lake_table) == [id for id in before if "2025-11-01" not in id]
    assert Counter(str(day["day"]) for day in opened(lake_table).partitions()) == Counter(
        ["2025-11-19", "2025-11-20"]
    )
    assert len(opened(lake_table).file_uris()) == 3, "today's stay apart"
    assert queue_ends(opened(lake_table), ["mail"]) == {"mail": 3}
    assert lake_table.maintain(NOON + DAY) == MaintenanceResult(2, 1)


def test_other_programs_read_the_table(tmp_path: Path) -> None:
    import duckdb
    import polars

    lake_table = table_at(tmp_path)
    added(lake_table, {"2025-11-19": 2} | TODAY, 1, queue="a/b c")
    expected = [(date(2025, 11, 19), "a/b c", 2), (date(2025, 11, 20), "a/b c", 3)]
    rows = opened(lake_table).to_pyarrow_dataset()
    query = "select day, queue, count(event_id) from rows group by all order by day"
    answer = duckdb.sql(query)
    assert rows is not None and answer is not None and answer.fetchall() == expected
    found = polars.read_delta(lake_table.uri).group_by("day", "queue").len().sort("day")
    assert found.rows() == expected


def exported(server: redis.Redis, url: str, lake: Path, start: int) -> int:
    """Add a queue's history and dead letters to a lake; returns where the next run starts."""
    end = run(server, server_ms()) + 1
    while run(server, server_ms()) < end:
        pass
    for name, time in APPEND_TABLES.items():
        lake_table = table_at(lake, name)
        known = {"mail": start} if start else {}
        lake_table.created()
        read = reading(url, name, queue="mail", since=str(start), until=str(end - 1))
        rows = pa.concat_batches([b for part in read.plan() for b in read.read(part)]).to_pylist()
        schema = lake_table.columns.append(pa.field("day", pa.string()))
        dated = [row | {"day": f"{row[time]:%Y-%m-%d}"} for row in rows]
        files = list(lake_table.write_files([pa.RecordBatch.from_pylist(dated, schema=schema)]))
        lake_table.commit("r", end, files, known, {"mail": end}, {})
    return end


def test_a_report_of_a_lake_without_spark_is_that_of_the_server_also_as_it_was(
    redisq: Redisq, client: redis.Redis, url: str, tmp_path: Path
) -> None:
    def report(*words: str) -> list[Any]:
        # What a lake can't know: clients' weights, tasks, and when the report was asked for.
        own = {"report", "critical_paths", "tasks"}
        return [row for row in redisq.rows("report", "mail", *words) if row["table"] not in own]

    queue = dead_letters(client, 12)
    queue.configure("op", 1, {"history": "all"})
    then = exported(client, url, tmp_path, 0)
    before, at = report(), datetime.now(UTC)
    assert [row["entries"] for row in before if row["table"] == "dead_groups"] == [12]
    assert report("--lake", str(tmp_path)) == before
    queue.submit([b"x"] * 3, id="r2", limit=3)
    taken = queue.take(3, consumer="w1").deliveries
    queue.settle([Settlement(one, "reject", ERROR.encoded()) for one in taken])
    exported(client, url, tmp_path, then)
    assert report() == report("--lake", str(tmp_path)) != before
    assert report("--lake", str(tmp_path), "--as-of", at.isoformat()) == before
    early = ("--lake", str(tmp_path), "--as-of", "1h")
    assert "no lake at" in redisq.refusal("report", "mail", *early, code=2)


FEATURES = (
    '{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["?"],"writerFeatures":["?"]}'
)
INT = r"\"name\":\"shard\",\"type\":\"integer"


@pytest.mark.parametrize(
    ("version", "text", "code", "why"),
    [
        (
            3,
            '{"minReaderVersion":9,"minWriterVersion":9}',
            1,
            "version 9: a newer program wrote it",
        ),
        (
            3,
            FEATURES.replace("?", "telepathy"),
            1,
            "'telepathy' is not supported: a newer program wrote it",
        ),
        (3, FEATURES.replace("?", "deletionVectors"), 1, "Delta's protocol 3 (deletionVectors)"),
        (0, "of another type", 1, "its column shard is string, here int32"),
        (0, None, 2, "No table metadata or protocol"),
        (1, None, 2, "found gap; if files are damaged or missing, restore them"),
        (1, '{"add', 2, "Truncated record"),
        (None, None, 2, "not a Delta table"),
    ],
)
def test_a_damaged_or_newer_table_is_refused_in_one_line_before_spark_starts(
    version: int | None,
    text: str | None,
    code: int,
    why: str,
    tmp_path: Path,
    url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lake_table = table_at(tmp_path)
    for k in range(2):
        added(lake_table, TODAY, k + 1, start=k)
    log = tmp_path / "history" / "_delta_log"
    file = log / f"{version or 0:020}.json"
    if version is None:
        shutil.rmtree(log)
    elif text is None:
        file.unlink()
    elif version == 0:
        file.write_text(file.read_text().replace(INT, INT.replace("integer", "string")))
    else:
        file.write_text(f'{{"protocol":{text}}}\n' if version == 3 else text)
    before = sorted(tmp_path.rglob("*"))
    query = "select 1 from history"
    for words in (["report"], ["sql", query], ["groups"], ["history"], ["export", "--table=dead"]):
        assert run_command(["--url", url, "spark", *words, "--lake", str(tmp_path)]) == code, words
        err = capsys.readouterr().err
        assert why in err and len(err.splitlines()) == 1, err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_missing_or_damaged_file_is_named_and_nothing_is_merged(tmp_path: Path) -> None:
    lake_table = table_at(tmp_path)
    for k in range(2):
        added(lake_table, {"2025-11-19": 2}, k + 1, start=k)
    file = next(tmp_path.rglob("day=*/*.parquet"))
    whole = file.read_bytes()
    for missing in (False, True):
        file.unlink() if missing else file.write_bytes(whole[:-9])
        with pytest.raises(BadInput, match="restore them") as raised:
            lake_table.maintain(NOON)
        assert "\n" not in str(raised.value)
    file.write_bytes(whole)
    assert lake_table.maintain(NOON) == MaintenanceResult(2, 1)


# --- object stores --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def object_store() -> Iterator[str]:
    """The address of a server of S3's protocol with a bucket."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    silent = subprocess.DEVNULL

    def bucket_made() -> bool:
        with suppress(ConnectionError), closing(HTTPConnection(url[7:])) as connection:
            connection.request("PUT", "/data")
            return connection.getresponse().status == 200
        return False

    with subprocess.Popen(words, stdout=silent, stderr=silent) as server:
        try:
            eventually(bucket_made)
            yield url
        finally:
            server.kill()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    def use(url: str) -> str:
        options = {"ENDPOINT_URL": url, "ALLOW_HTTP": "true", "REGION": "us-east-1"}
        for name, text in (options | {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}).items():
            monkeypatch.setenv(f"AWS_{name}", text)
        return "s3://data/lake"

    return use


def test_an_object_store_holds_a_lake(bucket: Callable[[str], str], object_store: str) -> None:
    lake_table = table_at(bucket(object_store))
    assert lake_table.opened() is None
    added(lake_table, {"2025-11-19": 1}, 1)
    added(lake_table, {"2025-11-19": 1}, 2, start=1)
    with pytest.raises(Overtaken):
        added(lake_table, TODAY, 3, start=1)
    assert lake_table.maintain(NOON) == MaintenanceResult(2, 1)
    assert len(ids(lake_table)) == 2
    assert lake_table.spark_paths(opened(lake_table))[0].startswith("s3a://data/lake/history/day=")


def test_an_object_store_that_refuses_or_stalls_is_one_line(
    bucket: Callable[[str], str], object_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redisq_ops.pipeline.lake import lake_table

    short = {"timeout": "50ms", "max_retries": "0"}
    monkeypatch.setattr(lake_table, "_BOUNDED", lake_table._BOUNDED | short)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        place = bucket(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Unreachable, match="timed out: the object store doesn't answer"):
            table_at(place).opened()
    with pytest.raises(Unreachable, match="Connection refused"):
        table_at(bucket("http://127.0.0.1:1")).opened()
    bucket(object_store)
    with pytest.raises(BadInput, match="bucket does not exist"):
        table_at("s3://nobody/lake").opened()


# --- with Spark, where one kind of server is enough -----------------------------------------------


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url, protocol=3) as client:
        client.flushall()
        yield client


def reader(spark: "SparkSession", url: str) -> lake_export.ReadTable:
    def read(name: str, **options: str) -> "DataFrame":
        given = {"table": name, "url": url, **options}
        return spark.read.format("redisq").options(**given).load()

    return read


def test_repeated_killed_and_concurrent_exports_store_each_event_once(
    spark: "SparkSession",
    valkey: redis.Redis,
    valkey_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, read = Server(ServerAddress(valkey_url)), reader(spark, valkey_url)
    queues = [RequestQueue(valkey, name) for name in ("mail", "1234")]

    def happen(n: int) -> None:
        for queue in queues:
            queue.submit([b"x"] * n, id=f"r{queue.now()}")
            while taken := queue.take(100, consumer="w1").deliveries:
                queue.settle([Settlement(each, "reject", ERROR.encoded()) for each in taken])

    def export(read: lake_export.ReadTable = read) -> lake_export.ExportResult:
        until = run(valkey, server_ms()) + 1
        while run(valkey, server_ms()) < until:
            pass
        return lake_export.export(server, read, "history", Lake(str(tmp_path)), until_ms=until)

    def found() -> list[Any]:
        return lake_export.read_table(spark, Lake(str(tmp_path)), "history").collect()

    for queue in queues:
        queue.configure("op", 1, {"history": "all"})
    happen(30)
    first = export()
    assert first.rows > 100 and len(found()) == first.rows
    assert export().rows == 0 and len(found()) == first.rows
    happen(20)
    commit = LakeTable.commit

    def killed(*given: Any) -> int:
        if late:
            commit(*given)
        raise _Killed

    for late in (False, True):
        monkeypatch.setattr(LakeTable, "commit", killed)
        with pytest.raises(_Killed):
            export()
        monkeypatch.setattr(LakeTable, "commit", commit)
        assert (len(found()) > first.rows) == late
    assert export().rows == 0
    happen(10)

    def overtaken(name: str, **options: str) -> "DataFrame":
        others.append(export())  # begins later and ends earlier
        return read(name, **options)

    others: list[lake_export.ExportResult] = []
    with monkeypatch.context() as patch:
        patch.setattr(lake_export, "_ATTEMPTS", 1)
        with pytest.raises(Overtaken):
            export(overtaken)
    assert export().rows == 0 and others[0].rows > 0
    rows = Counter((r.queue, r.event_id, r.event, r.id, r.day) for r in found())
    direct = Counter(
        (r.queue, r.event_id, r.event, r.id, r.at.date()) for r in read("history").collect()
    )
    assert rows == direct and rows.total() > first.rows


class _Killed(Exception):
    pass


def test_a_snapshot_table_has_one_snapshot_per_day(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    server, read = Server(ServerAddress(valkey_url)), reader(spark, valkey_url)
    queue = RequestQueue(valkey, "mail")
    queue.submit([b"x"] * 30, id="r1")
    place = str(tmp_path)
    assert lake_export.export(server, read, "waiting", Lake(place)).rows == 30
    queue.take(4, consumer="w1")
    assert lake_export.export(server, read, "waiting", Lake(place)).rows == 26
    found = lake_export.read_table(spark, Lake(place), "waiting")
    assert found.count() == 26 == found.where("exported_at is not null").count()


def test_later_exports_add_new_dead_letters_and_new_columns(
    spark: "SparkSession",
    valkey: redis.Redis,
    valkey_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, read = Server(ServerAddress(valkey_url)), reader(spark, valkey_url)
    dead_letters(valkey, 12)

    def export(**options: str) -> lake_export.ExportResult:
        until = run(valkey, server_ms()) + 1
        place = Lake(str(tmp_path))
        return lake_export.export(
            server, read, "dead", place, until_ms=until, queues=["mail"], **options
        )

    with monkeypatch.context() as patch:  # an older release without a column
        old = arrow(TABLES["dead"])
        patch.setattr(
            "redisq_ops.pipeline.lake.lake_table.arrow",
            lambda _: old.remove(old.get_field_index("op")),
        )
        assert export(payloads="true").rows == 12
    assert export().rows == 0
    queue = RequestQueue(valkey, "mail")
    queue.submit([b"y"] * 3, id="r2")
    queue.settle([Settlement(d, "reject", b"") for d in queue.take(9, consumer="w1").deliveries])
    assert export(payloads="true").rows == 3
    found = lake_export.read_table(spark, Lake(str(tmp_path)), "dead").collect()
    assert Counter(bytes(row.payload) for row in found) == {b"x": 12, b"y": 3}
    assert "op" in opened(table_at(tmp_path, "dead")).schema().to_arrow().names


def test_a_changed_or_missing_file_is_an_error_that_names_it(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Pages have checksums, which Spark compares if it is asked to."""
    lake_table = table_at(tmp_path)
    added(lake_table, TODAY, 1)
    (file,) = tmp_path.rglob("*.parquet")
    lake = Lake(str(tmp_path))
    read = lake_export.read_table(spark, lake, "history").select("event_id")
    assert read.count() == 3
    rows = pq.read_table(file)
    pq.write_table(rows, file, compression="none", use_dictionary=False, write_page_checksum=True)
    file.write_bytes(file.read_bytes().replace(b"2025-11-20-1", b"2025-11-20-9", 1))
    for missing in (False, True):
        if missing:
            file.unlink()
        with pytest.raises(Exception) as raised:
            lake_export.read_table(spark, Lake(str(tmp_path)), "history").select(
                "event_id"
            ).collect()
        error = translate_job_error(raised.value)
        assert isinstance(error, BadInput) and file.name in str(error), error
