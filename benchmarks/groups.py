"""Dead letters by group: 100,000 in one pass, then one group compared with the rest."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import redis

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.filter.filter import Filter
from redisq_ops.ops.groups.error_groups import Grouping
from redisq_ops.ops.groups.traits import GroupComparison

from .latency import report_longest_calls
from .measure import ROUNDS, empty, server_us, servers, spread, url_of

ENTRIES = 100_000
REQUESTS = 20
TRACEBACK = "  File app/orders.py, line 17, in ship\n" * 20


def payload(n: int) -> bytes:
    order = {"n": n, "region": "eu" if n % 5 < 3 and n % 50 else "us", "to": {"tier": n % 3}}
    return json.dumps(order | {"note": "x" * 60}).encode()


def failure(n: int) -> Failure:
    """Three in five have one error; the rest have 40 kinds. Every message differs."""
    if n % 5 < 3:
        row = f"connect ECONNREFUSED 10.0.{n % 256}.3:5432 while shipping order {n}"
        return Failure("ConnectionError", row, TRACEBACK)
    kind = "abcdefghijklmnopqrstuvwxyzabcdefghijklmn"[n % 40 :][:3]
    return Failure("TimeoutError", f"{kind}: no answer to order {n} in {n % 60}.5s", TRACEBACK)


def put(client: redis.Redis) -> RequestQueue[redis.Redis]:
    """Dead letters as workers leave them."""
    queue = RequestQueue(client, "bench")
    each = ENTRIES // REQUESTS
    for r in range(REQUESTS):
        queue.submit([payload(n) for n in range(r * each, (r + 1) * each)], id=f"r{r}", limit=1000)
    while taken := queue.take(500, consumer="w").deliveries:
        numbers = [json.loads(delivery.payload)["n"] for delivery in taken]
        queue.settle(
            [
                Settlement(delivery, "reject", failure(n).encoded())
                for delivery, n in zip(taken, numbers, strict=True)
            ]
        )
    return queue


def peak_kib() -> int:
    """Peak memory of this process in KiB; ru_maxrss would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


async def groups(queue: RequestQueue[Any]) -> Grouping:
    grouping = Grouping(queue, "dead", Filter(), await queue.now.op())
    while not grouping.over:
        await grouping.step()
    return grouping


def measure_groups(url: str) -> None:
    """Runs in a process of its own, to measure its memory; prints a JSON row."""
    client: Any = connect(url, "benchmark")
    queue = RequestQueue(client, "bench")
    idle = peak_kib()
    start, cpu_s = time.perf_counter(), time.process_time()
    result = run(client, groups(queue))
    groups_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_s
    ranked = result.groups.ranked()
    contrast = GroupComparison(queue, "dead", Filter(), ranked[0].fingerprint, result.now_ms)
    start = time.perf_counter()
    while not contrast.over:
        run(client, contrast.step())
    contrast_s = time.perf_counter() - start
    peak = peak_kib()
    row = [result.groups.total, len(ranked), groups_s, contrast_s, idle / 1024, peak / 1024, cpu_s]
    print(json.dumps(row))


def main() -> None:
    with servers() as each:
        for name, client in each:
            empty(client)
            put(client)
            command = [sys.executable, "-m", "benchmarks.groups", url_of(client)]
            with report_longest_calls(client, "groups and a contrast"):
                rows = [json.loads(subprocess.check_output(command)) for _ in range(ROUNDS)]
            total, kinds = rows[0][:2]
            print(f"{name}, {total:,} dead letters in {kinds} groups:")
            print(f"  all groups: {spread([row[2] for row in rows], 's')}")
            print(f"    of this process's own time: {spread([row[6] for row in rows], 's')}")
            print(f"  one group and its contrast: {spread([row[3] for row in rows], 's')}")
            print(f"  memory: {spread([row[5] - row[4] for row in rows], 'MiB above idle')}")
            queue = RequestQueue(client, "bench")
            us, calls = server_us(client, partial(run, client, groups(queue)))
            print(f"  server: {us / 1e6:.2f} s in {calls:,} commands for all groups")


if __name__ == "__main__":
    measure_groups(sys.argv[1]) if sys.argv[1:] else main()
