"""Exchanges with one server once a queue is in use: one to put in, one to settle and take on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import Unreadable
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker import Worker

PUTS: dict[str, tuple[Any, Callable[[Any, int], object]]] = {
    "mail": (RequestQueue, lambda q, n: q.submit([b"a"], id=f"r{n}")),
    "later": (DelaySet, lambda q, n: q.schedule([(f"e{n}", b"a")], after=0)),
    "circle": (CircularQueue, lambda q, n: q.push([(f"e{n}", b"a")])),
    "fair": (FairQueue, lambda q, n: q.submit("ann", [(f"e{n}", b"a")])),
    "carmine:mail": (CarmineQueue, lambda q, n: q.enqueue([(f"e{n}", b"a")])),
    "sidekiq:mail": (SidekiqQueue, lambda q, n: q.push([Job("A", [n])])),
    "resque:mail": (ResqueQueue, lambda q, n: q.push([Job("A", [n])])),
}


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """An element for each time that something is sent to the server."""
    sent: list[None] = []
    send: Any = redis.Connection.send_packed_command

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        sent.append(None)
        return send(self, *args, **options)

    monkeypatch.setattr(redis.Connection, "send_packed_command", counted)
    return sent


@pytest.mark.parametrize("name", PUTS)
def test_one_to_put_in_and_one_to_settle_and_take_on(
    name: str, client: redis.Redis, trips: list[None]
) -> None:
    kind, put = PUTS[name]
    queue = kind(client, name)
    held: Any = ()
    for n in range(4):
        trips.clear()
        put(queue, n)
        assert len(trips) == 1 or not n  # the first registers the queue, and loads scripts
        trips.clear()
        ends = [Settlement(delivery, "ack") for delivery in held]
        said, taken = queue.settle_and_take(ends, 1, consumer="w1")
        assert len(trips) == 1 or n < 2
        assert said == ["done"] * len(held) and len(taken.deliveries) == 1
        held = taken.deliveries


@pytest.mark.parametrize("name", PUTS)
def test_a_worker_with_default_settings_makes_one_round_trip_an_entry(
    name: str, client: redis.Redis, trips: list[None]
) -> None:
    kind, put = PUTS[name]
    queue = kind(client, name)
    for n in range(10):
        put(queue, n)
    before: list[int] = []
    # The first upkeep is 30 s after the start.
    Worker(queue, lambda _: before.append(len(trips)), burst=True, random=lambda: 1.0).run()
    assert len(before) == 10
    later = before[2:]  # until then it loads scripts
    assert later == list(range(later[0], later[0] + 8))


def test_a_take_that_fails_hides_no_settlement(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    for n in range(2):
        queue.submit([b"a"], id=f"r{n}")
    held = queue.take(1, consumer="w").deliveries
    client.hset(queue.keys["r_"] + "r1", "limit", "many")
    settled = run(client, queue._settle_and_take([Settlement(held[0], "ack")], 1, "w", 30_000))
    assert settled[0] == ["done"] and isinstance(settled[1], Unreadable)
    assert "limit" in str(settled[1])
    client.hset(queue.keys["r_"] + "r1", "limit", "1")
    assert len(queue.take(1, consumer="w").deliveries) == 1
    assert queue.invariants() == []


def test_a_settlement_that_fails_takes_nothing(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    for n in range(2):
        queue.submit([b"a"], id=f"r{n}")
    held = queue.take(1, consumer="w").deliveries
    client.hset(queue.keys["r_"] + "r0", "limit", "many")
    with pytest.raises(Unreadable, match="limit"):
        queue.settle_and_take([Settlement(held[0], "ack")], 1, consumer="w")
    client.hset(queue.keys["r_"] + "r0", "limit", "1")
    assert queue.counts().pending == 1
    assert queue.settle([Settlement(held[0], "ack")]) == ["done"]
    assert queue.invariants() == []
