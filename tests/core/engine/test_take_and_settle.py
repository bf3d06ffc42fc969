"""What a program of one's own may say of how much it takes and how that ended, and what not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue

from ...model.wire import picture

JOBS = [Job("A", [n]) for n in range(3)]
PAIRS = [(f"e{n}", b"x") for n in range(3)]
KINDS: dict[str, tuple[Callable[..., Any], str, Callable[[Any], Any]]] = {
    "request": (RequestQueue, "q", lambda queue: queue.submit([b"x"] * 3, id="r1", limit=3)),
    "delay": (DelaySet, "q", lambda queue: queue.schedule(PAIRS, after=0)),
    "shards": (ShardedDelaySet, "q", lambda queue: queue.schedule(PAIRS, after=0)),
    "circular": (CircularQueue, "q", lambda queue: queue.push(PAIRS)),
    "fair": (FairQueue, "q", lambda queue: queue.submit("ann", PAIRS)),
    "carmine": (CarmineQueue, "carmine:q", lambda queue: queue.enqueue(PAIRS)),
    "sidekiq": (SidekiqQueue, "sidekiq:q", lambda queue: queue.push(JOBS)),
    "resque": (ResqueQueue, "resque:q", lambda queue: queue.push(JOBS)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_end_ends_nothing(client: redis.Redis, kind: str) -> None:
    """A job whose end was misspelt would be taken for done, and be gone."""
    make, name, put = KINDS[kind]
    queue = make(client, name)
    put(queue)
    (held,) = queue.take(1, consumer="w").deliveries
    before = picture(client)
    outcome: Any
    for outcome in ("failed", "nack", "", None):
        with pytest.raises(BadInput, match="ack, result, fail, give_up, reject, release"):
            queue.settle([Settlement(held, outcome)])
    with pytest.raises(BadInput, match="must be bytes, not str"):
        queue.settle([Settlement(held, "fail", "no answer")])  # type: ignore[arg-type]
    assert picture(client) == before and queue.counts().pending == 1
    assert queue.settle([Settlement(held, "ack")]) == ["done"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_of_entries_is_taken(client: redis.Redis, kind: str) -> None:
    make, name, put = KINDS[kind]
    queue = make(client, name)
    put(queue)
    n: Any
    for n in (0, -1, 501, 1.5, True, "2", None):
        with pytest.raises(BadInput, match=r"a take is for 1 to 500 entries|n must be an int"):
            queue.take(n, consumer="w")
    assert queue.counts().pending == 0
