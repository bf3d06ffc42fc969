"""A take that is sent again, while the content of what it delivered is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.redis.operation import run, together
from redisq_ops.core.redis.transport import exchange

PAIRS = [("a", b"1"), ("b", b"2"), ("c", b"3")]
PUT: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], str]] = {
    "delay": (DelaySet, lambda queue: queue.schedule(PAIRS, after=0), "body"),
    "circular": (CircularQueue, lambda queue: queue.push(PAIRS), "body"),
    "fair": (FairQueue, lambda queue: queue.submit("ann", PAIRS), "body"),
    "carmine": (CarmineQueue, lambda queue: queue.enqueue(PAIRS), "messages"),
}


def sent_again(client: redis.Redis, description: Any, between: Callable[[], Any]) -> Any:
    """What the last round's repetition is read as."""
    coroutine: Any = together([description])
    calls = coroutine.send(None)
    while True:
        replies = exchange(client, calls)
        if calls[-1].command[0] == "EVALSHA":
            between()
            replies = exchange(client, calls)
        try:
            calls = coroutine.send(replies)
        except StopIteration as stop:
            return stop.value[0]


@pytest.mark.parametrize("kind", PUT)
def test_every_row_keeps_its_columns(client: redis.Redis, kind: str) -> None:
    make, put, part = PUT[kind]
    queue = make(client, f"{kind}:q")
    put(queue)
    key = queue.keys[part]
    taken = sent_again(client, queue.take.op(3, consumer="w1"), lambda: client.hdel(key, "b"))
    assert [(d.id, d.payload) for d in taken.deliveries] == [("a", b"1"), ("b", b""), ("c", b"3")]
    assert all(queue.extend([delivery]) == [True] for delivery in taken.deliveries)
    assert run(client, queue.get.op("b")) is not None
