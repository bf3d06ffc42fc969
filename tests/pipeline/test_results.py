"""Results as a dataset, the documented job, and the messages of the commands."""

import csv
import json
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from benchmarks.foreign_jobs import fill
from redisq_ops import RequestQueue, Worker
from redisq_ops.cli.commands import spark_replay
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.errors import BadInput, Refused
from redisq_ops.pipeline.jobs import results
from tests.command_line import Redisq, dead_letters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url, protocol=3) as client:
        client.flushall()
        yield client


def table(spark: "SparkSession", url: str, **options: str) -> "DataFrame":
    return spark.read.format("redisq").options(table="results", url=url, **options).load()


def worked(client: redis.Redis) -> RequestQueue[redis.Redis]:
    """Two requests done, with a result each and one without; one request still waits."""
    queue = RequestQueue(client, "mail")
    for id in ("day-1", "day-2"):
        queue.submit([b"%d" % n for n in range(120)], id=id)

    def handle(delivery: Any) -> bytes | None:
        n = int(delivery.payload)
        return None if n == 7 else b"\xff%d" % n if n == 8 else b"result %d" % n

    Worker(queue, handle, burst=True).run()
    queue.submit([b"x"], id="later")
    return queue


# --- with Spark -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_results_are_written_in_order_as_bytes(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    worked(valkey)
    picked = results.select_requests(table(spark, valkey_url, queue="mail"), prefix="day-")
    done = results.write(picked, tmp_path / "out", "parquet")
    assert (dict(done.states), done.results, done.exit_code) == ({"done": 240}, 238, 0)
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("request", "number").collect()
    assert [(r.request, r.number) for r in rows] == [
        (f"day-{k}", n) for k in (1, 2) for n in range(1, 121)
    ]
    assert rows[7].result is None and bytes(rows[8].result) == b"\xff8"
    with pytest.raises(Refused, match="--overwrite"):
        results.write(picked, tmp_path / "out", "parquet")
    everything = results.write(
        results.select_requests(table(spark, valkey_url, queue="mail")),
        tmp_path / "out",
        "parquet",
        overwrite=True,
    )
    assert everything.states["waiting"] == 1 and everything.exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_results_as_lines_and_as_json(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    worked(valkey)
    picked = results.select_requests(
        table(spark, valkey_url, queue="mail", request="day-1"), ["day-1"]
    )
    results.write(picked, tmp_path / "text", "text")
    lines = b"".join(path.read_bytes() for path in sorted((tmp_path / "text").glob("part-*")))
    expected = [b"\xff8" if n == 8 else b"result %d" % n for n in range(120) if n != 7]
    assert lines.split(b"\n")[:-1] == expected
    results.write(picked, tmp_path / "json", "json")
    rows = [
        json.loads(line)
        for path in sorted((tmp_path / "json").glob("part-*"))
        for line in path.read_text().splitlines()
    ]
    assert [row["number"] for row in rows] == list(range(1, 121))
    assert (rows[0]["result"], rows[0]["result_b64"]) == ("result 0", None)
    assert (rows[8]["result"], rows[8]["result_b64"]) == (None, "/zg=")
    with pytest.raises(BadInput, match="--format xml"):
        results.write(picked, tmp_path / "xml", "xml")


@pytest.mark.slow
def test_results_of_an_echo_in_one_file_equal_the_input(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    """Eleven requests: sorted as text, the eleventh would come before the second."""
    given = b"".join(b"line %d \xff\r\n" % n for n in range(105)) + b"\n\nend\n"
    lines = given.split(b"\n")[:-1]
    queue = RequestQueue(valkey, "mail")
    for n in range(11, 0, -1):
        queue.submit(lines[n * 10 - 10 : n * 10 if n < 11 else None], id=f"day-{n}")
    Worker(queue, lambda delivery: delivery.payload, burst=True).run()
    picked = results.select_requests(table(spark, valkey_url, queue="mail"))
    out = tmp_path / "out.txt"
    results.write(picked, out, "text", single_file=True)
    assert out.read_bytes() == given
    results.write(picked, tmp_path / "folder", "text")
    parts = sorted((tmp_path / "folder").glob("part-*"))
    assert b"".join(part.read_bytes() for part in parts) == given
    results.write(picked, tmp_path / "out.csv", "csv", single_file=True)
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["request"] for row in rows[::10]] == [f"day-{n}" for n in range(1, 12)]
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", "out.csv", "folder"}


@pytest.mark.slow
def test_a_result_is_no_formula_of_a_spreadsheet(spark: "SparkSession") -> None:
    cells = ["=1+1", "+x", "-cmd", "@a", "\t=1", "-5", "+1.5", "plain", "", None]
    frame = spark.createDataFrame([(cell, 1) for cell in cells], "result string, number int")
    found = [row["result"] for row in results._without_formulas(frame).collect()]
    assert found == ["'=1+1", "'+x", "'-cmd", "'@a", "'\t=1", "-5", "+1.5", "plain", "", None]


def test_a_missing_request_leaves_the_previous_results(
    valkey: redis.Redis, valkey_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused before a JVM starts."""
    RequestQueue(valkey, "mail").submit([b"x"], id="day-1")
    out = tmp_path / "out.txt"
    out.mkdir()
    (out / "part-0").write_text("earlier")
    command = Redisq(valkey_url, capsys)
    words = ["spark", "results", str(out), "day-1", "day-2", "--overwrite"]
    message = command.refusal(*words, "--queue", "mail", code=1)
    assert message == "no request day-2 in queue mail"
    assert "no queue 'post'" in command.refusal(*words, "--queue", "post", code=1)
    assert "--overwrite" in command.refusal(*words[:-1], "--queue", "mail", code=1)
    assert (out / "part-0").read_text() == "earlier"


# --- the commands ---------------------------------------------------------------------------------


class SharedSession:
    """The tests' session for commands that stop the session they start."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def stop(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)


@pytest.fixture
def redisq(
    spark: "SparkSession",
    valkey_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Redisq:
    from redisq_ops.cli import spark_session as running
    from redisq_ops.cli.commands import spark_lake, spark_replay
    from redisq_ops.cli.spark_session import frame as read

    def frame(s: Any, session: Any, name: str, **options: str) -> Any:
        return read(s, session, name, url=valkey_url, **options)

    monkeypatch.setattr(running, "started", lambda s, given, *, waits: SharedSession(spark))
    for module in (spark_lake, spark_replay):
        monkeypatch.setattr(module, "frame", frame)
    return Redisq(valkey_url, capsys)


@pytest.mark.slow
def test_replay_is_planned_confirmed_carried_out_logged_and_undone(
    redisq: Redisq, valkey: redis.Redis, tmp_path: Path
) -> None:
    queue = dead_letters(valkey, 130)
    entry = queue.page("dead", max=1).entries[0]
    from redisq_ops.ops.groups.fingerprint import fingerprint

    group = ["spark", "replay", "--group", fingerprint(entry), "--reason", "the relay is back"]
    (plan,) = redisq.rows(*group, "--rate", "100000/s", "--dry-run")
    assert (plan["matched"], plan["queue"]) == (130, "mail")
    assert plan["filter"] == f"group {fingerprint(entry)}"
    assert queue.counts().dead == 130
    (earlier,) = redisq.rows("spark", "replay", "--all", "--until", "1h", "--dry-run")
    assert earlier["matched"] == 0
    assert "--yes" in redisq("spark", "replay", "--all", code=5) + redisq.err
    file = str(tmp_path / "plan.ndjson")
    (planned,) = redisq.rows(*group, "--plan", file)
    assert planned["matched"] == queue.counts().dead == 130
    (done,) = redisq.rows("apply", file, "--yes")
    assert (done["matched"], done["done"], done["skipped"]) == (130, 130, {})
    assert queue.counts().waiting == 130
    (again,) = redisq.rows(*group, "--yes")
    assert again["matched"] == 0
    (logged,) = redisq.rows("log")
    assert (logged["id"], logged["done"], logged["reason"]) == (
        done["op"],
        130,
        "the relay is back",
    )
    redisq("undo", done["op"], "--yes")
    assert queue.counts().dead == 130
    assert "undone" in redisq.refusal("apply", file, "--yes", code=1)


def test_jobs_of_another_program_are_replayed_with_canary_plan_and_undo(
    without_jvm: Redisq, valkey: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark chose, the command changes as every change is made."""

    def choose(s: Any, session: Any, state: State, between: Any, given: Any, drafts: Any) -> None:
        for made in drafts.values():
            made.add([Entry(f"d1{n}", state) for n in range(10)])

    def kept() -> dict[Any, Any]:
        return {key: valkey.dump(key) for key in before}

    monkeypatch.setattr(spark_replay, "on_spark", lambda *_: nullcontext())
    monkeypatch.setattr(spark_replay, "_choose", choose)
    fill(valkey, "bullmq", 40)
    before: dict[Any, Any] = dict.fromkeys(valkey.keys("bull:*"))
    before = kept()
    chosen = ["spark", "replay", "--queue", "bullmq:mail", "--where", "id like 'd1%'"]
    (plan,) = without_jvm.rows(*chosen, "--dry-run")
    assert plan["matched"] == 10 and kept() == before
    (canary,) = without_jvm.rows(*chosen, "--yes", "--canary", "2", "--watch", "1s", code=None)
    assert (canary["done"], canary["left"]) == (2, 8), "nobody took them: the others stay"
    without_jvm("undo", canary["op"], "--yes")
    (done,) = without_jvm.rows(*chosen, "--yes")
    assert done["done"] == 10 and valkey.zcard("bull:mail:failed") == 30
    without_jvm("undo", done["op"], "--yes")
    assert kept() == before
    file = str(tmp_path / "plan.ndjson")
    without_jvm.rows(*chosen, "--plan", file)
    assert kept() == before
    (applied,) = without_jvm.rows("apply", file, "--yes")
    assert applied["done"] == 10


@pytest.mark.slow
def test_requeue_returns_pending_entries_selected_by_sql(
    redisq: Redisq, valkey: redis.Redis, valkey_url: str
) -> None:
    queue = RequestQueue(valkey, "mail")
    queue.submit([b"x"] * 20, id="r1", limit=100)
    queue.take(8, consumer="gone")
    queue.take(4, consumer="w2")
    words = ["spark", "requeue", "--queue", "mail", "--where", "consumer = 'gone'", "--yes"]
    (done,) = redisq.rows(*words)
    assert done["done"] == 8
    assert (queue.counts().pending, queue.counts().waiting) == (4, 16)
    assert "--where:" in redisq.refusal(*words[:5], "nobody = 1", "--yes", code=2)
    assert "choose entries with" in redisq.refusal("spark", "replay", "--yes", code=2)


@pytest.mark.slow
def test_submit_export_and_results_by_command(
    redisq: Redisq, valkey: redis.Redis, tmp_path: Path
) -> None:
    source = tmp_path / "in.csv"
    source.write_text("id,text\n" + "".join(f"r{n % 3},row {n}\n" for n in range(30)))
    words = ["spark", "submit", str(source), "--queue", "mail", "--id", "id", "--payload", "text"]
    (size,) = redisq.rows(*words, "--split", "4", "--dry-run")
    assert (size["requests"], size["entries"], size["rows"]) == (3, 9, 30)
    assert valkey.dbsize() == 0
    rejects = tmp_path / "rejects"
    short = [*words, "--max-payload", "5", "--skip-invalid", str(rejects)]
    (counted,) = redisq.rows(*short[:-2], "--dry-run", code=1)
    assert (counted["refused"], counted["entries"]) == (20, 10)
    redisq(*short[:-2], code=1)
    assert f"redisq: {source}, row 11, request r1: 6 bytes, over the limit" in redisq.err
    assert valkey.dbsize() == 0 and not rejects.exists()
    redisq(*short[:3], "--queue", "short", *short[5:], code=3)
    assert "not submitted: 20 rows, listed in " in redisq.err
    listed = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(row["file"], row["row"]) for row in listed] == [
        (str(source), n) for n in range(11, 31)
    ]
    valkey.flushall()
    (done,) = redisq.rows(*words, "--split", "4", "--limit", "8")
    assert (done["requests"], done["entries"]) == ({"ok": 3}, 9)
    assert "3 requests with 9 sub-requests of the input; 3 requests of these had" in redisq(
        *words, "--split", "4", "--limit", "8"
    )
    assert "1 exists" not in redisq.err
    assert redisq.err == "starting Spark…\n"
    redisq(*words, "--split", "5", "--limit", "8", code=1)
    assert "3 exists" in redisq.err
    assert "no column 'who'" in redisq.refusal(*words[:-3], "who", code=2)
    lake = str(tmp_path / "lake")
    (row,) = redisq.rows("spark", "export", "--table", "waiting", "--lake", lake)
    assert row["rows"] == 9
    Worker(RequestQueue(valkey, "mail"), lambda d: d.payload.upper(), burst=True).run()
    out = tmp_path / "out.txt"
    assert "9 results" in redisq("spark", "results", str(out), "r0", "r1", "r2", "--queue", "mail")
    none = ["spark", "results", str(out), "--queue", "mail", "--starting", "typo-", "--overwrite"]
    assert "nothing was written" in redisq.refusal(*none, code=1)
    assert b"ROW 0\nROW 3" in b"".join(p.read_bytes() for p in sorted(out.glob("part-*")))


@pytest.fixture
def without_jvm(
    valkey_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Redisq:
    """The command line in a process that can start no Spark."""
    from redisq_ops.cli import spark_session as running

    monkeypatch.setattr(running, "started", None)
    return Redisq(valkey_url, capsys)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("submit x.csv", "--id COLUMN"),
        ("submit x.csv --id a --split 0", "--split"),
        ("replay --yes", "choose entries with"),
        ("requeue --state dead --all", "requeue is for"),
        ("replay --all --canary 2 --plan p.ndjson", "say --canary and --ramp to redisq apply"),
        ("export --table nothing --lake lake", "no table 'nothing'"),
        ("export --table dead --lake lake --on-trim x", "onTrim 'x'"),
        ("sql 'select 1 from waiting' --since 1h", "waiting has no time"),
        ("replay --all --since 1h --until 2h", "--since is not before"),
    ],
)
def test_bad_options_are_refused_before_a_jvm_starts(
    without_jvm: Redisq, words: str, why: str
) -> None:
    assert why in without_jvm.refusal("spark", *shlex.split(words), code=2)
    assert "starting Spark" not in without_jvm.err


@pytest.mark.parametrize(
    "words",
    [
        ["export", "--table", "dead", "--lake", "lake"],
        ["replay", "--all"],
        ["sql", "select id from dead"],
    ],
)
def test_a_missing_queue_is_refused_before_a_jvm_starts(
    without_jvm: Redisq, valkey: redis.Redis, words: list[str]
) -> None:
    message = without_jvm.refusal("spark", *words, "--queue", "typo", code=1)
    assert "no queue 'typo'" in message
