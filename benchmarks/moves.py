"""Entries moved to another queue and back: server time per entry in scripts, and wall time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import redis

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue

from .measure import empty, server_us, servers, url_of

MANY = 20_000
STEP = 500
PAYLOAD = b"x" * 100
KINDS: dict[str, Any] = {
    "request": RequestQueue,
    "delay": DelaySet,
    "circular": CircularQueue,
    "fair": FairQueue,
    "carmine": CarmineQueue,
}


def put(queue: Any, pairs: Sequence[tuple[str, bytes]]) -> None:
    """Submit waiting entries, with the method of the queue's kind."""
    if queue.kind == "request":
        queue.submit([payload for _, payload in pairs], id=pairs[0][0], limit=1000)
    elif queue.kind == "delay":
        queue.schedule(pairs, after=0)
    elif queue.kind == "circular":
        queue.push(pairs)
    elif queue.kind == "fair":
        queue.submit("c", pairs)
    else:
        queue.enqueue(pairs)


def filled(client: redis.Redis, kind: str, state: str) -> tuple[str, str]:
    """Two queues of a kind, the first one filled; their names."""
    names = [f"carmine:{name}" if kind == "carmine" else name for name in "ab"]
    source, target = (KINDS[kind](client, name) for name in names)
    put(target, [("there", PAYLOAD)])
    for low in range(0, MANY, STEP):
        put(source, [(f"e{n}", PAYLOAD) for n in range(low, low + STEP)])
    error = Failure("Timeout", "no answer").encoded()
    while state == "dead" and (taken := source.take(STEP, consumer="w").deliveries):
        source.settle([Settlement(delivery, "reject", error) for delivery in taken])
    return names[0], names[1]


def measure_command(client: redis.Redis, *words: str) -> str:
    """One command: server time of its scripts per entry and per call, and wall time."""
    command = [sys.executable, "-m", "redisq_ops", "--url", url_of(client), *words, "--yes"]
    start = time.perf_counter()
    us, calls = server_us(client, lambda: subprocess.run(command, capture_output=True, check=True))
    seconds = time.perf_counter() - start
    return f"{us / MANY:.0f} µs an entry, {us / calls:.0f} a call, {seconds:.1f} s"


def main() -> None:
    with servers() as client_servers:
        for name, client in client_servers:
            print(f"{name}: {MANY:,} entries of {len(PAYLOAD)} bytes")
            for kind in KINDS:
                for state in ("waiting", "dead"):
                    empty(client)
                    source, target = filled(client, kind, state)
                    moved = measure_command(
                        client, "move", source, "--to", target, "--state", state
                    )
                    undone = measure_command(client, "undo")
                    print(f"  {kind}, {state}: moved {moved}; undone {undone}")
