"""The latest entries of a state are the latest by time, wherever the owner keeps them."""

from __future__ import annotations

import json
import time
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.foreign import paging
from redisq_ops.core.foreign.rq import RqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.delay import ShardedDelaySet
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import register
from redisq_ops.ops.inspect.task_report import TaskReader

from ..command_line import Redisq
from ..fleet import mail_dies

Client = redis.Redis


def ended(
    client: Any, queue: str, id: str, ago_s: float, error: str = "", registry: str = ""
) -> None:
    """A job of RQ that ended so long ago, as a worker leaves it."""
    at = time.time() - ago_s
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    status = "failed" if error else "finished"
    fields: dict[Any, Any] = {
        "origin": queue,
        "status": status,
        "description": "app.send()",
        "data": b"x",
    }
    fields |= {"created_at": when, "enqueued_at": when, "started_at": when, "ended_at": when}
    if error:
        said = f"Traceback (most recent call last):\n{error}: no\n"
        fields |= {"exc_info": zlib.compress(said.encode())}
    client.sadd("rq:queues", f"rq:queue:{queue}")
    client.hset(f"rq:job:{id}", mapping=fields)
    client.zadd(f"rq:{registry or status}:{queue}", {id: at + 31_536_000})


def many_die(client: Client, fresh: int = 60) -> None:
    """Queue ``a`` has fresh dead jobs, and ``z``, the last by name, has thirty old ones."""
    for n in range(fresh):
        ended(client, "a", f"fresh{n}", fresh - n, "TimeoutError")
    for n in range(30):
        ended(client, "z", f"old{n}", 90_000 - n, "KeyError")


def latest(queue: Queue[Any], max: int) -> list[str]:
    return [entry.id for entry in queue.latest("dead", max).entries]


def test_the_latest_of_a_whole_deployment_are_of_any_queue(client: Client, redisq: Redisq) -> None:
    many_die(client)
    run(client, register(Deployment(client), [Registered("rq", "rq", 1, 0)]))
    (row,) = [row for row in redisq.rows("ls") if row["name"] == "rq"]
    (trouble,) = row["trouble"]
    assert "latest 20 mostly TimeoutError" in trouble["reason"]
    shown = redisq.rows("dlq", "ls", "rq", "--window", "-20")
    assert [entry["id"] for entry in shown] == [f"fresh{n}" for n in range(40, 60)]
    redisq("dlq", "ls", "rq", "--window", "-20")
    assert "examined 20 of 90" in redisq.err
    (group,) = redisq.rows("dlq", "groups", "rq", "--window", "-20")
    assert (group["entries"], group["error"]["type"]) == (20, "TimeoutError")


def test_the_latest_of_places_are_exact_however_few_are_read_at_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_die(client)
    ended(client, "m", "between", 30.5, "OSError")
    whole, fresh = RqQueue(client, "rq"), [f"fresh{n}" for n in range(60)]
    fresh.insert(30, "between")
    for read in (1, 7, 500):
        monkeypatch.setattr(paging, "READ", read)
        for max in (1, 15, 50, 70, 91, 200):
            expected = ([f"old{n}" for n in range(30)] + fresh)[-max:]
            found = latest(whole, max)
            # Where one read brings one entry, twenty reads bring twenty: fewer, but the latest.
            assert found == expected[-len(found) :] and len(found) >= min(max, 91, 20 * read)


def test_tasks_are_those_of_the_latest_entries_of_every_place(client: Client) -> None:
    for n in range(30):
        ended(client, "mail", f"done{n}", n)
    for n in range(600):
        ended(client, "mail", f"cancelled{n}", 7200 + n, registry="canceled")
    queue = RqQueue(client, "rq:mail")
    report = run(client, TaskReader(queue).read(int(time.time() * 1000)))
    assert [one.ended for one in report.tasks] == [30]


def test_the_latest_of_shards_are_merged(client: Client) -> None:
    clock = FakeClock(1_790_000_000_000)
    queue = ShardedDelaySet(client, "later", shards=3, clock=clock)
    queue.schedule([(f"e{n}", b"") for n in range(30)])
    while deliveries := queue.take(1, consumer="w").deliveries:
        clock.advance(1)
        queue.settle([Settlement(deliveries[0], "reject")])
    found = queue.latest("dead", 12)
    died = [entry.since_ms for entry in found.entries]
    assert died == [1_790_000_000_000 + 1000 * n for n in range(19, 31)] and found.total == 30


def trouble(redisq: Redisq, name: str) -> list[str]:
    rows = {row["name"]: row["trouble"] for row in redisq.rows("ls")}
    return [one["reason"] for one in rows[name]]


def known(redisq: Redisq, name: str) -> None:
    redisq("dlq", "acknowledge", name, "--yes")
    assert trouble(redisq, name) == []
    time.sleep(0.01)


def test_the_error_that_is_named_is_of_the_deaths_that_nobody_acknowledged(
    client: Client, redisq: Redisq
) -> None:
    earlier = FakeClock(int(time.time() * 1000) - 3_600_000)
    mail_dies(client, "r1", 100, error=Failure("TimeoutError"), clock=earlier)
    for n in range(100):
        ended(client, "mail", f"known{n}", 300 - n, "TimeoutError")
    redisq("discover", "--register", "--yes")
    known(redisq, "mail")
    known(redisq, "rq:mail")
    mail_dies(client, "r2", 5, error=Failure("ValueError"))
    for n in range(5):
        ended(client, "mail", f"new{n}", 0, "ValueError")
    assert trouble(redisq, "rq:mail") == [
        "at least 5 dead since acknowledged, mostly ValueError in app.send"
    ]
    found = redisq("check", "mail", code=1)
    assert "mail: 5 dead since acknowledged, mostly ValueError" in found
    assert "5 dead since acknowledged, mostly ValueError" in redisq("explain", "rq:mail")


@pytest.mark.parametrize("kind", ["rq", "resque"])
def test_new_deaths_are_trouble_also_where_the_known_ones_have_left(
    client: Client, redisq: Redisq, kind: str
) -> None:
    def die(number: int, ago_s: float) -> None:
        for n in range(number):
            if kind == "rq":
                ended(client, "mail", f"{ago_s}-{n}", ago_s, "TimeoutError")
            else:
                at = datetime.fromtimestamp(time.time() - ago_s, UTC)
                failed: dict[str, Any] = {"queue": "mail"}
                failed |= {"failed_at": at.strftime("%Y/%m/%d %H:%M:%S UTC")}
                failed |= {"payload": {"class": "Send", "args": [n]}, "exception": "IOError"}
                client.rpush("resque:failed", json.dumps(failed | {"error": "", "backtrace": []}))

    name = f"{kind}:mail"
    client.sadd("resque:queues", "mail")
    die(30, 600)
    redisq("discover", "--register", "--yes")
    known(redisq, name)
    client.delete("rq:failed:mail", "resque:failed")  # they were all replayed
    assert trouble(redisq, name) == []
    die(20, -2)
    (found,) = trouble(redisq, name)
    assert "at least 20 dead since acknowledged, mostly" in found
