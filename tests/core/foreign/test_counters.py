"""Counters of Resque and Sidekiq that can't be counted in: all else goes on, and they are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Failure
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.core.worker.retry import Reject

from ...command_line import Redisq
from ...queue_steps import end, take

DAY = "2023-11-14"
T = 1_700_000_000_000
BOOM = Failure("Boom", "it broke", "").encoded()
KINDS = [ResqueQueue, SidekiqQueue]
SPOIL: dict[str, tuple[Callable[[Any, str], Any], str]] = {
    "type": (lambda c, key: c.rpush(key, "x"), "a list"),
    "text": (lambda c, key: c.set(key, "12 jobs"), "no number"),
    "fraction": (lambda c, key: c.set(key, "1.5"), "no number"),
    "long": (lambda c, key: c.set(key, "9" * 30), "no number"),
}


def counters(queue: Any, client: redis.Redis) -> list[str]:
    """All that are counted in."""
    keys = [f"{queue.at}stat:{name}" for name in ("processed", "failed")]
    return keys + [f"{key}:{DAY}" for key in keys if queue.kind == "sidekiq"]


@pytest.mark.parametrize("how", SPOIL)
@pytest.mark.parametrize("kind", KINDS)
def test_a_settle_is_heard_whatever_stands_in_their_counters(
    client: redis.Redis, kind: Any, how: str
) -> None:
    queue = kind(client, f"{kind.kind}:low", clock=FakeClock(T))
    spoil, said = SPOIL[how]
    keys = counters(queue, client)
    for key in keys:
        spoil(client, key)
    before = {key: client.dump(key) for key in keys}
    queue.push([Job("A", [n]) for n in range(3)])
    good, bad, ugly = take(queue)
    assert end(queue, good) == "done"
    assert end(queue, bad, "fail", BOOM) == ("retry" if kind is SidekiqQueue else "dead")
    assert end(queue, ugly, "reject", Failure("Reject", "no").encoded()) == "dead"
    counts = queue.counts()
    assert counts.pending == 0 and counts.dead + counts.delayed == 2
    assert {key: client.dump(key) for key in keys} == before
    assert all(client.ttl(key) == -1 for key in keys), "somebody else's key gets no end"
    assert queue.invariants() == [
        f"key {key} is {said}: what runs here is not counted in it" for key in keys
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_spoilt_spoils_no_other(client: redis.Redis, kind: Any) -> None:
    queue = kind(client, f"{kind.kind}:low", clock=FakeClock(T))
    first, *others = counters(queue, client)
    client.set(first, 2**63 - 1)  # full: it is a number, and nothing can be added to it
    for key in others:
        client.set(key, -7)
    queue.push([Job("A", [1]), Job("A", [2])])
    good, bad = take(queue)
    assert end(queue, good) == "done"
    assert end(queue, bad, "reject", BOOM) == "dead"
    assert client.get(first) == b"%d" % (2**63 - 1)
    said: list[Any] = client.mget(others)
    assert sorted(said) == ([b"-5", b"-6", b"-6"] if len(others) > 1 else [b"-6"])
    assert queue.invariants() == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_worker_takes_it_for_no_outage(
    client: redis.Redis, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    queue = kind(client, f"{kind.kind}:low")
    client.sadd(f"{queue.at}stat:processed", "x")
    queue.push([Job("A", [n]) for n in range(20)])
    ran = []

    def handle(work: Work) -> None:
        ran.append(work.payload)
        if len(ran) > 15:
            raise Reject("no")

    with caplog.at_level("WARNING", "redisq_ops"):
        Worker(queue, handle, batch=4, burst=True).run()
    assert len(ran) == len(set(ran)) == 20
    assert client.get(f"{queue.at}stat:failed") == b"5"
    assert all(line.startswith("dead") for line in caplog.messages)
    assert (queue.counts().pending, queue.counts().dead) == (0, 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_looks_say_what_they_do_not_know_and_name_the_key(
    client: redis.Redis, kind: Any, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    redisq, name = Redisq(url, capsys), kind.kind
    queue = kind(client, f"{name}:low")
    queue.push([Job("A", [1])])
    key = f"{queue.at}stat:failed"
    client.hset(key, "x", "y")
    flaw = f"key {key} is a hash: what runs here is not counted in it"
    (row,) = redisq.rows("inspect", name)
    assert (row["waiting"], row["done"], row["faults"]) == (1, None, [flaw])
    for one in (name, f"{name}:low"):
        assert redisq.rows("fsck", one, code=1)[0]["faults"] == [flaw]
    client.delete(key)
    assert redisq.rows("inspect", name)[0]["done"] == 0
    assert redisq.rows("fsck", name)[0]["ok"]
