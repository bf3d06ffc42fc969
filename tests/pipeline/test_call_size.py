"""The size of calls follows the server time, checked by the commands that the server received."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
import redis

from redisq_ops import DelaySet, FairQueue, RequestQueue
from redisq_ops.core.model.entry import Settlement

from .rows import reading, rows

LARGE = b"x" * 100_000
N = 120


def sent_commands(client: redis.Redis, *names: str) -> list[list[bytes]]:
    """These commands, as the server had them since `listening`, the first one first."""
    shown: Any = client.slowlog_get(10_000)
    commands = [row["command"].split(b" ") for row in reversed(shown)]
    return [words for words in commands if words[0].decode() in names]


@pytest.fixture
def listening(client: redis.Redis) -> Any:
    client.config_set("slowlog-max-len", 10_000)

    def begin() -> None:
        client.config_set("slowlog-log-slower-than", 0)
        client.slowlog_reset()

    yield begin
    client.config_set("slowlog-log-slower-than", 10_000)


def fields(words: list[bytes]) -> int:
    """Of an HMGET; the server keeps 32 words and says how many more there were."""
    if words[-1] != b"arguments)":
        return len(words) - 2
    return len(words) - 4 - 2 + int(words[-3].strip(b"("))


def test_results_are_read_in_small_calls_first(
    client: redis.Redis, url: str, listening: Any
) -> None:
    """Of each request anew: those of another one may have been small."""
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * N, id="r1", limit=500)
    taken = queue.take(N, consumer="w").deliveries
    for at in range(0, N, 20):
        queue.settle([Settlement(one, "result", LARGE) for one in taken[at : at + 20]])
    queue.submit([b"x"] * 500, id="r0", limit=500)  # open ones are read first
    listening()
    found = rows(url, "results", maxCallMs="0.05")
    assert [row["number"] for row in found if row["result"] == LARGE] == list(range(1, N + 1))
    sizes = [fields(words) for words in sent_commands(client, "HMGET") if b":res:r1" in words[1]]
    assert sizes[0] == 10 and sum(sizes) == N
    assert max(sizes) == 10 and median(sizes) < 6, "1 MB took longer than 0.05 ms"


def test_call_size_grows_while_results_are_small(
    client: redis.Redis, url: str, listening: Any
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([b"x"] * 500, id="r1", limit=500)
    taken = queue.take(500, consumer="w").deliveries
    queue.settle([Settlement(one, "result", b"y") for one in taken])
    listening()
    assert len(rows(url, "results", maxCallMs="1")) == 500
    sizes = [fields(words) for words in sent_commands(client, "HMGET") if b":res:" in words[1]]
    assert sizes[0] == 10 and max(sizes) > 40 and len(sizes) < 25


def test_waiting_entries_in_streams_are_read_in_small_calls_first(
    client: redis.Redis, url: str, listening: Any
) -> None:
    queue = RequestQueue(client, "mail")
    queue.submit([LARGE] * 20, id="r1", limit=500)
    queue.submit([LARGE] * 20, id="r2", limit=500)
    listening()
    assert len(rows(url, "waiting", payloads="true", maxCallMs="0.05")) == 40
    counts = [
        int(words[words.index(b"COUNT") + 1])
        for words in sent_commands(client, "XRANGE")
        if b"COUNT" in words
    ]
    assert counts and max(counts) <= 11
    listening()
    assert len(rows(url, "subrequests", payloads="true", maxCallMs="0.05")) == 40
    records = [
        fields(words) for words in sent_commands(client, "HMGET") if words[1].endswith(b":meta")
    ]
    assert max(records) == 10 and median(records) < 6


def test_waiting_entries_in_lists_are_read_in_small_calls_first(
    client: redis.Redis, url: str, listening: Any
) -> None:
    queue = FairQueue(client, "mail")
    for at in range(0, N, 20):
        queue.submit("ann", [(f"e{n}", LARGE) for n in range(at, at + 20)])
    listening()
    assert len(rows(url, "waiting", payloads="true", maxCallMs="0.05")) == N
    sizes = [
        fields(words) for words in sent_commands(client, "HMGET") if words[1].endswith(b":body")
    ]
    assert max(sizes) <= 11 and median(sizes) < 6


def test_every_round_trip_is_between_two_reads_of_the_clock(client: redis.Redis) -> None:
    from redisq_ops.core.engine.state_scan import clocked
    from redisq_ops.core.redis.operation import Call, run

    async def three() -> int:
        await Call(("GET", "a"), str, key="a")
        return await Call(("LLEN", "b"), int, key="b")

    client.config_resetstat()
    assert run(client, clocked("a", three()))[0] == 0
    stats: Any = client.info("commandstats")
    assert stats["cmdstat_time"]["calls"] == 4
    assert run(client, clocked("a", Call(("LLEN", "b"), int, key="b")))[0] == 0


def test_a_batch_of_large_payloads_has_fewer_rows(client: redis.Redis, url: str) -> None:
    queue = DelaySet(client, "later")
    for n in range(0, 400, 20):
        queue.schedule([(f"e{n + k:03}", LARGE) for k in range(20)], after=3600)
    reader = reading(url, "delayed", payloads="true")
    (part,) = reader.plan()
    found = [batch.num_rows for batch in reader.read(part)]
    assert sum(found) == 400 and max(found) < 350
    small = reading(url, "delayed", columns="id")
    assert [batch.num_rows for part in small.plan() for batch in small.read(part)] == [400]
