"""A plan of 1,000,000 dead letters: written, applied, undone; time, memory, server time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.states import VERBS
from redisq_ops.core.queues.request import RequestQueue

from .latency import report_longest_calls
from .measure import empty, server_us, servers, url_of
from .replay import MANY, delayed, requests

FEW = 20_000
STEP = 100


def run(*words: str) -> tuple[float, float]:
    """Seconds and peak memory (MB) of one `redisq` process."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "redisq_ops", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return time.perf_counter() - start, usage.ru_maxrss / 1000


def entry_us(client: redis.Redis, verb: Any, source: Any) -> float:
    """Server time per entry in steps of 100 of a request queue, the median step."""
    queue: Queue[Any] = RequestQueue(client, "mail")
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = queue.page(source, cursor, 500)
        ids += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
    high = queue.now() + 1

    def step(number: int) -> Callable[[], object]:
        batch = ids[(number - 1) * STEP : number * STEP]
        return lambda: queue.move(
            f"{verb}-cost", number, batch, source=source, target=VERBS[verb][1], high_water_ms=high
        )

    steps = range(1, FEW // STEP + 1)
    each = sorted(server_us(client, step(number))[0] / STEP for number in steps)
    return each[len(each) // 2]


def main() -> None:
    with servers(in_use=True) as client_servers, tempfile.TemporaryDirectory() as folder:
        for name, client in client_servers:
            empty(client)
            requests(client, FEW)
            verbs = (("replay", "dead"), ("purge", "waiting"), ("restore", "trash"))
            costs = [f"{verb} {entry_us(client, verb, state):.1f}" for verb, state in verbs]
            print(f"{name}: server time of an entry, µs: {', '.join(costs)}")
            for n in (MANY // 10, MANY):
                empty(client)
                delayed(client, n)
                path = str(Path(folder) / "p")
                url = ("--url", url_of(client))
                print(f"  {n:,} dead letters of a delay set")
                for label, words in (
                    ("written", ("replay", "mail", "--plan", path)),
                    ("applied", ("apply", path, "--yes")),
                    ("undone", ("undo", "--yes")),
                ):
                    with report_longest_calls(client, label):
                        seconds, megabytes = run(*url, *words)
                    print(f"    {label} in {seconds:.1f} s, at most {megabytes:.0f} MB")
                print(f"    a file of {Path(path).stat().st_size / 1e6:.0f} MB")
                os.unlink(path)
