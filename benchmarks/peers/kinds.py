"""Each kind of queue with its own bulk submit, as a user would write it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis

from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue

Jobs = Sequence[tuple[str, bytes]]
"""(id, payload); kinds that create ids themselves ignore the id"""
Put = Callable[[Jobs], object]

CLIENTS = 50
NAME = "bench"


def request(client: redis.Redis) -> tuple[Any, Put]:
    """One request with all jobs; `submit` splits it into calls."""
    queue = RequestQueue(client, NAME)
    return queue, lambda jobs: queue.submit([job[1] for job in jobs], id="r", limit=1000)


def delay(client: redis.Redis) -> tuple[Any, Put]:
    queue = DelaySet(client, NAME)
    return queue, in_batches(lambda jobs: queue.schedule(jobs, at=0))


def circular(client: redis.Redis) -> tuple[Any, Put]:
    queue = CircularQueue(client, NAME)
    return queue, in_batches(queue.push)


def fair(client: redis.Redis) -> tuple[Any, Put]:
    """`CLIENTS` clients, one batch each in turn."""
    queue = FairQueue(client, NAME)
    turns = iter(range(10**9))
    return queue, in_batches(lambda jobs: queue.submit(f"client-{next(turns) % CLIENTS}", jobs))


def carmine(client: redis.Redis) -> tuple[Any, Put]:
    queue = CarmineQueue(client, f"carmine:{NAME}")
    return queue, in_batches(queue.enqueue)


def resque(client: redis.Redis) -> tuple[Any, Put]:
    queue = ResqueQueue(client, f"resque:{NAME}")
    return queue, in_batches(lambda jobs: queue.push([_job(payload) for _, payload in jobs]))


def sidekiq(client: redis.Redis) -> tuple[Any, Put]:
    queue = SidekiqQueue(client, f"sidekiq:{NAME}")
    return queue, in_batches(lambda jobs: queue.push([_job(payload) for _, payload in jobs]))


def _job(payload: bytes) -> Job:
    """A JSON job with the payload as its argument, so it has more bytes than the payload."""
    return Job("Noop", [payload.decode()])


def in_batches(put: Put) -> Put:
    def put_all(jobs: Jobs) -> None:
        for start in range(0, len(jobs), MAX_BATCH):
            put(jobs[start : start + MAX_BATCH])

    return put_all


KINDS: dict[str, Callable[[redis.Redis], tuple[Any, Put]]] = {
    maker.__name__: maker for maker in (request, delay, circular, fair, carmine, resque, sidekiq)
}
