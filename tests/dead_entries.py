"""Queues of every kind of ours, filled, and their entries left to die."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redisq_ops import CarmineQueue, CircularQueue, DelaySet, FairQueue, RequestQueue
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.carmine import ShardedCarmineQueue
from redisq_ops.core.queues.delay import ShardedDelaySet
from redisq_ops.core.queues.fair import ShardedFairQueue
from redisq_ops.core.queues.request import ShardedRequestQueue

ERROR = Failure("ValueError", "no such customer").encoded()
N = 25
Make = Callable[..., Any]


def _delay(queue: Any) -> None:
    queue.schedule([(f"e{k}", b"%d" % k) for k in range(N)], after=0)


def _request(queue: Any) -> None:
    queue.submit([b"%d" % k for k in range(N)], id="r1", limit=N)


def _circular(queue: Any) -> None:
    queue.push([f"e{k}" for k in range(N)])


def _fair(queue: Any) -> None:
    for client in ("ann", "bob"):
        queue.submit(client, [(f"{client}-{k}", b"%d" % k) for k in range(N)])


def _carmine(queue: Any) -> None:
    queue.enqueue([(f"e{k}", b"%d" % k) for k in range(N)])


KINDS: dict[str, tuple[Make, Callable[[Any], None]]] = {
    "delay": (DelaySet, _delay),
    "delay, 3 shards": (lambda *a, **k: ShardedDelaySet(*a, shards=3, **k), _delay),
    "request": (RequestQueue, _request),
    "request, 3 shards": (lambda *a, **k: ShardedRequestQueue(*a, shards=3, **k), _request),
    "circular": (CircularQueue, _circular),
    "fair": (FairQueue, _fair),
    "fair, 3 shards": (lambda *a, **k: ShardedFairQueue(*a, shards=3, **k), _fair),
    "carmine": (lambda c, name, **k: CarmineQueue(c, f"carmine:{name}", **k), _carmine),
    "carmine, 3 shards": (
        lambda c, name, **k: ShardedCarmineQueue(c, f"carmine:%7B{name}%7D", shards=3, **k),
        _carmine,
    ),
}


def bury(queue: Any, keep: int = 0) -> None:
    """Take all there is and let it die, but for the last ``keep``."""
    taken = []
    while more := queue.take(500, consumer="w", lease=10000).deliveries:
        taken += more
    taken.sort(key=lambda one: one.id)  # shards are asked in any order
    for one in taken[: len(taken) - keep]:
        queue.clock.advance(0.001)
        queue.settle([Settlement(one, "reject", ERROR)])
