"""Queues of other programs whose payloads are large: a look reads a bounded number of bytes."""

import json
from collections.abc import Callable
from functools import partial
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


def resque_runs(client: Any, record: bytes) -> str:
    client.sadd("resque:queues", "default")
    client.sadd("resque:workers", "box:1:default")
    head = b'{"queue":"default","run_at":"2026-11-27T10:00:00Z","payload":'
    client.set("resque:worker:box:1:default", head + record + b"}")
    return "resque:default"


def sidekiq_runs(client: Any, record: bytes, queues: tuple[str, ...] = ("default",)) -> str:
    client.sadd("queues", "default")
    client.sadd("processes", "box:1")
    client.hset("box:1", "info", json.dumps({"hostname": "box", "queues": queues}))
    client.expire("box:1", 60)
    work = {"queue": "default", "run_at": 1_795_000_000, "payload": record.decode()}
    client.hset("box:1:work", "thread", json.dumps(work))
    return "sidekiq:default"


def arq_runs(client: Any, record: bytes) -> str:
    client.zadd("arq:queue", {"job": 1})
    client.set("arq:job:job", json.dumps({"t": 1, "f": "big", "a": [LARGE], "k": {}, "et": 1}))
    client.set("arq:in-progress:job", "1", px=60_000)
    return "arq:arq:queue"


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


@pytest.mark.parametrize("fill", [sidekiq_runs, resque_runs, arq_runs])
def test_looks_do_not_read_large_jobs_that_run(
    client: redis.Redis, url: str, fill: Callable[[Any, bytes], str]
) -> None:
    record = json.dumps({"class": "Big", "args": [LARGE, LARGE], "jid": "0" * 24}).encode()
    name = fill(client, record)
    with connect(url) as looking:
        register_found(looking)
        deployment = Deployment(looking)
        found, sent = looked(client, lambda: run(looking, overview(deployment, signs=True)))
        (row,) = (row for row in found.rows if row.name == name)
        assert row.counts is not None and row.counts.of("pending") == 1 and sent < 500_000
        for view in ("pending", "processes", "consumers"):
            look = Viewport(view, name)
            snapshot: Snapshot
            snapshot, sent = looked(client, partial(run, looking, fetch(deployment, look)))
            assert sent < 500_000
            said = [entry.problem or "" for entry in snapshot.entries]
            assert ["not read in a list" in text for text in said] == [True] * (view == "pending")
        (entry,) = run(looking, deployment.queue(name)).page("pending").entries
        assert entry.problem is None and entry.task == ("big" if "arq" in name else "Big")


def test_looks_do_not_read_large_jobs_that_our_workers_hold(client: redis.Redis, url: str) -> None:
    name = sidekiq(client)
    with connect(url) as looking:
        register_found(looking)
        deployment = Deployment(looking)
        run(looking, deployment.queue(name)).take(1, consumer="ours")
        look = Viewport("pending", name)
        snapshot, sent = looked(client, partial(run, looking, fetch(deployment, look)))
        (entry,) = snapshot.entries
        assert sent < 100_000 and "not read in a list" in (entry.problem or "")


def test_the_queue_of_a_large_job_that_runs_may_be_unknown(client: redis.Redis, url: str) -> None:
    name = sidekiq_runs(client, LARGE.encode(), queues=("default", "other"))
    with connect(url) as looking:
        register_found(looking)
        queue = run(looking, Deployment(looking).queue(name))
        counts, page = queue.counts(), queue.page("pending", glance=True)
        why = "not read in a list: 4.8 MiB; its queue is unknown"
        assert counts.of("pending") is None and counts.problem == f"a running job of box:1: {why}"
        assert [entry.problem for entry in page.entries] == [why] and not page.exact
        assert run(looking, Deployment(looking).queue("sidekiq")).counts().pending == 1
