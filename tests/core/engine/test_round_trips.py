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
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue

PUTS: dict[str, tuple[Any, Callable[[Any, int], object]]] = {
    "mail": (RequestQueue, lambda q, n: q.submit([b"a"], id=f"r{n}")),
    "later": (DelaySet, lambda q, n: q.schedule([(f"e{n}", b"a")], after_ms=0)),
    "circle": (CircularQueue, lambda q, n: q.push([(f"e{n}", b"a")])),
    "fair": (FairQueue, lambda q, n: q.submit("ann", [(f"e{n}", b"a")])),
    "carmine:mail": (CarmineQueue, lambda q, n: q.enqueue([(f"e{n}", b"a")])),
    "sidekiq:mail": (SidekiqQueue, lambda q, n: q.push([Job("A", [n])])),
    "resque:mail": (ResqueQueue, lambda q, n: q.push([Job("A", [n])])),
}


@pytest.mark.parametrize("name", PUTS)
def test_one_to_put_in_and_one_to_settle_and_take_on(
    name: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips = 0
    send: Any = redis.Connection.send_packed_command

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal trips
        trips += 1
        return send(self, *args, **options)

    monkeypatch.setattr(redis.Connection, "send_packed_command", counted)
    kind, put = PUTS[name]
    queue = kind(client, name)
    held: Any = ()
    for n in range(4):
        trips = 0
        put(queue, n)
        assert trips == 1 or not n  # the first enters it into the registry, and loads scripts
        trips = 0
        ends = [Settlement(delivery, "ack") for delivery in held]
        said, taken = queue.settle_and_take(ends, 1, consumer="w1")
        assert trips == 1 or n < 2
        assert said == ["done"] * len(held) and len(taken.deliveries) == 1
        held = taken.deliveries
