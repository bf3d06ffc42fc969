"""A worker with a no-op handler, and single submissions: client CPU beside a bare XADD's.

Client CPU is the process time of this program; it counts what all threads use and no waiting, so it
varies less than rates do on a machine that others use. Calls are scripts that the server ran.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work

from .measure import ROUNDS, empty, servers, url_of

PAYLOAD = b"x" * 100
SINGLE = 2_000
SETTINGS: dict[str, tuple[dict[str, Any], int]] = {
    "default settings": ({}, SINGLE),
    "concurrency 8": ({"concurrency": 8}, 10_000),
    "concurrency 100": ({"concurrency": 100}, 20_000),
    "batch 10": ({"batch": 10}, 10_000),
    "batch 100": ({"batch": 100}, 30_000),
}
"""worker options and number of entries"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one entry: µs, and number of script calls."""

    wall_us: float
    client_us: float
    server_us: float
    calls: float


def cost(client: redis.Redis, entries: int, work: Callable[[], object]) -> Cost:
    client.config_resetstat()
    server, process, wall = _server_cpu_s(client), time.process_time(), time.perf_counter()
    work()
    wall, process = time.perf_counter() - wall, time.process_time() - process
    server = _server_cpu_s(client) - server
    stats: Any = client.info("commandstats")
    calls = stats.get("cmdstat_evalsha", {"calls": 0})["calls"]
    us = 1e6 / entries
    return Cost(wall * us, process * us, server * us, calls / entries)


def _server_cpu_s(client: redis.Redis) -> float:
    used: Any = client.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


def handle(work: Work) -> None:
    pass


async def handle_later(work: Work) -> None:
    pass


def worked(client: redis.Redis, entries: int, handler: Any, options: dict[str, Any]) -> Cost:
    empty(client)
    queue = RequestQueue(client, "w")
    queue.submit([PAYLOAD] * entries, id="r", limit=1000)
    return cost(client, entries, Worker(queue, handler, burst=True, **options).run)


def submitted(client: redis.Redis) -> dict[str, Cost]:
    """Single calls: of redis-py, and ours."""
    empty(client)
    plain = redis.Redis.from_url(url_of(client))
    queue, later, ids = RequestQueue(client, "w"), DelaySet(client, "d"), itertools.count()
    calls: dict[str, Callable[[], object]] = {
        "a bare XADD by redis-py": lambda: plain.xadd("stream", {"field": PAYLOAD}),
        "submit of one entry": lambda: queue.submit([PAYLOAD], id=f"r{next(ids)}"),
        "schedule of one entry": lambda: later.schedule([(f"e{next(ids)}", PAYLOAD)], after=0.001),
    }

    def repeated(call: Callable[[], object]) -> Callable[[], None]:
        def calling() -> None:
            for _ in range(SINGLE):
                call()

        return calling

    for call in calls.values():
        call()  # connects, registers the queue, loads the script
    return {name: cost(client, SINGLE, repeated(call)) for name, call in calls.items()}


def figures(client: redis.Redis) -> dict[str, Cost]:
    """One round."""
    found = submitted(client)
    for name, (options, entries) in SETTINGS.items():
        found[name] = worked(client, entries, handle, options)
        found[f"{name}, async handler"] = worked(client, entries, handle_later, options)
    return found


def main() -> None:
    with servers() as each:
        for name, client in each:
            rounds = [figures(client) for _ in range(ROUNDS)]
            bare = "a bare XADD by redis-py"
            print(f"{name}, medians of {ROUNDS} rounds, per entry (client CPU: min to max):")
            for row in rounds[0]:
                costs = [found[row] for found in rounds]
                client_us = [one.client_us for one in costs]
                ratio = statistics.median(
                    found[row].client_us / found[bare].client_us for found in rounds
                )
                print(
                    f"  {row:32} {1e6 / statistics.median(c.wall_us for c in costs):8,.0f} /s"
                    f"  client {statistics.median(client_us):5.1f} µs"
                    f" ({min(client_us):.1f} to {max(client_us):.1f}; × {ratio:.2f} of XADD)"
                    f"  server {statistics.median(c.server_us for c in costs):5.1f} µs"
                    f"  calls {max(c.calls for c in costs):.2f}"
                )
