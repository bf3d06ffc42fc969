"""Changes of a whole state of other programs' queues: cost of a job, and other clients' waits.

Measured as users type it, ``redisq dlq replay --yes`` and so on. The client's time is the CPU time
of the process without that of one that lists a single entry, its memory the most that the process
had; the server's is its CPU time. A tenth is chosen by a filter, which reads all jobs: its costs,
too, are for each job of the state. Beside the replays of RQ, BullMQ and Sidekiq stands what these
programs' own replay takes, beside all kinds our own request queue.

``KINDS`` names the kinds to measure, ``JOBS`` says how many jobs each has, ``COMMANDS`` how many of
the commands are run, from the first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from compileall import compile_dir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

import redisq_ops

from .foreign_jobs import NAMES, fill
from .measure import empty, realtime_priority, servers, url_of
from .peers import own_replay
from .peers.environment import NotInstalled
from .replay import ping_times, requests

JOBS = int(os.environ.get("JOBS", "50000"))
TENTH = ("--where", "id~5$")
"""of Resque's failures, whose ids are digests, a sixteenth"""
FAILED = (
    ("dlq", "groups"),
    ("export", "--state", "dead"),
    ("dlq", "replay"),
    ("undo",),
    ("dlq", "purge"),
    ("undo",),
    ("dlq", "replay", *TENTH),
    ("undo",),
    ("dlq", "purge", "--hard"),
)
WAITING = (
    ("export", "--state", "waiting"),
    ("waiting", "purge"),
    ("undo",),
    ("waiting", "purge", *TENTH),
    ("undo",),
    ("waiting", "purge", "--hard"),
)
COMMANDS = int(os.environ.get("COMMANDS", "9"))
READS = {"groups", "export"}
OURS = "request"
AT_ONCE = 1000
"""jobs that BullMQ's `retryJobs` moves at a time: its own default"""
VERBS = {kind: WAITING if kind == "arq" else FAILED for kind in (OURS, *NAMES)}


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of the command and of the server, the command's wall time, what another client
    waited (ms), the server's longest call (ms), and the command's memory (MiB)."""

    client_s: float
    wall_s: float
    server_s: float
    longest_ms: float
    call_ms: float
    memory_mib: float


def measured(client: redis.Redis, *words: str) -> Cost:
    """One command. Fails if the command does."""

    def server_s() -> float:
        used = client.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])

    client.config_set("latency-tracking-info-percentiles", "100")
    client.config_resetstat()
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
    calls: Any = client.info("latencystats")
    call_ms = max(each["p100"] for each in calls.values()) / 1000
    longest_ms, memory_mib = max(pings, default=0.0), used.ru_maxrss / 1024
    return Cost(client_s, wall_s, server_s() - before, longest_ms, call_ms, memory_mib)


def own(kind: str, client: redis.Redis) -> str:
    """A row for the program's own replay of as many jobs."""
    try:
        found = own_replay.replay(kind, client, JOBS, AT_ONCE)
    except NotInstalled as error:
        return f"| {kind} | its own: not measured, {error} | | | | | | |"
    figures = f"| {found.server_us:.0f} | {found.wall_us:.0f} | | | |"
    return f"| {kind} | its own, {found.versions} | {figures}"


def measure(client: redis.Redis, kind: str) -> None:
    """Print a row for each command."""
    empty(client)
    queue = NAMES.get(kind, "mail")
    if kind == OURS:
        requests(client, JOBS)
    else:
        fill(client, kind, JOBS)
        measured(client, "discover", "--register", "--yes")
    start = measured(client, "waiting", "ls", queue, "--max", "1")
    for verb in VERBS[kind][:COMMANDS]:
        asks = () if READS & {*verb} else ("--yes",)
        cost = measured(client, *verb, *((queue,) if verb[1:] else ()), *asks)
        seconds = cost.client_s - start.client_s, cost.server_s, cost.wall_s
        row = [kind, " ".join(verb), *(f"{each / JOBS * 1e6:.0f}" for each in seconds)]
        row += [f"{cost.longest_ms:.1f}", f"{cost.call_ms:.1f}", f"{cost.memory_mib:.0f}"]
        print(f"| {' | '.join(row)} |", flush=True)
    if kind in own_replay.SCRIPTS:
        print(own(kind, client), flush=True)


def main() -> None:
    compile_dir(Path(redisq_ops.__file__).parent, quiet=1)  # as pip does when it installs
    kinds = os.environ.get("KINDS", " ".join(VERBS)).split()
    with servers(in_use=True) as each:
        for name, client in each:
            server: Any = client.info("server")
            # What else runs on the machine shouldn't count as a call's time.
            with realtime_priority(server["process_id"]) as first:
                name += "" if first else ", without priority"
                print(f"{name}, {JOBS:,} jobs a state, load {os.getloadavg()[0]:.1f}; µs a job:")
                print("| queue of | command | client | server | wall | wait, ms | call, ms | MiB |")
                print("|---|---|--:|--:|--:|--:|--:|--:|")
                for kind in kinds:
                    measure(client, kind)
