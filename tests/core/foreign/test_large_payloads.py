"""Queues of other programs whose payloads are large: a look reads a bounded number of bytes."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.other_programs import register_found
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.overview import overview
from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
from redisq_ops.ops.inspect.snapshot_reader import fetch

LARGE = "x" * 5_000_000
N = 4


def sidekiq(client: Any) -> str:
    job = {"class": "Big", "args": [LARGE], "queue": "default"}
    records = [json.dumps(job | {"jid": f"{n:024x}"}) for n in range(N)]
    client.sadd("queues", "default")
    client.lpush("queue:default", *records)
    client.zadd("dead", {record: n for n, record in enumerate(records)})
    return "sidekiq:default"


def bullmq(client: Any) -> str:
    client.hset("bull:big:meta", "version", "bullmq:6.7.0")
    for n in range(N):
        client.hset(f"bull:big:{n}", mapping={"name": "big", "data": json.dumps(LARGE)})
        client.lpush("bull:big:wait", n)
    return "bullmq:big"


def rq(client: Any) -> str:
    client.sadd("rq:queues", "rq:queue:big")
    for n in range(N):
        client.hset(f"rq:job:{n}", mapping={"description": f"big({LARGE!r})", "data": "x"})
        client.rpush("rq:queue:big", n)
    return "rq:big"


def stream(client: Any) -> str:
    for _ in range(N):
        client.xadd("events", {"data": LARGE})
    client.xgroup_create("events", "readers", "0")
    return "stream:events"


def looked(client: redis.Redis, what: Callable[[], Any]) -> tuple[Any, int]:
    """The result, and the bytes that the server sent for it."""
    before = client.info("stats")["total_net_output_bytes"]
    found = what()
    return found, client.info("stats")["total_net_output_bytes"] - before


@pytest.mark.parametrize("fill", [sidekiq, bullmq, rq, stream])
def test_looks_do_not_read_large_payloads(
    client: redis.Redis, url: str, fill: Callable[[Any], str]
) -> None:
    name = fill(client)
    with connect(url) as looking:
        register_found(looking)
        deployment = Deployment(looking)
        found, sent = looked(client, lambda: run(looking, overview(deployment, signs=True)))
        (row,) = (row for row in found.rows if row.name == name)
        assert row.counts is not None and row.counts.of("waiting") == N and sent < 100_000
        snapshot: Snapshot
        snapshot, sent = looked(
            client, lambda: run(looking, fetch(deployment, Viewport("waiting", name, 0, 40)))
        )
        assert len(snapshot.entries) == N and sent < 100_000
        said = [entry.problem or (entry.payload or b"").decode() for entry in snapshot.entries]
        assert all("not read in a list: " in text and " MiB" in text for text in said)
        # What filters, groups and changes read is complete.
        queue, read, cursor, first = run(looking, deployment.queue(name)), list[str](), None, True
        while first or cursor:
            page = queue.page("waiting", cursor, 2)
            assert all(entry.problem is None for entry in page.entries)
            assert all(b"not read" not in (entry.payload or b"") for entry in page.entries)
            read += [entry.id for entry in page.entries]
            cursor, first = page.cursor, False
        assert len(set(read)) == len(read) == N
