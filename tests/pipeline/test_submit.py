"""Datasets become requests: no loss and no duplicates, after failures and repeats."""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import redis

from redisq_ops.core.model.errors import BadInput, QueueClosed, QueueFull
from redisq_ops.core.model.settings import LIMIT, PRIORITY
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.digest import Digest
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.pipeline.jobs import submit
from redisq_ops.pipeline.jobs.input_validation import ValidationResult, validate_dataset
from redisq_ops.pipeline.sink import input_split
from redisq_ops.pipeline.sink.input_split import DatasetOptions
from redisq_ops.pipeline.sink.request_writer import RequestWriter, SubmitCounts
from redisq_ops.pipeline.source.connection import Server
from redisq_ops.pipeline.source.job_errors import translating
from tests.proxy import FlakyProxy

pytestmark = pytest.mark.alike

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def server_at(url: str) -> Server:
    return Server(ServerAddress(url))


Row = tuple[str | None, int | None, bytes | None]
"""request, priority, payload"""


class RowWriter(RequestWriter):
    def write_rows(self, rows: Iterable[Row]) -> SubmitCounts:
        return self.write((id, priority, [payload]) for id, priority, payload in rows)


def writer(server: Server, **given: Any) -> RowWriter:
    on_progress = given.pop("on_progress", None)
    waits = {name: given.pop(name) for name in ("max_wait_s", "sleep") if name in given}
    return RowWriter(
        server, DatasetOptions("mail", id="id", **given), "job", on_progress=on_progress, **waits
    )


def rows(request: str, number: int, priority: int = PRIORITY) -> Iterator[Row]:
    for n in range(1, number + 1):
        yield request, priority, b"%s line %d" % (request.encode(), n)


def payloads(client: redis.Redis, request: str) -> list[bytes]:
    rows: Any = client.xrange(f"redisq:{{mail}}:s:{request}")
    return [fields[b"r"] for _, fields in rows]


def mixed() -> list[Row]:
    """Small requests, one of exactly a chunk, and large ones."""
    sizes = {"a": 1, "b": 99, "c": 100, "d": 101, "e": 730, "f": 3}
    return [row for request, n in sizes.items() for row in rows(request, n)]


def test_each_request_is_submitted_whole_and_in_order(
    client: redis.Redis, server_at: Server
) -> None:
    tally = writer(server_at).write_rows(mixed())
    assert tally.requests == {"ok": 6} and tally.entries == 1034
    queue = RequestQueue(client, "mail")
    for request in "abcdef":
        expected = [payload for id, _, payload in mixed() if id == request]
        assert payloads(client, request) == expected
        found = queue.request(request)
        assert found is not None and (found.state, found.limit) == ("sealed", LIMIT)
    assert queue.counts().waiting == 1034 and queue.invariants() == []


def test_submitting_the_same_rows_again_adds_nothing(
    client: redis.Redis, server_at: Server
) -> None:
    writer(server_at).write_rows(mixed())
    tally = writer(server_at).write_rows(mixed())
    assert tally.requests == {"same": 6} and tally.entries == 1034
    assert RequestQueue(client, "mail").counts().waiting == 1034


def test_a_request_submitted_by_the_command_line_is_the_same(
    client: redis.Redis, server_at: Server
) -> None:
    lines = [b"%d" % n for n in range(250)]
    RequestQueue(client, "mail").submit(lines, id="r1", limit=8, priority=3)
    tally = writer(server_at, limit=8).write_rows([("r1", 3, line) for line in lines])
    assert tally.requests == {"same": 1}


def test_rows_are_joined_into_sub_requests(client: redis.Redis, server_at: Server) -> None:
    writer(server_at, split=20, limit=8).write_rows(rows("a", 45, priority=7))
    found = payloads(client, "a")
    assert [payload.count(b"\n") + 1 for payload in found] == [20, 20, 5]
    assert b"\n".join(found) == b"\n".join(payload or b"" for _, _, payload in rows("a", 45))
    request = RequestQueue(client, "mail").request("a")
    assert request is not None and (request.priority, request.limit) == (7, 8)


class Died(Exception):
    pass


@pytest.mark.parametrize("after", [1, 150, 400, 830, 1030])
def test_a_repeated_task_continues_after_any_chunk(
    client: redis.Redis, server_at: Server, after: int
) -> None:
    def die(entries: int) -> None:
        if entries >= after:
            raise Died

    with pytest.raises(Died):
        writer(server_at, on_progress=die).write_rows(mixed())
    tally = writer(server_at).write_rows(mixed())
    assert tally.requests.total() == 6 and not tally.samples
    for request in "abcdef":
        assert payloads(client, request) == [p for id, _, p in mixed() if id == request]


@pytest.mark.slow
def test_lost_replies_beyond_the_clients_retries_change_nothing(
    client: redis.Redis, server: EmbeddedServer
) -> None:
    with FlakyProxy(server.port) as proxy:

        def lose(entries: int) -> None:
            proxy.drop_replies(4)

        tally = writer(Server(ServerAddress(proxy.url)), on_progress=lose).write_rows(mixed())
    assert set(tally.requests) <= {"ok", "same"} and tally.requests.total() == 6
    for request in "abcdef":
        assert payloads(client, request) == [p for id, _, p in mixed() if id == request]


def test_a_request_begun_with_other_chunks_is_continued(
    client: redis.Redis, server_at: Server
) -> None:
    given = [payload for _, _, payload in rows("r1", 330) if payload is not None]
    queue = RequestQueue(client, "mail")
    digest = Digest(PRIORITY, LIMIT)
    before = str(digest)
    for payload in given[:37]:
        digest.add(payload)
    queue.append("r1", 1, given[:37], before=before, after=str(digest))
    assert writer(server_at).write_rows(rows("r1", 330)).requests == {"ok": 1}
    assert payloads(client, "r1") == given


def _copy(server: Server, go: Any) -> None:
    go.wait()
    writer(server).write_rows([row for n in range(40) for row in rows(f"r{n:02}", 60 + 20 * n)])


@pytest.mark.slow
def test_concurrent_copies_of_a_task_submit_each_row_once(
    client: redis.Redis, server_at: Server
) -> None:
    fork = get_context("fork")
    go = fork.Event()
    copies = [fork.Process(target=_copy, args=(server_at, go)) for _ in range(3)]
    for copy in copies:
        copy.start()
    go.set()
    for copy in copies:
        copy.join(60)
    assert [copy.exitcode for copy in copies] == [0, 0, 0]
    for n in range(40):
        assert payloads(client, f"r{n:02}") == [p for _, _, p in rows(f"r{n:02}", 60 + 20 * n)]
    assert RequestQueue(client, "mail").invariants() == []


@pytest.mark.parametrize("there", [5, 300])
@pytest.mark.parametrize("given", [5, 200, 400])
def test_an_existing_id_with_other_content_stays_unchanged(
    client: redis.Redis, server_at: Server, there: int, given: int
) -> None:
    others = [b"other %d" % n for n in range(there)]
    RequestQueue(client, "mail").submit(others, id="taken")
    tally = writer(server_at).write_rows([*rows("a", 3), *rows("taken", given), *rows("z", 3)])
    assert tally.requests == {"ok": 2, "exists": 1}
    assert tally.samples["exists"] == ["request taken exists with other content"] or (
        tally.samples["exists"][0].startswith("request taken exists with other content")
    )
    assert payloads(client, "taken") == others


def test_a_shorter_request_is_other_content(client: redis.Redis, server_at: Server) -> None:
    writer(server_at).write_rows(rows("a", 300))
    for fewer in (40, 150, 200):
        assert writer(server_at).write_rows(rows("a", fewer)).requests == {"exists": 1}
    assert len(payloads(client, "a")) == 300


def test_invalid_rows_are_counted_and_named(client: redis.Redis, server_at: Server) -> None:
    bad: list[Row] = [
        (None, 5, b"x"),
        ("a/b", 5, b"x"),
        ("high", 100, b"x"),
        ("none", None, b"x"),
        ("null", 5, None),
        ("large", 5, b"x" * 2000),
        ("good", 5, b"x"),
    ]
    tally = writer(server_at, max_payload=1000).write_rows(bad)
    assert tally.requests == {"invalid": 6, "ok": 1}
    assert tally.samples["invalid"][0] == "no request id"
    assert all(b"xxx" not in why.encode() for why in tally.samples["invalid"])
    assert RequestQueue(client, "mail").counts().waiting == 1


def test_submit_waits_for_a_full_queue(client: redis.Redis, server_at: Server) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"first"], id="first")
    queue.configure("op", 1, {"max_waiting": "120"})
    slept = 0

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += 1
        assert queue.counts().waiting <= 120
        for delivery in queue.take(60, consumer="w1").deliveries:
            assert delivery.payload
            done.append(delivery.id)

    done: list[str] = []
    given = [*rows("a", 350), *(row for n in range(20) for row in rows(f"s{n:02}", 15))]
    tally = writer(server_at, sleep=sleep, limit=1000).write_rows(given)
    assert tally.requests == {"ok": 21} and slept > 5
    done += [delivery.id for delivery in queue.take(500, consumer="w1").deliveries]
    assert len(set(done)) == len(done) == 651


def test_a_queue_that_stays_full_ends_the_task_with_an_error(
    client: redis.Redis, server_at: Server
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"first"], id="first")
    queue.configure("op", 1, {"max_waiting": "50"})
    for given in (rows("a", 300), rows("b", 60)):
        with pytest.raises(QueueFull, match="max_waiting is 50"):
            writer(server_at, max_wait_s=1.0, sleep=lambda seconds: None).write_rows(given)


def test_a_draining_queue_ends_the_task(client: redis.Redis, server_at: Server) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"first"], id="first")
    queue.configure("op", 1, {"closed": "moving"})
    with pytest.raises(QueueClosed):
        writer(server_at).write_rows(rows("a", 3))


def test_the_rate_is_kept_by_waiting(client: redis.Redis, server_at: Server) -> None:
    slept: list[float] = []
    began = time.monotonic()
    writer(server_at, rate=50.0, sleep=slept.append).write_rows(rows("a", 120))
    took = time.monotonic() - began + 0.01
    # 50 at once, then 50 in a second, then 20: no time passes here, so the waits add up.
    assert len(slept) == 2
    assert 1.0 - took < slept[0] <= 1.0 and 1.4 - took < slept[1] <= 1.4
    assert len(payloads(client, "a")) == 120


def test_small_requests_share_round_trips(client: redis.Redis, server_at: Server) -> None:
    writer(server_at).write_rows(rows("first", 1))
    before = client.info("stats")["total_reads_processed"]
    writer(server_at).write_rows([row for n in range(160) for row in rows(f"s{n:03}", 5)])
    assert client.info("stats")["total_reads_processed"] - before < 80  # one each would be 160


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "--id COLUMN"),
        ({"id": "a", "name": "b"}, "--id COLUMN"),
        ({"id": "a", "split": 0}, "--split"),
        ({"id": "a", "priority": "100"}, "priority 100"),
        ({"id": "a", "priority": "-3"}, "priority -3"),
        ({"id": "a", "limit": 0}, "limit 0"),
        ({"name": "a b"}, "request id"),
    ],
)
def test_invalid_dataset_options_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        DatasetOptions("mail", **given)


# --- with Spark, where one kind of server is enough -----------------------------------------------


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url, protocol=3) as client:
        client.flushall()
        yield client


def everything(client: redis.Redis, requests: Iterable[str]) -> Counter[bytes]:
    return Counter(line for id in requests for p in payloads(client, id) for line in p.split(b"\n"))


@pytest.mark.slow
def test_a_python_worker_killed_mid_task_causes_no_loss_and_no_duplicate(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    source = tmp_path / "in.csv"
    lines = [f"r{n % 37},{n % 7},row {n}" for n in range(9000)]
    source.write_text("\n".join(["request,level,text", *lines]))
    wanted = DatasetOptions("mail", id="request", payload="text", split=3, limit=8, parts=2)
    frame = input_split.read(spark, str(source))

    def kill(entries: int) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and entries > 700:
            (tmp_path / f"killed-{context.partitionId()}").touch()
            os._exit(1)

    done = submit.submit(
        spark, Server(ServerAddress(valkey_url)), frame, wanted, "job", on_progress=kill
    )
    assert {path.name for path in tmp_path.glob("killed-*")} == {"killed-0", "killed-1"}
    ids = [f"r{n}" for n in range(37)]
    assert sum(done.requests.values()) == 37 and done.exit_code == 0
    assert everything(valkey, ids) == Counter(b"row %d" % n for n in range(9000))
    for k, id in enumerate(ids):  # in the order of the file
        expected = [b"row %d" % n for n in range(k, 9000, 37)]
        assert b"\n".join(payloads(valkey, id)).split(b"\n") == expected
    again = submit.submit(spark, Server(ServerAddress(valkey_url)), frame, wanted, "job")
    assert again.requests == {"same": 37} and again.entries == done.entries
    assert RequestQueue(valkey, "mail").counts().waiting == done.entries


@pytest.mark.slow
def test_text_files_become_requests_of_a_number_of_lines(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    lines = [b"line %d \xff\r" % n for n in range(1000)]
    for k in range(4):
        (source / f"{k}.txt").write_bytes(b"\n".join(lines[k * 250 : k * 250 + 250]) + b"\n")
    wanted = DatasetOptions("mail", name="day", rows=300, split=10, parts=2)
    frame = input_split.read(spark, str(source))
    with_entry_counts = validate_dataset(spark, frame, wanted)
    assert (
        with_entry_counts.requests,
        with_entry_counts.entries,
        with_entry_counts.rows,
        with_entry_counts.corrupt,
    ) == (4, 100, 1000, 0)
    assert valkey.dbsize() == 0
    done = submit.submit(spark, Server(ServerAddress(valkey_url)), frame, wanted, "job")
    assert done.requests == {"ok": 4}
    found = [payload for n in range(1, 5) for payload in payloads(valkey, f"day-{n}")]
    assert b"\n".join(found).split(b"\n") == lines
    assert [len(payloads(valkey, f"day-{n}")) for n in range(1, 5)] == [30, 30, 30, 10]


@pytest.mark.slow
def test_rows_without_a_payload_column_are_json(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(
        '{"id": "a", "level": "3", "to": null}\n{"id": "b", "level": "x", "to": "y"}\n'
    )
    wanted = DatasetOptions("mail", id="id", priority="level", parts=2)
    frame, server = input_split.read(spark, str(source)), Server(ServerAddress(valkey_url))
    with pytest.raises(
        BadInput,
        match=r"in.jsonl, row 2, request b: no priority from 0 \(first\) to 99: nothing was",
    ):
        submit.submit(spark, server, frame, wanted, "job")
    assert valkey.dbsize() == 0
    done = submit.submit(spark, server, frame, wanted, "job", on_rejects=lambda found: None)
    assert (done.requests, done.rejects, done.exit_code) == ({"ok": 1}, 1, 3)
    assert payloads(valkey, "a") == [b'{"id": "a", "level": "3", "to": null}']
    with pytest.raises(BadInput, match="no column 'nobody'"):
        input_split.partition_by_request(
            input_split.read(spark, str(source)), DatasetOptions("mail", id="nobody")
        )


@pytest.mark.slow
def test_csv_is_read_in_common_dialects_or_refused(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    def submit_csv(name: str, text: bytes, multiline: bool = False) -> submit.SubmitResult:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
        wanted = DatasetOptions(path.parent.name, id="order.id", payload="n\u00e4me", parts=1)
        place = str(tmp_path / path.parent.name)
        frame = translating(lambda: input_split.read(spark, place, "csv", multiline=multiline))
        server = Server(ServerAddress(valkey_url))
        return translating(
            lambda: submit.submit(spark, server, frame, wanted, "job", on_rejects=seen.append)
        )

    seen: list[ValidationResult] = []

    def there(queue: str) -> dict[str, bytes]:
        keys = cast("list[bytes]", valkey.keys(f"redisq:{{{queue}}}:s:*"))
        rows = {key: cast(Any, valkey.xrange(key)) for key in keys}
        return {key.decode().split(":")[-1]: found[0][1][b"r"] for key, found in rows.items()}

    head = "order.id,n\u00e4me\n".encode()
    quoted = head + b'1,"say ""hi"", you"\n2,"a\\b"\n3,5" nail "\n4,caf\xc3\xa9\n5,caf\xe9\n'
    done = submit_csv("quotes/a.csv", quoted)
    assert (done.requests, done.corrupt, done.exit_code) == ({"ok": 4}, 1, 3)
    assert str(seen[0].rejects[0]) == f"{tmp_path}/quotes/a.csv, row 5: not UTF-8"
    assert there("quotes") == {
        "1": b'say "hi", you',
        "2": b"a\\b",
        "3": b'5" nail "',
        "4": b"caf\xc3\xa9",
    }
    broken = head + b'1,"hello\nworld"\n2,x\n'
    with pytest.raises(BadInput, match="--multiline"):
        submit_csv("breaks/a.csv", broken)
    assert there("breaks") == {}
    submit_csv("breaks/a.csv", broken, multiline=True)
    assert there("breaks") == {"1": b"hello\nworld", "2": b"x"}
    submit_csv("order/a.csv", head + b"1,x\n")
    with pytest.raises(BadInput, match="header differs"):
        submit_csv("order/b.csv", "n\u00e4me,order.id\n5,77\n".encode())
    assert there("order") == {"1": b"x"}


@pytest.mark.slow
def test_rows_are_sent_unchanged(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    """Correcting one row changes no other: Spark infers types from the whole input, and would
    rewrite all others."""
    lines = [
        '{"id": 1, "n": 1, "big": 123456789.123456789123, "o": 10}',
        '{"id": 1, "n": 2, "o": 9, "to": {"x": [1.10, null]}} ',
        '{"id": "b", "n": 1',
        '{"id": "c"} {"id": "d"}',
    ]
    source = tmp_path / "in.jsonl"
    wanted = DatasetOptions("mail", id="id", order=("o",), parts=2)

    def submit_again() -> submit.SubmitResult:
        source.write_text("\n".join(lines) + "\n\n")
        frame, server = (
            translating(lambda: input_split.read(spark, str(source))),
            Server(ServerAddress(valkey_url)),
        )
        return translating(
            lambda: submit.submit(
                spark, server, frame, wanted, "job", on_rejects=lambda found: None
            )
        )

    first = submit_again()
    assert (first.requests, first.corrupt) == ({"ok": 1}, 2)
    assert payloads(valkey, "1") == [lines[1].encode(), lines[0].encode()]  # 9 is before 10
    lines[2:] = ['{"id": "b", "n": 1.5, "o": "late"}', '{"id": "c", "o": null}']
    mended = submit_again()
    assert (mended.requests, mended.corrupt) == ({"ok": 2, "same": 1}, 0)
    assert payloads(valkey, "b") == [lines[2].encode()]
    rows = "timestamp_micros(1767229323456789) at, cast(1.10 as decimal(4, 2)) cents, 'p' `x.id`"
    spark.sql(f"select {rows}").write.parquet(str(tmp_path / "in.parquet"))
    frame = input_split.read(spark, str(tmp_path / "in.parquet"))
    submit.submit(
        spark, Server(ServerAddress(valkey_url)), frame, DatasetOptions("mail", id="x.id"), "job"
    )
    assert [json.loads(payload)["at"] for payload in payloads(valkey, "p")] == [
        "2026-01-01T01:02:03.456789Z"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "json"])
def test_unreadable_rows_are_left_out_and_counted(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path, format: str
) -> None:
    source = tmp_path / f"in.{format}"
    if format == "csv":
        lines = ["id,text", *(f"r{n % 3},row {n}" for n in range(30))]
        lines[7:7] = ["r1,a secret,and more", "r2"]
    else:
        lines = [json.dumps({"id": f"r{n % 3}", "text": f"row {n}"}) for n in range(30)]
        lines[7:7] = ['{"id": "r1", "text": "a secr', "not JSON"]
    source.write_text("\n".join(lines) + "\n")
    frame = input_split.read(spark, str(source))
    wanted = DatasetOptions("mail", id="id", payload="text", parts=2)
    server = Server(ServerAddress(valkey_url))
    first = 7 if format == "csv" else 8  # a header is no row
    with pytest.raises(
        BadInput, match=rf"row {first}: no .*, and 1 more can't be submitted: nothing was"
    ):
        submit.submit(spark, server, frame, wanted, "job")
    assert valkey.dbsize() == 0
    seen: list[ValidationResult] = []
    done = submit.submit(spark, server, frame, wanted, "job", on_rejects=seen.append)
    assert (done.requests, done.entries, done.corrupt) == ({"ok": 3}, 30, 2)
    assert done.exit_code == 3
    assert [(one.row, one.request) for one in seen[0].rejects] == [
        (first, None),
        (first + 1, None),
    ]
    assert "secr" not in str(seen)
    assert [payloads(valkey, f"r{k}") for k in range(3)] == [
        [b"row %d" % n for n in range(k, 30, 3)] for k in range(3)
    ]
    if format == "csv":
        source.write_text("id,text\n")
        with pytest.raises(BadInput, match="the input has no rows"):
            submit.submit(spark, server, input_split.read(spark, str(source)), wanted, "job")
    with pytest.raises(BadInput, match="PATH_NOT_FOUND"):
        translating(lambda: input_split.read(spark, str(tmp_path / "nowhere.csv")))


@pytest.mark.slow
def test_a_dry_run_predicts_what_submit_refuses(
    spark: "SparkSession", valkey: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    """Too large, without a payload, an id or a priority: rows by themselves and as sub-requests."""
    source = tmp_path / "in"
    source.mkdir()
    dice = random.Random(3)
    bad = {"": "no request id", "a b": "can't be used", "high": "priority 100", "none": "no prio"}
    expected: dict[tuple[str, int], str] = {}
    good: dict[str, list[str]] = {}
    for name in ("1.jsonl", "2.jsonl"):
        lines = []
        for n in range(1, 400):
            id = dice.choice([*bad, *(f"r{k}" for k in range(9))])
            text = None if n % 91 == 0 else "x" * 60 if n % 53 == 0 else f"{name} {n}"
            row = {"id": id or None, "text": text, "level": {"high": 100, "none": None}.get(id, 5)}
            lines.append(json.dumps(row))
            if id in bad:
                expected[name, n] = bad[id]
            elif text is None or len(text) > 50:
                expected[name, n] = "no payload" if text is None else "60 bytes, over the limit"
            else:
                good.setdefault(id, []).append(text)
        (source / name).write_text("\n".join(lines) + "\n")
    wanted = DatasetOptions(
        "mail", id="id", payload="text", priority="level", parts=2, max_payload=50
    )
    frame, server = input_split.read(spark, str(source), "json"), Server(ServerAddress(valkey_url))
    found = validate_dataset(spark, frame, wanted)
    reasons = {
        (Path(reject.file or "").name, reject.row): reject.reason for reject in found.rejects
    }
    assert reasons.keys() == expected.keys()
    assert all(expected[row] in reason for row, reason in reasons.items())  # type: ignore[index]
    assert (found.requests, found.entries, found.corrupt) == (9, sum(map(len, good.values())), 0)
    assert found.rows == found.entries and found.bytes == sum(
        len(t) for g in good.values() for t in g
    )
    with pytest.raises(found.error, match=f"and {len(expected) - 1} more can't be submitted"):
        submit.submit(spark, server, frame, wanted, "job")
    assert valkey.dbsize() == 0
    done = submit.submit(spark, server, frame, wanted, "job", on_rejects=lambda found: None)
    assert (done.requests, done.entries) == ({"ok": 9}, found.entries)
    for id, texts in good.items():
        assert payloads(valkey, id) == [text.encode() for text in texts]
    # Four joined rows can exceed the limit that each of them meets.
    joined = replace(wanted, queue="joined", split=4, parts=1, max_payload=46)
    found = validate_dataset(spark, frame, joined)
    done = submit.submit(spark, server, frame, joined, "job", on_rejects=lambda found: None)
    assert (done.requests["ok"], done.entries) == (found.requests, found.entries)
    joined_reasons = [reject.reason for reject in found.rejects]
    assert any("sub-request of 4 rows has 47 bytes" in r for r in joined_reasons), joined_reasons
    queue = RequestQueue(valkey, "joined")
    assert queue.counts().waiting == found.entries
