"""How soon things answer: `redisq --help`, the first frame, an idle worker."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.demo.server import EmbeddedServer

from .measure import spread, threaded
from .terminal import Terminal

STARTS = 15
ENTRIES = 60


def wall_ms(command: Sequence[str]) -> list[float]:
    times = []
    for _ in range(STARTS + 1):
        started = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - started) * 1000)
    return times[1:]


def first_frame_ms(url: str) -> float:
    """From exec to the first bytes that name a queue."""
    started = time.perf_counter()
    with Terminal("--url", url) as terminal:
        terminal.until("first-frame-queue")
        return (time.perf_counter() - started) * 1000


def idle_latencies_ms(url: str) -> list[float]:
    """From the submit call to the handler's first line, the worker idle before each."""
    client = connect(url)
    queue = RequestQueue(client, "idle")
    begun: list[float] = []
    worker = Worker(RequestQueue(connect(url), "idle"), lambda work: begun.append(now(work)))
    latencies = []
    with threaded(worker):
        time.sleep(1)
        for n in range(ENTRIES):
            time.sleep(0.1)
            submitted = time.perf_counter()
            queue.submit([b"x"], id=f"r{n}")
            while len(begun) <= n:
                time.sleep(0.0005)
            latencies.append((begun[n] - submitted) * 1000)
    return latencies


def now(work: Work) -> float:
    return time.perf_counter()


def main() -> None:
    bare = wall_ms([sys.executable, "-c", "pass"])
    help_ = wall_ms([sys.executable, "-m", "redisq_ops", "--help"])
    print(f"python -c pass: {spread(bare, 'ms')}")
    print(f"redisq --help: {spread(help_, 'ms')}")
    with EmbeddedServer() as server:
        queue = RequestQueue(connect(server.url), "first-frame-queue")
        queue.submit([b"x"] * 1_000_000, id="r")
        frames = [first_frame_ms(server.url) for _ in range(STARTS)]
        print(f"first frame naming a queue, 1,000,000 entries behind it: {spread(frames, 'ms')}")
        print(f"idle worker starts an entry after: {spread(idle_latencies_ms(server.url), 'ms')}")
