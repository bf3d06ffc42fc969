"""Unreadable values: rows with `_corrupt`, counted, and no other row is lost."""

from __future__ import annotations

import random
from typing import Any

import pytest
import redis

from redisq_ops import DelaySet, RequestQueue
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import WrongKind
from redisq_ops.pipeline.source.call_size import CallSize

from ..command_line import dead_letters, everywhere
from ..dead_entries import KINDS
from .rows import reading, rows, scattered

DEAD = "redisq:{mail}:dead"
ODD = [b"\xff\xfe", b"\xff:7", b"r1/\xe9", b"\x80@5:x"]


def sorted_by(found: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    good = [row for row in found if row["_corrupt"] is None]
    return good, [row for row in found if row["_corrupt"] is not None]


@pytest.mark.alike
@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_is_not_utf8_is_a_corrupt_row(
    kind: str, client: redis.Redis, url: str
) -> None:
    make, fill = KINDS[kind]
    queue = make(client, "mail")
    fill(queue)
    scattered(queue)
    expected = {row["id"]: row for row in rows(url, "dead", payloads="true")}
    assert len(expected) == 9
    client.zadd(queue.shard_queues[0].keys["dead"], dict.fromkeys(ODD, 5))
    for size in ("1", "2", "100"):
        good, bad = sorted_by(rows(url, "dead", payloads="true", rowsPerPartition=size))
        assert {row["id"]: row for row in good} == expected
        assert sorted(row["id"] for row in bad) == sorted(
            one.decode("utf-8", "backslashreplace") for one in ODD
        )
        assert {row["queue"] for row in bad} == {queue.name}
        assert all(row["since_at"] for row in bad)
        assert all(row["payload"] is None and row["error"] is None for row in bad)


@pytest.mark.parametrize("seed", range(3))
def test_any_bytes_and_any_scores_are_read_once(seed: int, client: redis.Redis, url: str) -> None:
    """Pages continue after them, and parts begin and end with them."""
    chance = random.Random(seed)
    dead_letters(client, 100)
    odd = {chance.randbytes(4) + b"\xff": chance.choice([5, 5.5, 5.25, 1e15]) for _ in range(60)}
    client.zadd(DEAD, odd)
    client.zadd(DEAD, {f"r1/{n}": chance.choice([5, 5.125, 6]) for n in range(1, 101)})
    made = reading(url, "dead", rowsPerPartition="13")
    made.call_size = CallSize(10**9, 1, max_rows=2)
    parts = made.plan()
    assert len(parts) == 13
    found = [row for part in parts for batch in made.read(part) for row in batch.to_pylist()]
    good, bad = sorted_by(found)
    assert sorted(row["id"] for row in good) == sorted(f"r1/{n}" for n in range(1, 101))
    assert sorted(row["id"] for row in bad) == sorted(
        one.decode("utf-8", "backslashreplace") for one in odd
    )


def test_a_score_that_is_not_a_time_is_a_corrupt_row(client: redis.Redis, url: str) -> None:
    dead_letters(client, 10)
    client.zadd(DEAD, {"odd": float("inf"), "far": 5e14, "r1/3": 1e300})
    client.hset("redisq:{mail}:meta", "r1/4", "- 1 0 999999999999999999 0 w - failed 0")
    good, bad = sorted_by(rows(url, "dead"))
    assert {row["id"] for row in bad} == {"odd", "far", "r1/3", "r1/4"} and len(good) == 8
    assert all(row["since_at"] is None for row in bad)


def test_an_unreadable_request_is_a_row_of_every_table(client: redis.Redis, url: str) -> None:
    everywhere(client)
    RequestQueue(client, "mail").submit([b"x"] * 3, id="r2")
    client.hset("redisq:{mail}:r:r1", "total", "many")
    client.zadd("redisq:{mail}:open", {b"\xff": 1})
    for table, n in (("requests", 1), ("subrequests", 3), ("results", 3)):
        for size in ("1", "100"):
            good, bad = sorted_by(rows(url, table, rowsPerPartition=size))
            assert [row["request"] for row in good] == ["r2"] * n
            assert sorted(row["request"] for row in bad) == ["\\xff", "r1"]
        (bad_row,) = rows(url, table, request="r1")
        message = bad_row["_corrupt"]
        assert "can't be read" in message and "many" not in message and bad_row["queue"] == "mail"


def test_unreadable_requests_read_by_age_are_rows_too(
    client: redis.Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    from redisq_ops.pipeline.source import read_partitions

    everywhere(client)
    client.hset("redisq:{mail}:r:r1", "total", "many")
    monkeypatch.setattr(read_partitions, "MAX_SIZED_REQUESTS", 0)
    (row,) = rows(url, "results")
    assert row["request"] == "r1" and row["_corrupt"]


def test_a_number_out_of_range_hides_no_other_row(client: redis.Redis, url: str) -> None:
    queue = RequestQueue(client, "mail")
    for n in range(5):
        queue.submit([b"x"], id=f"r{n}")
    client.hset("redisq:{mail}:r:r3", "priority", 2**40)
    client.hset("redisq:{mail}:r:r4", "created", 2**62)
    good, bad = sorted_by(rows(url, "requests"))
    assert {row["request"] for row in bad} == {"r3", "r4"} and len(good) == 3


def test_one_corrupt_sub_request_hides_no_other(client: redis.Redis, url: str) -> None:
    dead_letters(client, 50)
    client.hset("redisq:{mail}:meta", "r1/7", b"three words \xff")
    for table in ("subrequests", "results"):
        good, bad = sorted_by(rows(url, table))
        assert sorted(row["number"] for row in good) == [n for n in range(1, 51) if n != 7]
        (row,) = bad
        assert (row["request"], row["number"]) == ("r1", 7) and "three" not in row["_corrupt"]


@pytest.mark.parametrize(
    ("key", "tables"),
    [
        ("redisq:{mail}:r:r1", ["requests", "subrequests", "results"]),
        ("redisq:{mail}:s:r1", ["subrequests"]),
        ("redisq:{mail}:res:r1:0", ["subrequests", "results"]),
    ],
)
def test_a_key_of_another_type_is_reported_with_its_request(
    key: str, tables: list[str], client: redis.Redis, url: str
) -> None:
    queue = RequestQueue(client, "mail")
    for id in ("r1", "r2"):
        queue.submit([b"x"] * 3, id=id)
    taken = queue.take(2, consumer="w").deliveries
    queue.settle([Settlement(one, "result", b"ok") for one in taken])
    client.delete(key)
    client.set(key, "x")
    for table in tables:
        options = {"payloads": "true"} if table == "subrequests" else {}
        good, bad = sorted_by(rows(url, table, **options))
        assert {row["request"] for row in good} == {"r2"}
        (row,) = bad
        assert row["request"] == "r1" and key.removesuffix(":0") in row["_corrupt"]


@pytest.mark.parametrize("key", ["redisq:{mail}:dead", "redisq:{mail}:meta", "redisq:{mail}:open"])
def test_a_queue_key_of_another_type_is_reported_by_name(
    key: str, client: redis.Redis, url: str
) -> None:
    dead_letters(client, 3)
    RequestQueue(client, "mail").submit([b"x"], id="r2")
    client.delete(key)
    client.set(key, "x")
    table = "requests" if key.endswith("open") else "dead"
    with pytest.raises(WrongKind, match="another type") as refused:
        rows(url, table)
    assert key in str(refused.value) and "\n" not in str(refused.value)


def test_a_corrupt_event_near_a_bound_is_read_once(client: redis.Redis, url: str) -> None:
    DelaySet(client, "q").configure("c", 1, {"history": "all"})
    client.delete("redisq:{q}:hist")
    for at in (1000, 2000, 3000):
        client.xadd("redisq:{q}:hist", {"who": "knows"}, id=f"{at}-0")
    early, late = rows(url, "history", until="1999"), rows(url, "history", since="2000")
    assert [row["event_id"] for row in early + late] == ["1000-0", "2000-0", "3000-0"]
    assert all(row["_corrupt"] for row in early + late)
