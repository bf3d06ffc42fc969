"""What commands cost on another program's queue in which very many jobs wait and are dead.

``python -m tests.core.foreign.million_jobs --jobs 1000000`` prints for each command the calls to
the server, its time, and the slowest call, beside those at 2,000 jobs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import redis

from benchmarks.foreign_jobs import FILLED, NAMES, fill
from redisq_ops.demo.server import EmbeddedServer, binaries

from .killed_workers import commanded

Client = Any
FEW = 2000
NOW = int(time.time() * 1000)


@dataclass(frozen=True)
class Cost:
    """Of one command: calls, the server's time for them, the slowest (ms), and how it ended."""

    calls: int
    ms: float
    slowest_ms: float
    slowest: str
    code: int

    def __str__(self) -> str:
        return (
            f"{self.calls} calls, {self.ms:.1f} ms, slowest {self.slowest_ms:.1f} ms {self.slowest}"
        )


def commands_of(kind: str, n: int) -> list[tuple[str, ...]]:
    name = NAMES[kind]
    looks = [
        ("ls",),
        ("waiting", "ls", "--queue", name, "--max", "100"),
        ("inspect", name),
        ("explain", name),
        ("top", "--once", "--queue", name),
        ("inspect", f"{name}/w5"),
        ("inspect", f"{name}/w{n // 2}"),
        ("waiting", "purge", "--queue", name, "--max", "100", "--yes"),
        ("undo", "--yes"),
        ("waiting", "purge", f"{name}/w7", "--yes"),
        ("undo", "--yes"),
        ("waiting", "purge", f"{name}/w{n // 2}", "--yes"),
    ]
    return [
        *looks,
        ("dlq", "ls", "--queue", name, "--max", "100"),
        ("dlq", "replay", "--queue", name, "--max", "100", "--yes"),
        ("undo", "--yes"),
        ("dlq", "replay", f"{name}/d7", "--yes"),
        ("undo", "--yes"),
    ]


def cost(server: EmbeddedServer, client: Client, words: tuple[str, ...]) -> Cost:
    client.config_resetstat()
    client.slowlog_reset()
    code, _, _ = commanded(server.url, *words)
    stats = client.info("commandstats")
    ours = {name: row for name, row in stats.items() if "slowlog" not in name}
    slow = max(client.slowlog_get(128), key=lambda row: row["duration"], default=None)
    slowest_ms = slow["duration"] / 1000 if slow else 0
    slowest = slow["command"][:40].decode(errors="replace").split("\n")[0] if slow else ""
    calls = sum(row["calls"] for row in ours.values())
    usec = sum(row["usec"] for row in ours.values())
    return Cost(calls, usec / 1000, slowest_ms, slowest, code)


def costs(kind: str, n: int) -> Iterator[tuple[str, Cost]]:
    with EmbeddedServer(binaries()["valkey"], args=("--save", "")) as server:
        client = redis.Redis.from_url(server.url)
        fill(client, kind, n)
        commanded(server.url, "discover", "--register", "--yes")
        client.config_set("slowlog-log-slower-than", 1000)
        for words in commands_of(kind, n):
            text = " ".join(words).replace(f"w{n // 2}", "wMIDDLE")
            yield text, cost(server, client, words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=FILLED, action="append")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    given = parser.parse_args()
    for kind in given.kind or FILLED:
        print(f"{kind}, {given.jobs:,} jobs")
        for (words, small), (_, large) in zip(
            costs(kind, FEW), costs(kind, given.jobs), strict=True
        ):
            mark = "  <<<" if large.slowest_ms > 50 or large.calls > small.calls + 20 else ""
            print(
                f"  {words}\n    {small} -> {small.code}\n    {large} -> {large.code}{mark}",
                flush=True,
            )


if __name__ == "__main__":
    main()
