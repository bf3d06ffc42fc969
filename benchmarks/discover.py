"""`redisq discover` on a server with 1,000,000 keys: a cache, sessions, lists, and 1,000 queues."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import redis

from redisq_ops.core.foreign.streams import StreamQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.discover import Discovery, RegisteredFind, described, named

from .measure import ROUNDS, empty, server_us, servers, spread

STRINGS = 900_000
HASHES = LISTS = SETS = ZSETS = 25_000
STREAMS = 900
JOB = json.dumps({"class": "Mail", "args": [1], "jid": "b4a577edbccf1d805744efa9"})


def fill(client: Any) -> None:
    """A cache, sessions, rankings and lists, with queues of other programs among them."""
    now = int(client.time()[0])
    for start in range(0, STRINGS, 10_000):
        client.mset({f"cache:{n}": "x" * 50 for n in range(start, start + 10_000)})
    for start in range(0, LISTS, 1000):
        pipe = client.pipeline(transaction=False)
        for n in range(start, start + 1000):
            pipe.hset(f"session:{n}", mapping={"user": n, "at": now})
            pipe.rpush(f"feed:{n}", *(f"post {k}" for k in range(20)))
            pipe.sadd(f"tags:{n}", "a", "b")
            pipe.zadd(f"seen:{n}", {f"u{k}": now - k for k in range(20)})
        pipe.execute()
    pipe = client.pipeline(transaction=False)
    for n in range(STREAMS):
        pipe.xadd(f"events:{n}", {"n": n})
        pipe.xgroup_create(f"events:{n}", "g", id="0")
    for n in range(50):
        pipe.sadd("queues", f"q{n}")
        pipe.lpush(f"queue:q{n}", JOB)
        pipe.zadd(f"delay:{n}", {"job": now + 600})
    pipe.execute()


def discover(client: Any, searches: list[Discovery]) -> None:
    search = Discovery(Deployment(client))
    while run(client, search.step()):
        pass
    searches.append(search)


def count_and_check(client: Any, rows: list[RegisteredFind]) -> None:
    for i in range(0, len(rows), 20):
        run(client, described(Deployment(client), rows[i : i + 20]))


def measure(client: redis.Redis) -> None:
    fill(client)
    keys = int(client.dbsize())
    rates, costs_us, calls, found = [], [], 0, []
    searches: list[Discovery] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        spent, calls = server_us(client, lambda: discover(client, searches))
        rates.append(keys / (time.perf_counter() - started) / 1000)
        costs_us.append(spent / keys)
    stats: Any = client.info("commandstats")
    found = run(client, named(Deployment(client), run(client, searches[-1].finds())))
    print(
        f"  {keys:,} keys, {len(found):,} queues found, {calls / keys * 1000:.1f} commands per 1000"
    )
    print(f"  looking: {spread(rates, 'thousand keys a second')}")
    print(f"    server time: {spread(costs_us, 'µs a key')}")
    print(f"    of a SCAN: {stats['cmdstat_scan']['usec_per_call']:.0f} µs")
    costs = [
        server_us(client, lambda: count_and_check(client, found))[0] / len(found)
        for _ in range(ROUNDS)
    ]
    print(f"  counting and checking what was found: {spread(costs, 'µs server time a queue')}")
    empty(client)


def pages(client: redis.Redis) -> None:
    """Pages of a long pending list."""
    untyped: Any = client
    for start in range(0, 100_000, 1000):
        pipe = untyped.pipeline(transaction=False)
        for n in range(start, start + 1000):
            pipe.xadd("long", {"n": n})
        pipe.execute()
    untyped.xgroup_create("long", "g", id="0")
    for _ in range(100):
        untyped.xreadgroup("g", "w", {"long": ">"}, count=1000)
    queue = StreamQueue(client, "stream:long")
    for start in (0, 9_900):
        costs = [
            server_us(client, partial(queue.page, "pending", start=start))[0] / 1000
            for _ in range(ROUNDS)
        ]
        print(f"  100 pending entries of a stream from the {start:,}th: {spread(costs, 'ms')}")
    empty(client)


def main() -> None:
    with servers() as each:
        for name, client in each:
            print(f"{name}:")
            measure(client)
            pages(client)
