"""Changes of a whole state of other programs' queues: cost of a job, and other clients' waits.

Measured as users type it, ``redisq dlq replay --yes`` and so on. The client's time is the CPU time
of the process without that of one that lists a single entry; the server's is its CPU time. A tenth
is chosen by a filter, which reads all jobs: its costs, too, are for each job of the state. Beside
the replays of RQ, BullMQ and Sidekiq stands what these programs' own replay takes, beside all
kinds our own request queue.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

import redis

from .foreign_jobs import NAMES, fill
from .measure import empty, servers, url_of
from .peers import own_replay
from .peers.environment import NotInstalled
from .replay import ping_times, requests

JOBS = int(os.environ.get("JOBS", "50000"))
TENTH = ("--where", "id~5$")
"""of Resque's failures, whose ids are digests, a sixteenth"""
FAILED = (
    ("dlq", "groups"),
    ("dlq", "replay"),
    ("undo",),
    ("dlq", "purge"),
    ("undo",),
    ("dlq", "replay", *TENTH),
    ("undo",),
)
WAITING = (("waiting", "purge"), ("undo",), ("waiting", "purge", *TENTH), ("undo",))
OURS = "request"
AT_ONCE = 1000
"""jobs that BullMQ's `retryJobs` moves at a time: its own default"""
VERBS = {kind: WAITING if kind == "arq" else FAILED for kind in (OURS, *NAMES)}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of the command and of the server, the command's wall time, and what another
    client waited (ms)."""

    client_s: float
    wall_s: float
    server_s: float
    longest_ms: float


def measured(client: redis.Redis, *words: str) -> Cost:
    """One command. Fails if the command does."""

    def server_s() -> float:
        used = client.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])

    before, began = server_s(), time.perf_counter()
    url = url_of(client)
    with ping_times(url) as pings:
        process = subprocess.Popen(
            [sys.executable, "-m", "redisq_ops", "--url", url, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
    if code := os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"redisq {' '.join(words)}: exit code {code}")
    client_s = used.ru_utime + used.ru_stime
    return Cost(client_s, wall_s, server_s() - before, max(pings, default=0.0))


def own(kind: str, client: redis.Redis) -> str:
    """A row for the program's own replay of as many jobs."""
    try:
        found = own_replay.replay(kind, client, JOBS, AT_ONCE)
    except NotInstalled as error:
        return f"| {kind} | its own: not measured, {error} | | | | |"
    return (
        f"| {kind} | its own, {found.versions} | | {found.server_us:.0f} | {found.wall_us:.0f} | |"
    )


def main() -> None:
    kinds = os.environ.get("KINDS", " ".join(VERBS)).split()
    with servers(in_use=True) as each:
        for name, client in each:
            print(f"{name}, {JOBS:,} jobs a state, load {os.getloadavg()[0]:.1f}; µs a job:")
            print("| queue of | command | client | server | wall time | longest wait, ms |")
            print("|---|---|--:|--:|--:|--:|")
            for kind in kinds:
                empty(client)
                queue = NAMES.get(kind, "mail")
                if kind == OURS:
                    requests(client, JOBS)
                else:
                    fill(client, kind, JOBS)
                    measured(client, "discover", "--register", "--yes")
                start = measured(client, "waiting", "ls", queue, "--max", "1")
                for verb in VERBS[kind]:
                    asks = () if verb[-1] == "groups" else ("--yes",)
                    cost = measured(client, *verb, *((queue,) if verb[1:] else ()), *asks)
                    seconds = cost.client_s - start.client_s, cost.server_s, cost.wall_s
                    figures = [f"{each / JOBS * 1e6:.0f}" for each in seconds]
                    row = [kind, " ".join(verb), *figures, f"{cost.longest_ms:.1f}"]
                    print(f"| {' | '.join(row)} |", flush=True)
                if kind in own_replay.SCRIPTS:
                    print(own(kind, client), flush=True)
