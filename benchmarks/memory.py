"""Memory per waiting entry, by used_memory of the server."""

from __future__ import annotations

from typing import Any

import redis

from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue

from .measure import empty, servers
from .peers.kinds import KINDS

MANY = 1_000_000
SMALL = 10_000
PAYLOAD = b"x" * 100
_FOREIGN = dict.fromkeys(("carmine", "resque", "sidekiq"), "  (its owners' layout)")


def used(client: redis.Redis) -> int:
    info: Any = client.info("memory")
    return int(info["used_memory"])


def waiting(client: redis.Redis, kind: str) -> float:
    """Bytes of used_memory per waiting entry, including the queue's own keys."""
    empty(client)
    jobs = [(f"e{n}", PAYLOAD) for n in range(MANY // 10)]
    _, put = KINDS[kind](client)
    base = used(client)
    put(jobs)
    return (used(client) - base) / len(jobs)


def main() -> None:
    with servers() as each:
        for name, client in each:
            print(f"{name}:")
            base = used(client)
            RequestQueue(client, "a").submit([PAYLOAD] * MANY, id="one", limit=4)
            print(f"  {MANY:,} sub-requests of 100 B in one request: {_mb(used(client) - base)}")
            empty(client)
            base = used(client)
            queue = RequestQueue(client, "b")
            for i in range(SMALL):
                queue.submit([PAYLOAD], id=f"r{i}")
            bytes_each = (used(client) - base) / SMALL
            print(f"  a request with one sub-request of 100 B: {bytes_each:,.0f} B (of {SMALL:,})")
            empty(client)
            client.config_set("stream-node-max-bytes", 512)
            base = used(client)
            for i in range(SMALL):
                queue.submit([PAYLOAD], id=f"r{i}")
            bytes_each = (used(client) - base) / SMALL
            print(f"    with the server's stream-node-max-bytes 512: {bytes_each:,.0f} B")
            client.config_set("stream-node-max-bytes", 4096)
            empty(client)
            base = used(client)
            later = DelaySet(client, "c")
            for start in range(0, MANY // 10, 100):
                rows = [(f"e{i}", PAYLOAD) for i in range(start, start + 100)]
                later.schedule(rows, after=3600)
            bytes_each = (used(client) - base) / (MANY // 10)
            print(
                f"  a delayed entry of 100 B in the delay set: {bytes_each:,.0f} B "
                f"(of {MANY // 10:,})"
            )
            print(f"  a waiting entry of 100 B, of {MANY // 10:,} submitted in bulk:")
            for kind in KINDS:
                print(f"    {kind:10} {waiting(client, kind):4.0f} B{_FOREIGN.get(kind, '')}")


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
