"""Writing to queues: exactly once, whoever dies; what can't be written is refused or listed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import redis
from pyspark.sql.types import StructType

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput, Exists, TooLarge, Unreachable
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.deployment import Deployment
from redisq_ops.pipeline.session.data_source import RedisqDataSource
from redisq_ops.pipeline.sink.entry_writer import EntryWriter, Partition
from redisq_ops.pipeline.sink.write_options import parse_write_options

from ..command_line import Redisq
from ..conftest import BINARIES
from ..core.cluster.test_failover import until
from .killed_writer import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("request", "delay", "fair", "circular")
ID = {"request": "request", "delay": "id", "fair": "id", "circular": "id"}


def write(
    url: str, kind: str, rows: list[dict[str, Any]], batch: int = 0, job: str = "j", **options: str
) -> Any:
    """Write rows as one task does, and return its counts."""
    parsed = parse_write_options({"queue": kind, "kind": kind, "url": url, **options})
    names = list(dict.fromkeys(name for row in rows for name in row))
    types = {"priority": pa.int32(), "ready_at": pa.timestamp("us", tz="UTC")}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    batches = pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=7)
    return EntryWriter(parsed.server(), parsed, kind, Partition(job, batch, 0)).write(batches)


def drained(client: redis.Redis, name: str) -> Counter[bytes]:
    """Take and acknowledge all that waits: how often each payload came."""
    queue: Any = run(client, Deployment(client).named(name))
    found: Counter[bytes] = Counter()
    while taken := queue.take(100, consumer="w").deliveries:
        found.update(one.payload for one in taken)
        queue.settle([Settlement(one, "ack") for one in taken])
    return found


def row(kind: str, n: int, **other: Any) -> dict[str, Any]:
    made: dict[str, Any] = {ID[kind]: f"e{n}", "payload": f"p{n}"}
    if kind == "fair":
        made["client"] = f"c{n % 3}"
    return made | other


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_written_once_even_after_its_entries_are_done(
    kind: str, client: redis.Redis, url: str
) -> None:
    rows = [row(kind, n) for n in range(1300)]
    assert write(url, kind, rows).rows == 1300
    first = drained(client, kind)
    assert first == Counter(f"p{n}".encode() for n in range(1300))
    write(url, kind, rows)  # the task is repeated
    assert not drained(client, kind)
    later = [row(kind, n) for n in range(1300, 1400)]
    write(url, kind, later, batch=1)
    assert drained(client, kind) == Counter(f"p{n}".encode() for n in range(1300, 1400))
    write(url, kind, rows)  # and once more, late
    assert not drained(client, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_cannot_be_written_are_refused_or_listed(
    kind: str, client: redis.Redis, url: str, tmp_path: Path
) -> None:
    bad = [
        row(kind, 1, **{ID[kind]: None}),
        row(kind, 2, **{ID[kind]: "a/b"}),
        row(kind, 3, payload=None),
        row(kind, 4, payload="x" * 101),
    ]
    if kind == "request":
        bad += [row(kind, n, priority=p) for n, p in ((5, -1), (6, 10**9), (7, None))]
    if kind == "fair":
        bad.append(row(kind, 5, client=None))
    if kind == "delay":
        at = datetime(2020, 1, 1, tzinfo=UTC)
        bad = [each | {"ready_at": at} for each in bad]
        bad += [row(kind, 5, ready_at=None), row(kind, 6, ready_at=at.replace(year=1990))]
    fitting: dict[str, dict[str, Any]] = {
        "request": {"priority": 7},
        "delay": {"ready_at": datetime(2021, 1, 1, tzinfo=UTC)},
    }
    good = [row(kind, 8, **fitting.get(kind, {}))]
    for each in bad:
        with pytest.raises((BadInput, TooLarge), match=r"batch 0, partition 0, row 1.*rejects"):
            write(url, kind, [good[0] | each], maxPayload="100")
    rows = [good[0] | each for each in bad] + good
    counts = write(url, kind, rows, maxPayload="100", rejects=str(tmp_path / "bad"))
    assert (counts.rows, counts.rejected) == (len(bad) + 1, len(bad))
    (file,) = (tmp_path / "bad").iterdir()
    assert "option maxPayload" in file.read_text()
    listed = [json.loads(line) for line in file.read_text().splitlines()]
    assert [each["row"] for each in listed] == list(range(1, len(bad) + 1))
    assert all(each["reason"] for each in listed)
    assert drained(client, kind) == {b"p8": 1}
    if kind in ("delay", "fair"):
        write(url, kind, good, job="next")
        with pytest.raises(Exists, match=r"e8.*other content"):
            write(url, kind, [good[0] | {"payload": "else"}], job="other")


@pytest.mark.parametrize("kind", ["request", "delay", "fair"])
def test_each_row_that_is_there_with_other_content_or_was_purged_is_listed(
    kind: str, client: redis.Redis, url: str, redisq: Redisq, tmp_path: Path
) -> None:
    at = {"ready_at": datetime(2021, 1, 1, tzinfo=UTC)} if kind == "delay" else {}
    rows = [row(kind, n, **at) for n in range(40)]

    def listed(job: str, rows: list[dict[str, Any]]) -> list[str]:
        counts = write(url, kind, rows, job=job, rejects=str(tmp_path))
        lines = (tmp_path / f"{job}-0-0.ndjson").read_text().splitlines()
        assert (counts.rows, counts.rejected) == (40, len(lines))
        return sorted(json.loads(line)["request"] for line in lines)

    ids = sorted(each[ID[kind]] for each in rows)
    assert listed("first", rows) == listed("again", rows) == []
    assert listed("other", [each | {"payload": "else"} for each in rows]) == ids
    redisq("purge", kind, "--state", "waiting", "--yes")
    assert listed("purged", rows) == ids
    with pytest.raises(Exists, match=r"request e0.*purged or moved"):
        write(url, kind, rows, job="refused")


@pytest.mark.parametrize("kind", ["request", "delay", "fair"])
def test_a_repeated_task_keeps_the_rejects_that_an_earlier_run_listed(
    kind: str, client: redis.Redis, url: str, tmp_path: Path
) -> None:
    at = {"ready_at": datetime(2021, 1, 1, tzinfo=UTC)} if kind == "delay" else {}
    rows = [row(kind, n, **at) for n in range(1700)]
    write(url, kind, [rows[7] | {"payload": "else"}], job="earlier")
    rows[11]["payload"] = None
    given = {"queue": kind, "kind": kind, "url": url, "rejects": str(tmp_path)}
    options = parse_write_options(given)
    (whole,) = pa.Table.from_pylist(rows).to_batches()
    file = tmp_path / "j-0-0.ndjson"

    def listed() -> list[str]:
        return sorted(json.loads(line)["request"] for line in file.read_text().splitlines())

    def fails() -> Iterator[pa.RecordBatch]:
        yield whole.slice(0, 1600)
        assert listed() == ["e11", "e7"], "at once, should the process be killed now"
        raise Unreachable("can't reach the server")

    def run_task(batches: Any) -> Any:
        return EntryWriter(options.server(), options, kind, Partition("j", 0, 0)).write(batches)

    for _ in range(2):
        with pytest.raises(Unreachable):
            run_task(fails())
    counts = run_task([whole])
    assert (counts.rows, counts.rejected, listed()) == (1700, 2, ["e11", "e7"])
    assert sum(drained(client, kind).values()) == 1699


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_may_be_away_for_most_of_a_minute(kind: str) -> None:
    """A task waits for it and goes on; after a minute it fails, so that Spark repeats it."""
    rows = [row(kind, n) for n in range(700)]
    durable = ("--appendfsync", "always")
    with EmbeddedServer(BINARIES["valkey"], appendonly=True, args=durable) as server:
        options = parse_write_options({"queue": kind, "kind": kind, "url": server.url})
        pauses: list[float] = []

        def wait(seconds: float) -> None:
            pauses.append(seconds)
            if sum(pauses) > 40 and server.pid is None:
                server.restart()

        def batches() -> Iterator[pa.RecordBatch]:
            (batch,) = pa.Table.from_pylist(rows).to_batches()
            yield batch.slice(0, 600)
            server.kill()
            yield batch.slice(600)

        writer = EntryWriter(options.server(), options, kind, Partition("j", 0, 0), wait)
        assert writer.write(batches()).rows == 700
        assert 40 < sum(pauses) < 46
        with redis.Redis.from_url(server.url) as client:
            assert drained(client, kind) == Counter(f"p{n}".encode() for n in range(700))
        server.kill()
        pauses.clear()
        gone = EntryWriter(options.server(), options, kind, Partition("j", 1, 0), pauses.append)
        with pytest.raises(Unreachable, match="can't reach the server"):
            gone.write(batches())
        assert 50 < sum(pauses) <= 60


def test_schemas_and_options_that_do_not_fit_are_refused_in_one_line(
    client: redis.Redis, url: str
) -> None:
    def struct(ddl: str) -> StructType:
        made = StructType()
        for column in ddl.split(", "):
            name, type_name = column.split(" ")
            made.add(name, type_name)
        return made

    def refusal(schema: str, overwrite: bool = False, **options: str) -> str:
        source = RedisqDataSource({"queue": "q", "url": url, **options})
        for make in (source.writer, source.streamWriter):
            with pytest.raises(BadInput) as refused:
                make(struct(schema), overwrite)
            assert refused.value.exit_code == 2 and "\n" not in str(refused.value)
        return str(refused.value)

    assert "no column 'paylaod'" in refusal("request string, paylaod string")
    assert "payload is long, not binary or string" in refusal("request string, payload long")
    assert "payload is missing" in refusal("request string")
    assert "request is missing" in refusal("payload string")
    assert "client is missing" in refusal("id string, payload string", kind="fair")
    assert "mode append" in refusal("request string, payload string", overwrite=True)
    assert "did you mean queue" in refusal("request string, payload string", qeue="q")
    assert "expected one of request" in refusal("payload string", kind="list")
    assert "limit 5000: must be 1 to 1000" in refusal("payload string", limit="5000")
    assert client.dbsize() == 0


@pytest.mark.slow
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_a_frame_is_written_and_errors_are_one_line(
    spark: SparkSession, client: redis.Redis, url: str, tmp_path: Path
) -> None:
    frame = spark.range(2000).selectExpr(
        "concat('e', id) id", "concat('p', id) payload", "timestamp_millis(1700000000500) ready_at"
    )

    def save(rows: Any) -> None:
        rows.write.format("redisq").options(queue="later", kind="delay", url=url).mode(
            "append"
        ).save()

    save(frame)
    save(frame)  # ids are their own guard while the entries are there
    assert drained(client, "later") == Counter(f"p{n}".encode() for n in range(2000))
    with pytest.raises(Exception, match=r"^\[.*BadInput: a delay queue has no column 'client' to"):
        save(frame.selectExpr("*", "'c' client"))
    with pytest.raises(Exception, match=r"^An exception .*\n\S*BadInput: batch 0, .*: no id"):
        save(frame.selectExpr("if(id = 'e7', null, id) id", "payload"))
    # A stream's has the reason in its first line, whether a task failed or its writer was refused.
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines").write_text("a b")
    lines = spark.readStream.text(str(tmp_path / "in")).selectExpr("value payload", "value id")
    for kind, reason in (("delay", "id 'a b' can't be used"), ("list", "expected one of request")):
        options = {"queue": "bad", "url": url, "checkpointLocation": str(tmp_path / kind)}
        stream = lines.writeStream.format("redisq").options(kind=kind, **options)
        with pytest.raises(Exception, match=rf"^\[STREAM_FAILED\].*BadInput: .*{reason}"):
            stream.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.slow
@pytest.mark.parametrize("server", ["valkey"], indirect=True)
def test_a_stream_is_written_exactly_once_though_tasks_and_the_driver_are_killed(
    client: redis.Redis, url: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    for file in range(2):
        lines = [
            json.dumps({"client": f"c{n % 3}", "id": f"e{file}-{n}", "payload": f"p{file}-{n}"})
            for n in range(1000)
        ]
        path = tmp_path / "in" / f"{file}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (file, file))
    program = [sys.executable, "-m", "tests.pipeline.killed_writer", url, str(tmp_path)]
    found: dict[str, Counter[bytes]] = {kind: Counter() for kind in COLUMNS}

    def work() -> None:
        for kind in COLUMNS:
            if run(client, Deployment(client).named(kind)) is not None:
                found[kind] += drained(client, kind)

    with subprocess.Popen(program, start_new_session=True) as driver:
        try:
            until(lambda: (tmp_path / "waiting").exists() or driver.poll() is not None, 200)
            assert driver.poll() is None
            work()  # what is there already is done before the rest is written
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
    subprocess.run(program, check=True, timeout=400)
    work()
    deaths = {path.name for path in tmp_path.glob("died-*")}
    assert deaths == {f"died-{kind}" for kind in COLUMNS}
    expected = Counter(f"p{file}-{n}".encode() for file in range(2) for n in range(1000))
    assert found == dict.fromkeys(COLUMNS, expected)
