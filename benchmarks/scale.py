"""Huge queues: cost per entry at depth, overviews, pages."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import redis

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.overview import overview

from .measure import ROUNDS, empty, server_us, servers, spread

DEEP = 1_000_000
SLICE = 10_000
PAYLOAD = b"x" * 100


def cycle(queue: RequestQueue[Any], id: str) -> None:
    queue.submit([PAYLOAD] * SLICE, id=id, limit=1000, priority=0)
    left = SLICE
    taken = queue.take(100, consumer="w").deliveries
    while taken and left > 0:
        left -= len(taken)
        done = [Settlement(delivery, "ack") for delivery in taken]
        taken = queue.settle_and_take(done, 100, consumer="w")[1].deliveries
    queue.settle([Settlement(delivery, "release") for delivery in taken])


def growth(client: redis.Redis) -> None:
    queue = RequestQueue(client, "deep")
    shallow = [server_us(client, partial(cycle, queue, f"a{i}"))[0] / SLICE for i in range(ROUNDS)]
    queue.submit([PAYLOAD] * DEEP, id="ballast", limit=4, priority=99)
    deep = [server_us(client, partial(cycle, queue, f"b{i}"))[0] / SLICE for i in range(ROUNDS)]
    print(f"  submit + take + settle, empty queue: {spread(shallow, 'us per entry')}")
    print(f"  the same with {DEEP:,} waiting: {spread(deep, 'us per entry')}")
    empty(client)


def overviews(client: redis.Redis) -> None:
    for i in range(200):
        if i % 2:
            RequestQueue(client, f"q{i}").submit([PAYLOAD] * 5, id="r")
        else:
            DelaySet(client, f"q{i}").schedule([("e", PAYLOAD)], after=60)
    deployment = Deployment(client)
    wall_ms, round_trips = [], 0
    for _ in range(ROUNDS):
        exchanges: list[int] = []
        started = time.perf_counter()
        counting: Any = _RoundTripCounter(client, exchanges)
        run(counting, overview(deployment))
        wall_ms.append((time.perf_counter() - started) * 1000)
        round_trips = len(exchanges)
    server = [
        server_us(client, partial(_overview, client, deployment))[0] / 1000 for _ in range(ROUNDS)
    ]
    print(f"  overview of 200 queues: {round_trips} round trips, {spread(wall_ms, 'ms')}")
    print(f"    server time: {spread(server, 'ms')}")
    empty(client)


def _overview(client: redis.Redis, deployment: Deployment) -> None:
    run(client, overview(deployment))


class _RoundTripCounter:
    """A client that counts its round trips."""

    def __init__(self, client: redis.Redis, exchanges: list[int]) -> None:
        self._client: Any = client  # partly untyped in redis-py
        self._exchanges = exchanges

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self._exchanges.append(1)
        return self._client.execute_command(*args, **options)

    def pipeline(self, transaction: bool = False) -> Any:
        self._exchanges.append(1)
        return self._client.pipeline(transaction=transaction)


def pages(client: redis.Redis) -> None:
    queue = RequestQueue(client, "dead")
    queue.submit([PAYLOAD] * DEEP, id="r", limit=1000)
    error = Failure("ValueError", "no such customer", "Traceback …").encoded()
    taken = queue.take(500, consumer="w").deliveries
    while taken:
        dead = [Settlement(delivery, "reject", error) for delivery in taken]
        taken = queue.settle_and_take(dead, 500, consumer="w")[1].deliveries
    for position, start in (("first", 0), ("middle", DEEP // 2), ("last", DEEP - 100)):
        costs = []
        for _ in range(ROUNDS):
            us, _ = server_us(client, partial(queue.page, "dead", start=start))
            costs.append(us / 1000)
        print(
            f"  {position} page of 100 of {DEEP:,} dead letters: {spread(costs, 'ms server time')}"
        )


def main() -> None:
    with servers() as each:
        for name, client in each:
            print(f"{name}:")
            overviews(client)
            growth(client)
            pages(client)
