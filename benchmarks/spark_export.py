"""What an export of dead letters costs the server, and what a live queue beside it feels.

300,000 made-up dead letters go to a fresh lake by Spark on two cores of this machine; a worker of
another queue, a process of its own, submits, takes and settles an entry every two milliseconds.
A call in which the server was kept waiting for a processor looks as long as a costly one; so where
this user may, the same is run again with the server scheduled before everything else.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import DataFrame, SparkSession

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import ServerAddress, connect
from redisq_ops.demo.server import EmbeddedServer, binaries
from redisq_ops.pipeline.lake import export
from redisq_ops.pipeline.session import session
from redisq_ops.pipeline.writing import Server

from .measure import ROUNDS, spread
from .spark import CONF, _ratio, fill

MANY = 300_000
PAUSE_S = 0.002
ALONE_S = 5.0
LONG_US = 1000


def live(url: str, pipe: Connection) -> None:
    """Work until told to stop; then say how long each take and each settlement took, in ms."""
    queue = RequestQueue(connect(url, "worker"), "live")
    took: list[float] = []
    n = 0
    pipe.send(os.getpid())
    while not pipe.poll(PAUSE_S):
        n += 1
        queue.submit([b"x" * 100], id=f"r{os.getpid()}-{n}")
        for call in (_take, _settle):
            began = time.perf_counter()
            call(queue)
            took.append((time.perf_counter() - began) * 1000)
    pipe.send(took)


_HELD: list[Any] = []


def _take(queue: RequestQueue[Any]) -> None:
    _HELD[:] = queue.take(1, consumer="w").deliveries


def _settle(queue: RequestQueue[Any]) -> None:
    queue.settle([Settlement(one, "ack") for one in _HELD])


@contextmanager
def worker(url: str) -> Iterator[list[float]]:
    """A live worker beside the block; its times when the block has ended."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=live, args=(url, there))
    process.start()
    here.recv()
    took: list[float] = []
    try:
        yield took
        here.send("stop")
        took += here.recv()
    finally:
        process.join()


def p99(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]


def exporting(spark: SparkSession, url: str) -> Callable[[], float]:
    """Export once, to a lake of its own; the seconds it took."""

    def read(name: str, **more: str) -> DataFrame:
        return spark.read.format("redisq").options(table=name, url=url, **more).load()

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            done = export(
                spark, Server(ServerAddress(url)), read, "dead", Path(folder), queues=["mail"]
            )
            assert done.rows == MANY, done
            return time.perf_counter() - began

    return run


@contextmanager
def first_of_all(pid: int) -> Iterator[bool]:
    """Nothing takes the processor from this process meanwhile; False: that isn't allowed."""
    try:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def calls(name: str, found: Sequence[tuple[float, float, int, int]]) -> None:
    longest = max(row[3] for row in found)
    print(f"  {name}: {spread([row[2] for row in found], 'calls above 1 ms')}, "
          f"the longest {longest:,} µs")  # fmt: skip


def percentiles(client: redis.Redis) -> None:
    """Of the round before."""
    latency: Any = client.info("latencystats")
    for name in ("hmget", "zrange"):
        print(f"  {name}, µs: {latency[f'latency_percentiles_usec_{name}']}, aim ≤ 1000")


def cost(client: redis.Redis, run: Callable[[], float]) -> tuple[float, float, int, int]:
    """Of an export alone: seconds, the server's share, calls above 1 ms and the longest (µs; 0:
    none above)."""
    client.config_set("slowlog-log-slower-than", LONG_US)
    client.slowlog_reset()
    client.config_resetstat()
    took = run()
    stats: Any = client.info("commandstats")
    busy = sum(row["usec"] for row in stats.values()) / 1e6
    slow: Any = client.slowlog_get(1000)
    return took, busy / took, len(slow), max((row["duration"] for row in slow), default=0)


def main() -> None:
    with EmbeddedServer(next(iter(binaries().values()))) as server:
        client = redis.Redis.from_url(server.url, protocol=3)
        # They have to have died before now to be exported.
        fill(client, 1, MANY, round(time.time()) * 1000 - (MANY + 10) * 1000)
        print(f"  {MANY:,} dead letters, load {os.getloadavg()[0]:.1f}", flush=True)
        spark = session("benchmark", master="local[2]", conf=CONF)
        run = exporting(spark, server.url)
        run()  # the JVM gets warm
        alone: list[float] = []
        beside: list[float] = []
        found = []
        for _ in range(ROUNDS):
            found.append(cost(client, run))
            with worker(server.url) as took:
                time.sleep(ALONE_S)
            alone.append(p99(took))
            with worker(server.url) as took:
                run()
            beside.append(p99(took))
        undisturbed = []
        with first_of_all(server.pid or 0) as allowed:
            if allowed:
                undisturbed = [cost(client, run) for _ in range(ROUNDS)]
                percentiles(client)
        spark.stop()
        rates = [MANY / row[0] / 1000 for row in found]
        print(f"  export: {spread(rates, 'thousand rows/s')}")
        shares = [100 * row[1] for row in found]
        print(f"  server's time for it: {spread(shares, '% of a core')}, aim ≤ 25")
        calls("as it is, the server not running among them", found)
        if undisturbed:
            calls("the server before everything else", undisturbed)
        print(f"  live p99 of take and settle alone: {spread(alone, 'ms')}")
        print(f"  live p99 beside an export: {spread(beside, 'ms')}")
        _ratio("beside / alone", beside, alone, None)
        client.close()
