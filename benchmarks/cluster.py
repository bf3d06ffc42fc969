"""Three Cluster nodes on loopback compared with one server: submit, take and settle.

On one machine, nodes and workers share its cores, so the rates show the cost of sharding more than
its gain. The CPU time of the busiest node per entry shows the limit: what one server spends on an
entry is divided among three.

A shard's node follows from its name's hash slot, so three shards may be on fewer than three nodes.
The name used here has one shard on each node, the best case.
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
class Setup:
    """Where the queue is: URL, number of shards, a client of every node."""

    label: str
    url: str
    shards: int
    nodes: Sequence[redis.Redis]


def open_queue(setup: str, shards: int) -> RequestQueue[Any]:
    client = connect(setup, "benchmark")
    if shards == 1:
        return RequestQueue(client, NAME)
    return ShardedRequestQueue(client, NAME, shards=shards)


def drain(url: str, shards: int, ready: Barrier, results: Results[tuple[float, float]]) -> None:
    """One worker process; puts its start and end times in s."""
    queue = open_queue(url, shards)
    queue.counts()  # the connections are there before anybody begins
    worker = Worker(queue, lambda work: None, batch=BATCH, burst=True)
    ready.wait()
    start = time.monotonic()
    worker.run()
    results.put((start, time.monotonic()))


def cpu_us(nodes: Sequence[redis.Redis]) -> list[float]:
    """CPU time each node has used, µs."""
    cpu: list[Any] = [node.info("cpu") for node in nodes]
    return [1e6 * (single["used_cpu_user"] + single["used_cpu_sys"]) for single in cpu]


def measure_round(setup: Setup, workers: int) -> tuple[float, float, float]:
    """Entries/s submitted, entries/s taken and settled, µs of the busiest node per entry."""
    for node in setup.nodes:
        empty(node)
    before = cpu_us(setup.nodes)
    queue = open_queue(setup.url, setup.shards)
    start = time.perf_counter()
    for n in range(REQUESTS):
        queue.submit([PAYLOAD] * EACH, id=f"r{n}", limit=1000)
    submitted = time.perf_counter() - start
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=drain, args=(setup.url, setup.shards, ready, results))
        for _ in range(workers)
    ]
    for process in processes:
        process.start()
    times = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert queue.counts().waiting == 0
    queue.client.close()
    drained = max(ended for _, ended in times) - min(start for start, _ in times)
    spent_us = [b - a for a, b in zip(before, cpu_us(setup.nodes), strict=True)]
    entries = REQUESTS * EACH
    return entries / submitted, entries / drained, max(spent_us) / entries


@contextmanager
def setups_of(binary: Any) -> Iterator[list[Setup]]:
    with EmbeddedServer(binary) as server, cluster(binary) as three:
        single = [redis.Redis.from_url(server.url)]
        nodes = [redis.Redis.from_url(url) for url in three.urls]
        cluster_url = three.urls[0].replace("://", "+cluster://")
        yield [
            Setup("one server", server.url, 1, single),
            Setup("one server, 3 shards", server.url, 3, single),
            Setup("3 nodes, 3 shards", cluster_url, 3, nodes),
            Setup("3 nodes, 12 shards", cluster_url, 12, nodes),
        ]
        for client in [*single, *nodes]:
            client.close()


def main() -> None:
    for binary in binaries().values():
        with setups_of(binary) as setups:
            info: Any = setups[0].nodes[0].info("server")
            server = f"{'Valkey' if 'valkey_version' in info else 'Redis'} "
            print(server + (info.get("valkey_version") or info["redis_version"]))
            for workers in WORKERS:
                rounds = [
                    [measure_round(setup, workers) for setup in setups] for _ in range(ROUNDS)
                ]
                print(f"  {REQUESTS * EACH:,} entries of {len(PAYLOAD)} B, {workers} worker(s):")
                for setup, row in zip(setups, zip(*rounds, strict=True), strict=True):
                    submitted, drained, busiest = zip(*row, strict=True)
                    print(f"    {setup.label}")
                    print(f"      submit           {spread(submitted, 'entries/s')}")
                    print(f"      take and settle  {spread(drained, 'entries/s')}")
                    print(f"      busiest node     {spread(busiest, 'µs of CPU per entry')}")


if __name__ == "__main__":
    main()
