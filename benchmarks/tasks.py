"""Tasks with typed arguments and results, beside Celery, RQ, Dramatiq, Huey and arq.

Each program in an environment and a process of its own, as for `peers`; a round runs all of them on
one server, and ratios are taken within a round. The task does nothing. *CPU*: of our worker's
process, beside a handler without tasks that reads the same arguments and returns the same result by
`json`, and beside an empty one, which returns bytes. *Bytes*: of the server's memory, for a waiting
job.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from .measure import empty, servers, url_of
from .peers import PeerFailed, figures
from .peers.environment import Environment, NotInstalled
from .peers.roster import PEERS, environment_of

ROUNDS = 3
HERE = Path(__file__).parent
OURS = "redisq-ops"


@dataclass(frozen=True, slots=True)
class Row:
    program: str
    mode: str
    """an argument of its script"""
    jobs: int
    default: bool = False
    """whether it is what the worker does without options"""
    aim: float | None = None
    """how often our default's rate is at least its rate"""

    def __str__(self) -> str:
        return f"{self.program}, {self.mode}{', default' if self.default else ''}"


ROWS = (
    Row(OURS, "tasks, concurrency 1", 1_500),
    Row(OURS, "handler, concurrency 1", 1_500),
    Row(OURS, "empty handler, concurrency 1", 1_500),
    Row(OURS, "tasks, concurrency 8", 4_000, default=True),
    Row(OURS, "handler, concurrency 8", 4_000),
    Row(OURS, "empty handler, concurrency 8", 4_000),
    Row(OURS, "tasks, concurrency 100", 20_000),
    Row(OURS, "handler, concurrency 100", 20_000),
    Row(OURS, "empty handler, concurrency 100", 20_000),
    Row("celery", "prefork 1", 600, default=True, aim=10),
    Row("celery", "threads 100", 1_000),
    Row("rq", "a fork for each job", 80, default=True, aim=10),
    Row("rq", "SimpleWorker", 400),
    Row("dramatiq", "8 threads", 1_500, default=True, aim=2),
    Row("dramatiq", "100 threads", 1_500),
    Row("huey", "1 thread", 1_500, default=True, aim=2),
    Row("huey", "100 threads", 1_500),
    Row("arq", "10 jobs", 400, default=True),
    Row("arq", "100 jobs", 1_000),
)


def environments() -> dict[str, Environment | NotInstalled]:
    found: dict[str, Environment | NotInstalled] = {
        OURS: Environment((sys.executable,), {"PYTHONPATH": str(HERE.parent)}, "this tree")
    }
    for peer in PEERS:
        if any(row.program == peer.name for row in ROWS):
            try:
                made = environment_of(peer)
                path = {"PYTHONPATH": f"{HERE / 'peers'}:{HERE / 'tasks_of'}"}
                found[peer.name] = Environment(made.command, path, made.versions)
            except NotInstalled as error:
                found[peer.name] = error
    return found


def measured(client: redis.Redis, row: Row, environment: Environment) -> dict[str, float]:
    """Of one row: jobs a second, µs of CPU and bytes a job. Raises `PeerFailed`."""
    script = HERE / "tasks_of" / f"with_{row.program.replace('-', '_')}.py"
    words = [row.mode, url_of(client), str(row.jobs)]
    empty(client)
    before = _used(client)
    few = min(row.jobs, 1_000)
    figures(environment, script, ["submit", *words[:2], str(few)])
    size = (_used(client) - before) / few
    empty(client)
    work = figures(environment, script, ["work", *words])
    return {
        "rate": work["jobs"] / work["seconds"],
        "cpu_us": work.get("cpu", 0.0) / work["jobs"] * 1e6,
        "bytes": size,
    }


def _used(client: redis.Redis) -> int:
    info: Any = client.info("memory")
    return int(info["used_memory"])


def main() -> None:
    programs = environments()
    for name, program in programs.items():
        print(f"  {name}: {program if isinstance(program, NotInstalled) else program.versions}")
    with servers() as each:
        for name, client in each:
            load, found, failed = os.getloadavg()[0], defaultdict[Row, list[Any]](list), set[Row]()
            for _ in range(ROUNDS):
                for row in ROWS:
                    program = programs[row.program]
                    if row in failed or isinstance(program, NotInstalled):
                        continue
                    try:
                        found[row].append(measured(client, row, program))
                    except PeerFailed as error:
                        failed.add(row)
                        print(f"  {row}: {error}")
            print(f"{name}, load {load:.1f} before and {os.getloadavg()[0]:.1f} after; medians of")
            print(f"{ROUNDS} rounds: jobs/s, ours by default is, CPU and bytes a job")
            for row in failed:
                found.pop(row, None)
            for row in ROWS:
                if row in found:
                    _show(row, found)


def _show(row: Row, found: dict[Row, list[dict[str, float]]]) -> None:
    values = found[row]
    middle = {name: statistics.median(each[name] for each in values) for name in values[0]}
    text = f"  {row!s:42} {middle['rate']:8,.0f} /s  {middle['bytes']:6,.0f} B"
    if row.program == OURS:
        text += f"  {middle['cpu_us']:5.0f} us CPU"
        if row.mode.startswith("tasks"):
            at = ROWS.index(row)
            handler, empty = (
                statistics.median(
                    ours["cpu_us"] / other["cpu_us"]
                    for ours, other in zip(values, found[bare], strict=True)
                )
                for bare in ROWS[at + 1 : at + 3]
            )
            text += f", x {handler:.2f} of a handler's (aim 1.25), x {empty:.2f} of an empty one's"
    elif (default := next(each for each in ROWS if each.default)) in found:
        pairs = zip(found[default], values, strict=True)
        ratio = statistics.median(one["rate"] / other["rate"] for one, other in pairs)
        text += f"  ours x {ratio:.1f}" + (f" (aim {row.aim:g})" if row.aim else "")
    print(text)
