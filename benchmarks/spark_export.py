"""Cost of an export of dead letters for the server, and its effect on a live queue.

300,000 GENERATED dead letters are exported to a new lake by Spark on two cores of this machine. A
worker of another queue, in a process of its own, submits, takes and settles an entry every two ms.
A call during which the server waits for a processor looks as long as an expensive one; so, if
permitted, the measurement is repeated with real-time priority for the server.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import redis
from pyspark.sql import DataFrame, SparkSession

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import ServerAddress, connect
from redisq_ops.demo.server import EmbeddedServer, binaries
from redisq_ops.pipeline.lake.lake_export import export
from redisq_ops.pipeline.lake.lake_table import Lake
from redisq_ops.pipeline.session.spark_session import session
from redisq_ops.pipeline.source.connection import Server

from .measure import ROUNDS, realtime_priority, spread
from .spark import CONF, _ratio, fill

MANY = 300_000
PAUSE_S = 0.002
BASELINE_S = 5.0
LONG_US = 1000


def run_live_worker(url: str, pipe: Connection) -> None:
    """Work until told to stop; then send the times of takes and settlements in ms."""
    queue = RequestQueue(connect(url, "worker"), "live")
    times_ms: list[float] = []
    n = 0
    pipe.send(os.getpid())
    while not pipe.poll(PAUSE_S):
        n += 1
        queue.submit([b"x" * 100], id=f"r{os.getpid()}-{n}")
        for call in (_take, _settle):
            start = time.perf_counter()
            call(queue)
            times_ms.append((time.perf_counter() - start) * 1000)
    pipe.send(times_ms)


_HELD: list[Any] = []


def _take(queue: RequestQueue[Any]) -> None:
    _HELD[:] = queue.take(1, consumer="w").deliveries


def _settle(queue: RequestQueue[Any]) -> None:
    queue.settle([Settlement(delivery, "ack") for delivery in _HELD])


@contextmanager
def live_worker(url: str) -> Iterator[list[float]]:
    """Run a live worker during the block; its times are available after the block."""
    parent_end, child_end = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=run_live_worker, args=(url, child_end))
    process.start()
    parent_end.recv()
    times_ms: list[float] = []
    try:
        yield times_ms
        parent_end.send("stop")
        times_ms += parent_end.recv()
    finally:
        process.join()


def p99(times_ms: list[float]) -> float:
    return sorted(times_ms)[int(len(times_ms) * 0.99)]


def make_export(spark: SparkSession, url: str) -> Callable[[], float]:
    """A function that exports once, to a new lake, and returns the seconds."""

    def read(name: str, **more: str) -> DataFrame:
        return spark.read.format("redisq").options(table=name, url=url, **more).load()

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            done = export(Server(ServerAddress(url)), read, "dead", Lake(folder), queues=["mail"])
            assert done.rows == MANY, done
            return time.perf_counter() - start

    return run


def show_calls(name: str, found: Sequence[tuple[float, float, int, int]]) -> None:
    longest = max(row[3] for row in found)
    print(
        f"  {name}: {spread([row[2] for row in found], 'calls above 1 ms')}, "
        f"the longest {longest:,} µs"
    )


def show_percentiles(client: redis.Redis) -> None:
    """Print the percentiles of the last round."""
    latency: Any = client.info("latencystats")
    for name in ("hmget", "zrange"):
        print(f"  {name}, µs: {latency[f'latency_percentiles_usec_{name}']}, aim ≤ 1000")


def cost(client: redis.Redis, run: Callable[[], float]) -> tuple[float, float, int, int]:
    """Cost of an export alone: seconds, the server's share of them, calls above 1 ms, the longest
    of these in µs (0: none)."""
    client.config_set("slowlog-log-slower-than", LONG_US)
    client.slowlog_reset()
    client.config_resetstat()
    elapsed_s = run()
    stats: Any = client.info("commandstats")
    busy = sum(row["usec"] for row in stats.values()) / 1e6
    slow: Any = client.slowlog_get(1000)
    return elapsed_s, busy / elapsed_s, len(slow), max((row["duration"] for row in slow), default=0)


def main() -> None:
    with EmbeddedServer(next(iter(binaries().values()))) as server:
        client = redis.Redis.from_url(server.url, protocol=3)
        # An export leaves entries that died less than a second ago to the next one.
        fill(client, 1, MANY, round(time.time()) * 1000 - (MANY + 10) * 1000)
        print(f"  {MANY:,} dead letters, load {os.getloadavg()[0]:.1f}", flush=True)
        spark = session("benchmark", master="local[2]", conf=CONF)
        run = make_export(spark, server.url)
        run()  # warms the JVM up
        alone: list[float] = []
        during: list[float] = []
        costs = []
        for _ in range(ROUNDS):
            costs.append(cost(client, run))
            with live_worker(server.url) as times_ms:
                time.sleep(BASELINE_S)
            alone.append(p99(times_ms))
            with live_worker(server.url) as times_ms:
                run()
            during.append(p99(times_ms))
        undisturbed = []
        with realtime_priority(server.pid or 0) as allowed:
            if allowed:
                undisturbed = [cost(client, run) for _ in range(ROUNDS)]
                show_percentiles(client)
        spark.stop()
        rates = [MANY / row[0] / 1000 for row in costs]
        print(f"  export: {spread(rates, 'thousand rows/s')}")
        shares = [100 * row[1] for row in costs]
        print(f"  server's time for it: {spread(shares, '% of a core')}, aim ≤ 25")
        show_calls("as it is, the server not running among them", costs)
        if undisturbed:
            show_calls("the server before everything else", undisturbed)
        print(f"  live p99 of take and settle alone: {spread(alone, 'ms')}")
        print(f"  live p99 beside an export: {spread(during, 'ms')}")
        _ratio("beside / alone", during, alone, None)
        client.close()
