"""Entries per second of a worker with a no-op handler."""

from __future__ import annotations

import time

import redis

from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker
from redisq_ops.demo.server import EmbeddedServer

from .measure import ROUNDS, empty, spread

ENTRIES = 50_000


def main() -> None:
    with EmbeddedServer() as server:
        client = connect(server.url)
        assert isinstance(client, redis.Redis)
        for batch in (1, 10, 100):
            rates = []
            for _ in range(ROUNDS):
                empty(client)
                queue = RequestQueue(client, "w")
                queue.submit(
                    [b"x" * 100] * (ENTRIES // (20 if batch == 1 else 1)), id="r", limit=1000
                )
                amount = queue.counts().waiting
                started = time.perf_counter()
                Worker(queue, lambda work: None, batch=batch, burst=True).run()
                rates.append(amount / (time.perf_counter() - started))
            print(f"no-op handler, batch {batch}: {spread(rates, 'entries/s')}")
