"""Three Cluster nodes on loopback beside one server: submit, take and settle.

On one machine nodes and workers share its cores, so the rates say what spreading costs more than
what it gains. The busiest node's own CPU time per entry says where growing ends: what one server
spends per entry is spent by three between them.

Which node a shard is on follows from its name's hash slot, so three shards may share two nodes or
one. The name here has one on each: the best that three shards can do.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue as Results
from multiprocessing.synchronize import Barrier
from typing import Any

import redis

from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker
from redisq_ops.demo.server import EmbeddedServer, binaries, cluster

from .measure import ROUNDS, empty, spread

REQUESTS = 120
EACH = 250
PAYLOAD = b"x" * 100
BATCH = 100
NAME = "default"
WORKERS = (1, 3)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the queue is: how to get there, its shards, a client of every node."""

    what: str
    url: str
    shards: int
    nodes: Sequence[redis.Redis]


def queue_at(place: str, shards: int) -> RequestQueue[Any]:
    client = connect(place, "benchmark")
    if shards == 1:
        return RequestQueue(client, NAME)
    return ShardedRequestQueue(client, NAME, shards=shards)


def drain(url: str, shards: int, ready: Barrier, said: Results[tuple[float, float]]) -> None:
    """One worker process: when it began and ended, s."""
    queue = queue_at(url, shards)
    queue.counts()  # the connections are there before anybody begins
    worker = Worker(queue, lambda work: None, batch=BATCH, burst=True)
    ready.wait()
    began = time.monotonic()
    worker.run()
    said.put((began, time.monotonic()))


def cpu_us(nodes: Sequence[redis.Redis]) -> list[float]:
    """CPU time each node has used, µs."""
    used: list[Any] = [node.info("cpu") for node in nodes]
    return [1e6 * (one["used_cpu_user"] + one["used_cpu_sys"]) for one in used]


def round_at(place: Place, workers: int) -> tuple[float, float, float]:
    """Entries/s submitted, entries/s taken and settled, µs of the busiest node per entry."""
    for node in place.nodes:
        empty(node)
    before = cpu_us(place.nodes)
    queue = queue_at(place.url, place.shards)
    began = time.perf_counter()
    for n in range(REQUESTS):
        queue.submit([PAYLOAD] * EACH, id=f"r{n}", limit=1000)
    submitted = time.perf_counter() - began
    context = multiprocessing.get_context("spawn")
    ready, said = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=drain, args=(place.url, place.shards, ready, said))
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    times = [said.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert queue.counts().waiting == 0
    queue.client.close()
    drained = max(ended for _, ended in times) - min(began for began, _ in times)
    spent = [b - a for a, b in zip(before, cpu_us(place.nodes), strict=True)]
    entries = REQUESTS * EACH
    return entries / submitted, entries / drained, max(spent) / entries


@contextmanager
def places(binary: Any) -> Iterator[list[Place]]:
    with EmbeddedServer(binary) as server, cluster(binary) as three:
        one = [redis.Redis.from_url(server.url)]
        nodes = [redis.Redis.from_url(url) for url in three.urls]
        spread_out = three.urls[0].replace("://", "+cluster://")
        yield [
            Place("one server", server.url, 1, one),
            Place("one server, 3 shards", server.url, 3, one),
            Place("3 nodes, 3 shards", spread_out, 3, nodes),
            Place("3 nodes, 12 shards", spread_out, 12, nodes),
        ]
        for client in [*one, *nodes]:
            client.close()


def main() -> None:
    for binary in binaries().values():
        with places(binary) as found:
            info: Any = found[0].nodes[0].info("server")
            server = f"{'Valkey' if 'valkey_version' in info else 'Redis'} "
            print(server + (info.get("valkey_version") or info["redis_version"]))
            for workers in WORKERS:
                rounds = [[round_at(place, workers) for place in found] for _ in range(ROUNDS)]
                print(f"  {REQUESTS * EACH:,} entries of {len(PAYLOAD)} B, {workers} worker(s):")
                for place, row in zip(found, zip(*rounds, strict=True), strict=True):
                    submitted, drained, busiest = zip(*row, strict=True)
                    print(f"    {place.what}")
                    print(f"      submit           {spread(submitted, 'entries/s')}")
                    print(f"      take and settle  {spread(drained, 'entries/s')}")
                    print(f"      busiest node     {spread(busiest, 'µs of CPU per entry')}")


if __name__ == "__main__":
    main()
