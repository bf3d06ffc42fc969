"""What commands cost on another program's queue in which very many jobs wait and are dead.

``python -m tests.core.foreign.million_jobs --jobs 1000000`` prints for each command the calls to
the server, its time, and the slowest call, beside those at 2,000 jobs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import redis

from redisq_ops.demo.server import EmbeddedServer, binaries

from .killed_workers import NAMES, commanded

Client = Any
FEW = 2000
NOW = int(time.time() * 1000)
ERROR = "Traceback (most recent call last):\\nValueError: no luck"


def rq(n: int) -> Iterator[tuple[Any, ...]]:
    yield "SADD", "rq:queues", "rq:queue:mail"
    for k in range(n):
        for state in ("w", "d"):
            at = "2026-01-01T00:00:00.000000Z"
            yield (
                "HSET", f"rq:job:{state}{k}", "description", "f()", "origin", "mail", "data", "x",
                "created_at", at, "enqueued_at", at,
                "status", "queued" if state == "w" else "failed",
            )  # fmt: skip
        yield "RPUSH", "rq:queue:mail", f"w{k}"
        yield "ZADD", "rq:failed:mail", NOW // 1000 + 10**6 + k, f"d{k}"


def bullmq(n: int) -> Iterator[tuple[Any, ...]]:
    base = "bull:mail:"
    yield "HSET", base + "meta", "version", "bullmq:6.7.0", "opts.maxLenEvents", 10000
    for k in range(n):
        for state in ("w", "d"):
            yield (
                "HSET", f"{base}{state}{k}", "name", "f", "data", "{}", "opts", "{}", "timestamp",
                NOW, *(("finishedOn", NOW, "atm", 1) if state == "d" else ()),
            )  # fmt: skip
        yield "LPUSH", base + "wait", f"w{k}"
        yield "ZADD", base + "failed", NOW - k, f"d{k}"


def dramatiq(n: int) -> Iterator[tuple[Any, ...]]:
    yield "ZADD", "dramatiq:__heartbeats__", NOW, "7f3f1f4e-7a2f-4ae4-b8f0-6e7fd1a3c111"
    for k in range(n):
        message = (
            '{"queue_name":"mail","actor_name":"f","args":[],"kwargs":{},"options":'
            f'{{"redis_message_id":"%s{k}"}},"message_id":"m{k}","message_timestamp":{NOW}}}'
        )
        yield "HSET", "dramatiq:mail.msgs", f"w{k}", message % "w"
        yield "HSET", "dramatiq:mail.XQ.msgs", f"d{k}", message % "d"
        yield "RPUSH", "dramatiq:mail", f"w{k}"
        yield "ZADD", "dramatiq:mail.XQ", NOW - k, f"d{k}"


def celery(n: int) -> Iterator[tuple[Any, ...]]:
    yield "SADD", "_kombu.binding.celery", "celery\x06\x16\x06\x16celery"
    for k in range(n):
        message = (
            f'{{"headers":{{"id":"w{k}","task":"f","argsrepr":"()"}},"body":"","properties":{{}}}}'
        )
        yield "LPUSH", "celery", message


def arq(n: int) -> Iterator[tuple[Any, ...]]:
    call = b'{"t":1,"f":"f","a":[],"k":{},"et":%d' % NOW
    for k in range(n):
        yield "SET", f"arq:job:w{k}", call + b"}"
        yield "ZADD", "arq:queue", NOW - 10**6 + k, f"w{k}"
    for k in range(n // 10):
        result = b',"s":false,"r":"no luck","st":1,"ft":2,"q":"arq:queue","id":"d%d"}' % k
        yield "SET", f"arq:result:d{k}", call + result


FILLED: dict[str, Callable[[int], Iterator[tuple[Any, ...]]]] = {
    "rq": rq, "arq": arq, "celery": celery, "bullmq": bullmq, "dramatiq": dramatiq,
}  # fmt: skip


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


def fill(client: Client, kind: str, n: int) -> None:
    commands = FILLED[kind](n)
    while batch := list(islice(commands, 20_000)):
        pipe = client.pipeline(transaction=False)
        for command in batch:
            pipe.execute_command(*command)
        pipe.execute()


def commands_of(kind: str, n: int) -> list[tuple[str, ...]]:
    name = NAMES[kind]
    looks = [
        ("ls",), ("waiting", "ls", "--queue", name, "--max", "100"), ("inspect", "queue", name),
        ("explain", name), ("top", "--once", "--queue", name),
        ("inspect", "entry", f"{name}/w5"), ("inspect", "entry", f"{name}/w{n // 2}"),
        ("waiting", "purge", "--queue", name, "--max", "100", "--yes"), ("undo", "--yes"),
        ("waiting", "purge", f"{name}/w7", "--yes"), ("undo", "--yes"),
        ("waiting", "purge", f"{name}/w{n // 2}", "--yes"),
    ]  # fmt: skip
    if kind != "celery":
        looks += [
            ("dlq", "ls", "--queue", name, "--max", "100"),
            ("dlq", "replay", "--queue", name, "--max", "100", "--yes"), ("undo", "--yes"),
            ("dlq", "replay", f"{name}/d7", "--yes"), ("undo", "--yes"),
        ]  # fmt: skip
    return looks


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
