"""One corrupt record among a thousand: a row with `_corrupt`, and all other rows unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from redisq_ops import CarmineQueue, CircularQueue, DelaySet, FairQueue, RequestQueue
from redisq_ops.core.engine.state_scan import ColumnPage
from redisq_ops.core.model.entry import Settlement
from redisq_ops.pipeline.source import entry_decoder
from redisq_ops.pipeline.source.arrow_batch import RowOrigin
from redisq_ops.pipeline.source.schemas import arrow
from redisq_ops.pipeline.source.tables import TABLES

from .rows import ERROR, rows
from .test_unreadable_values import sorted_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N = 1000
BROKEN = N // 2 + 7
LONG = 100_000
RECORDS = {
    "odd bytes": b"\xff\xfe",
    "few words": b"- 1 0",
    "many words": b"- 0 0 0 0 - - - 0 0",
    "no number": b"- many 0 0 0 - - - 0",
    "too large": b"- 9999999999 0 0 0 - - - 0",
    "too large together": b"- 2147483647 1 0 0 - - - 0",
    "less than nothing": b"- -5 0 0 0 - - - 0",
    "no moment": b"- 1 0 999999999999999999 999999999999999999 - - - 0",
}


def _requests(queue: Any) -> None:
    for id in ("r1", "r2"):
        queue.submit([b"%d" % k for k in range(N // 2)], id=id, limit=N)


def _clients(queue: Any) -> None:
    for client in ("ann", "bob"):
        queue.submit(client, [(f"{client}-{k}", b"%d" % k) for k in range(N // 2)])


def _ids(queue: Any) -> None:
    put = {"circular": "push", "carmine": "enqueue", "delay": "schedule"}[queue.kind]
    for low in range(0, N, 500):
        getattr(queue, put)([(f"e{k}", b"%d" % k) for k in range(low, low + 500)])


Fill = Callable[[Any], None]
KINDS: dict[str, tuple[Callable[[redis.Redis], Any], Fill]] = {
    "request": (lambda c: RequestQueue(c, "mail"), _requests),
    "fair": (lambda c: FairQueue(c, "mail"), _clients),
    "circular": (lambda c: CircularQueue(c, "mail"), _ids),
    "rotating": (lambda c: CircularQueue(c, "mail", residence="rotate"), _ids),
    "delay": (lambda c: DelaySet(c, "mail"), _ids),
    "carmine": (lambda c: CarmineQueue(c, "carmine:mail"), _ids),
}


def in_state(kind: str, state: str, client: redis.Redis) -> Any:
    """A queue with all it has in one state."""
    make, fill = KINDS[kind]
    queue = make(client)
    fill(queue)
    while state != "waiting":
        taken = queue.take(500, consumer="w", lease=LONG).deliveries
        if not taken:
            break
        if state == "dead":
            queue.settle([Settlement(one, "reject", ERROR) for one in taken])
        if state == "delayed":
            queue.settle([Settlement(one, "fail", ERROR, LONG) for one in taken])
    return queue


def whole(url: str, table: str) -> dict[str, dict[str, Any]]:
    found = {row["id"]: row for row in rows(url, table, payloads="true")}
    assert len(found) == N and not any(row["_corrupt"] for row in found.values())
    return found


@pytest.mark.alike
@pytest.mark.slow
@pytest.mark.parametrize("state", ["waiting", "pending", "delayed", "dead"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_corrupt_record_is_one_corrupt_row(
    kind: str, state: str, client: redis.Redis, url: str
) -> None:
    queue = in_state(kind, state, client)
    known = whole(url, state)
    id = list(known)[BROKEN]
    expected = [row for row in known.values() if row["id"] != id]
    for name, record in list(RECORDS.items())[:2]:
        client.hset(queue.keys["meta"], id, record)
        good, bad = sorted_by(rows(url, state, payloads="true"))
        assert good == expected, name
        assert [row["id"] for row in bad] == [id], name
        assert {row["queue"] for row in bad} == {queue.name}


def test_every_corrupt_record_is_a_corrupt_row_and_no_other_is() -> None:
    """Also two of them, one with as many words too many as the other has too few."""
    few, many, right = b"- 1 0", b"- 0 0 0 0 - - - 0" + b" 0" * 6, b"- 1 0 5 5 w - failed 0"
    schema = arrow(TABLES["pending"], ("id", "failures", "since_at", "_corrupt"))
    alone = ([right, record, right] for record in RECORDS.values())
    pairs = ([few, many], [many, few], [few, right, many], [right, many, few, right])
    for lines in (*alone, *pairs):
        ids, times = [b"e%d" % n for n in range(len(lines))], [5.0] * len(lines)
        page = ColumnPage([*ids], [*times], None, 0, [*lines])
        found = entry_decoder.decode_page(
            page, RowOrigin("q", "delay", 0, False), "pending", schema
        )
        assert [row["failures"] for row in found.to_pylist()] == [
            1 if line is right else None for line in lines
        ]
        assert [row["_corrupt"] is None for row in found.to_pylist()] == [
            line is right for line in lines
        ]


def _stream(queue: Any, client: redis.Redis) -> str:
    """The last of a request's stream, without what is its payload."""
    key = queue.keys["s_"] + "r1"
    client.xdel(key, f"{N // 2}-0")
    client.hset(queue.keys["r_"] + "r1", "total", N // 2 + 1)
    client.xadd(key, {"x": b"y"}, id=f"{N // 2 + 1}-0")
    return f"r1/{N // 2 + 1}"


def _body(queue: Any, client: redis.Redis) -> str:
    client.hset(queue.keys["body"], "ann-7", b"\xff 7")
    return "ann-7"


def _element(queue: Any, client: redis.Redis) -> str:
    """Of a fair queue; in a circular one it is another producer's payload."""
    odd: Any = b"\xff\xfe"
    client.lset(queue.keys["c_"] + "ann", 300, odd)
    return "\\xff\\xfe"


def _spent(queue: Any, client: redis.Redis) -> str:
    client.hset(queue.keys["spent"], "e300", "some")
    return "e300"


OTHERS = [
    ("request", _stream),
    ("fair", _body),
    ("fair", _element),
    ("circular", _spent),
    ("rotating", _spent),
]


@pytest.mark.parametrize(("kind", "spoil"), OTHERS)
def test_corrupt_waiting_entries_are_corrupt_rows(
    kind: str, spoil: Callable[[Any, redis.Redis], str], client: redis.Redis, url: str
) -> None:
    queue = in_state(kind, "waiting", client)
    known = whole(url, "waiting")
    id = spoil(queue, client)
    good, bad = sorted_by(rows(url, "waiting", payloads="true"))
    assert [row["id"] for row in bad] == [id]
    assert len(good) == N - 1 and all(row == known[row["id"]] for row in good)


def _request(queue: Any, client: redis.Redis) -> None:
    client.hset(queue.keys["r_"] + "r1", "read", "far")


def _stream_of_another_type(queue: Any, client: redis.Redis) -> None:
    client.delete(queue.keys["s_"] + "r1")
    client.set(queue.keys["s_"] + "r1", "x")


def _account(queue: Any, client: redis.Redis) -> None:
    client.hset(queue.keys["accounts"], "ann", b"\xff 1")


def _list_that_is_gone(queue: Any, client: redis.Redis) -> None:
    client.delete(queue.keys["c_"] + "ann")


def _list_of_another_type(queue: Any, client: redis.Redis) -> None:
    client.delete(queue.keys["c_"] + "ann")
    client.set(queue.keys["c_"] + "ann", "x")


UNITS: list[tuple[str, str, Callable[[Any, redis.Redis], None]]] = [
    ("request", "r1", _request),
    ("request", "r1", _stream_of_another_type),
    ("fair", "ann", _account),
    ("fair", "ann", _list_that_is_gone),
    ("fair", "ann", _list_of_another_type),
]


@pytest.mark.parametrize(("kind", "name", "spoil"), UNITS)
def test_one_unreadable_request_or_client_hides_no_other(
    kind: str, name: str, spoil: Callable[[Any, redis.Redis], None], client: redis.Redis, url: str
) -> None:
    queue = in_state(kind, "waiting", client)
    known = whole(url, "waiting")
    column = {"request": "request", "fair": "client"}[kind]
    spoil(queue, client)
    good, bad = sorted_by(rows(url, "waiting", payloads="true"))
    assert good == [row for row in known.values() if row[column] != name] and len(good) == N // 2
    assert [row[column] for row in bad] == [name] and "can't be read" in bad[0]["_corrupt"]


def test_members_that_are_not_utf8_are_reported_once(client: redis.Redis, url: str) -> None:
    """Whole pages of them, of requests and of clients."""
    requests, fair = RequestQueue(client, "mail"), FairQueue(client, "fair")
    for id in ("r1", "r2"):
        requests.submit([b"x"] * 12, id=id)
    for name in ("ann", "bob"):
        fair.submit(name, [(f"{name}-{k}", b"x") for k in range(12)])
    odd = [b"\xff%d" % k for k in range(150)] + [b"\x80", b"a\xe9"]
    client.zadd(requests.keys["open"], dict.fromkeys(odd, 5))
    client.zadd(fair.keys["clients"], dict.fromkeys(odd, 0))
    client.hset(fair.keys["accounts"], mapping=dict.fromkeys(odd, b"3 0 0 0"))
    for queue in ("mail", "fair"):
        good, bad = sorted_by(rows(url, "waiting", queue=queue))
        assert len({row["id"] for row in good}) == len(good) == 24
        assert sorted(row["id"] for row in bad) == sorted(
            one.decode("utf-8", "backslashreplace") for one in odd
        )


def test_pages_mark_a_record_that_cannot_be_read(client: redis.Redis) -> None:
    """It is listed with why, among the others: who acts on an entry has to know it."""
    for kind in ("request", "fair", "circular"):
        client.flushall()
        queue = in_state(kind, "waiting", client)
        entry = queue.page("waiting", None, 3).entries[1]
        client.hset(queue.keys["meta"], entry.id, RECORDS["few words"])
        problems = {one.id: one.problem for one in queue.page("waiting", None, 3).entries}
        assert len(problems) == 3 and problems.pop(entry.id) and not any(problems.values())


def test_a_job_of_another_program_that_cannot_be_read_is_a_corrupt_row(
    client: redis.Redis, url: str
) -> None:
    job: dict[Any, Any] = {"name": "send", "timestamp": 1, "data": "{}", "attemptsMade": 2}
    client.hset("bull:shop:meta", "version", "bullmq:5.70.0")
    client.hset("bull:shop:good", mapping=job)
    client.set("bull:shop:bad", "no hash")
    client.zadd("bull:shop:failed", {"good": 1000, "bad": 2000})
    good, bad = sorted(rows(url, "dead", queue="bullmq:shop"), key=lambda row: row["id"] == "bad")
    assert (good["id"], good["attempts"], good["_corrupt"]) == ("good", 2, None)
    assert (bad["id"], bad["failures"], bad["lost"], bad["attempts"]) == ("bad", None, None, None)
    assert "its job" in bad["_corrupt"]
    assert rows(url, "dead", queue="bullmq:shop", id="bad") == [bad]


@pytest.mark.slow
@pytest.mark.alike
@pytest.mark.parametrize("kind", ["request", "fair", "circular"])
def test_an_export_keeps_corrupt_rows_apart_and_counts_them(
    kind: str, spark: SparkSession, client: redis.Redis, url: str, tmp_path: Path
) -> None:
    from redisq_ops.core.redis.client import ServerAddress
    from redisq_ops.pipeline.lake import lake_export
    from redisq_ops.pipeline.lake.lake_table import Lake
    from redisq_ops.pipeline.source.connection import Server

    queue = in_state(kind, "waiting", client)
    id = list(whole(url, "waiting"))[BROKEN]
    client.hset(queue.keys["meta"], id, RECORDS["odd bytes"])

    def read(table: str, **options: str) -> Any:
        return spark.read.format("redisq").options(table=table, url=url, **options).load()

    corrupt = read("waiting").where("_corrupt is not null").collect()
    assert [row.id for row in corrupt] == [id]
    done = lake_export.export(Server(ServerAddress(url)), read, "waiting", Lake(str(tmp_path)))
    assert (done.rows, done.corrupt) == (N - 1, 1)
