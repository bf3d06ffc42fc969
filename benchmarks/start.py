"""Start times: `redisq --help`, the dashboard's first frame, an idle worker."""

from __future__ import annotations

import compileall
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import redisq_ops
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.demo.server import EmbeddedServer

from .measure import spread, threaded
from .terminal import DashboardProcess

STARTS = 15
ENTRIES = 60


def wall_ms(command: Sequence[str]) -> list[float]:
    times = []
    for _ in range(STARTS + 1):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - start) * 1000)
    return times[1:]


def first_frame_ms(url: str) -> float:
    """Time from exec to the first bytes that contain a queue's name."""
    start = time.perf_counter()
    with DashboardProcess("--url", url) as terminal:
        terminal.until("first-frame-queue")
        return (time.perf_counter() - start) * 1000


def idle_latencies_ms(url: str) -> list[float]:
    """Time from the submit call to the handler's first line, with the worker idle before each."""
    client = connect(url)
    queue = RequestQueue(client, "idle")
    start: list[float] = []
    worker = Worker(RequestQueue(connect(url), "idle"), lambda work: start.append(start_time(work)))
    latencies = []
    with threaded(worker):
        time.sleep(1)
        for n in range(ENTRIES):
            time.sleep(0.1)
            submitted = time.perf_counter()
            queue.submit([b"x"], id=f"r{n}")
            while len(start) <= n:
                time.sleep(0.0005)
            latencies.append((start[n] - submitted) * 1000)
    return latencies


def start_time(work: Work) -> float:
    return time.perf_counter()


def main() -> None:
    # As pip does on installation; without it every start would compile (160 ms of the dashboard's).
    compileall.compile_dir(Path(redisq_ops.__file__).parent, quiet=1)
    bare_ms = wall_ms([sys.executable, "-c", "pass"])
    help_ms = wall_ms([sys.executable, "-m", "redisq_ops", "--help"])
    print(f"python -c pass: {spread(bare_ms, 'ms')}")
    print(f"redisq --help: {spread(help_ms, 'ms')}")
    with EmbeddedServer() as server:
        queue = RequestQueue(connect(server.url), "first-frame-queue")
        queue.submit([b"x"] * 1_000_000, id="r")
        frames = [first_frame_ms(server.url) for _ in range(STARTS)]
        print(f"first frame naming a queue, 1,000,000 entries behind it: {spread(frames, 'ms')}")
        print(f"idle worker starts an entry after: {spread(idle_latencies_ms(server.url), 'ms')}")
