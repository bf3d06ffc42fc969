"""Changes of a whole state of other programs' queues: cost of a job, and other clients' waits.

Measured as users type it, ``redisq dlq replay --yes`` and so on. The client's time is the CPU time
of the process without that of one that lists a single entry; the server's is its CPU time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import redis

from .foreign_jobs import NAMES, fill
from .measure import empty, servers, url_of
from .replay import ping_times

JOBS = int(os.environ.get("JOBS", "50000"))
FAILED = (("dlq", "groups"), ("dlq", "replay"), ("undo",), ("dlq", "purge"), ("undo",))
WAITING = (("waiting", "purge"), ("undo",))
VERBS = {kind: WAITING if kind in ("celery", "arq") else FAILED for kind in NAMES}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of the command and of the server, and what another client waited (ms)."""

    client_s: float
    server_s: float
    longest_ms: float


def measured(client: redis.Redis, *words: str) -> Cost:
    """One command. Fails if the command does."""

    def server_s() -> float:
        used = client.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])

    before = server_s()
    url = url_of(client)
    with ping_times(url) as pings:
        process = subprocess.Popen(
            [sys.executable, "-m", "redisq_ops", "--url", url, *words],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"redisq {' '.join(words)}: exit code {code}")
    return Cost(used.ru_utime + used.ru_stime, server_s() - before, max(pings, default=0.0))


def main() -> None:
    with servers(in_use=True) as each:
        for name, client in each:
            print(f"{name}, {JOBS:,} jobs a state, load {os.getloadavg()[0]:.1f}:")
            print("| queue of | command | client, µs a job | server, µs a job | longest wait, ms |")
            print("|---|---|--:|--:|--:|")
            for kind, queue in NAMES.items():
                empty(client)
                fill(client, kind, JOBS)
                measured(client, "discover", "--register", "--yes")
                start = measured(client, "waiting", "ls", queue, "--max", "1").client_s
                for verb in VERBS[kind]:
                    asks = () if verb[-1] == "groups" else ("--yes",)
                    cost = measured(client, *verb, *((queue,) if verb[1:] else ()), *asks)
                    per_job = (cost.client_s - start) / JOBS * 1e6, cost.server_s / JOBS * 1e6
                    print(
                        f"| {kind} | {' '.join(verb)} | {per_job[0]:.0f} | {per_job[1]:.0f}"
                        f" | {cost.longest_ms:.1f} |",
                        flush=True,
                    )
