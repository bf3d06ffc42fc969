"""A real Bull (see `node_program`)."""

from __future__ import annotations

import redis

from .bullmq_program import add
from .installed_releases import packages
from .node_program import NodeProgram, made_once, wait

VERSIONS = ("4.16.5", "3.29.3")


class Program(NodeProgram):
    """A release of Bull."""

    def __init__(self, client: redis.Redis, version: str = VERSIONS[0]) -> None:
        super().__init__(client, "bull_jobs.cjs", packages("bull", version))

    def lost(self, n: int) -> None:
        """What ``n`` workers' jobs leave that lasted when the worker was killed, and was marked as
        stalled a while ago. Jobs named ``lasts`` wait for it."""
        with self.worker():
            wait(lambda: int(self.client.get("started") or 0) >= n)
        locks = list(self.client.scan_iter("bull:mail:*:lock"))
        self.client.delete("bull:mail:stalled-check", *locks)  # as they expire
        self.call(["moveUnlockedJobsToWait"])
        self.client.delete("bull:mail:stalled-check")


def specimen(client: redis.Redis, version: str = VERSIONS[0]) -> None:
    """Jobs in every state of the queue ``mail``, some with a priority or last in, first out."""
    made_once(Program(client, version), _fill)


def _fill(program: Program) -> None:
    client = program.client
    client.set("broken", 1)
    program.call(
        *[add("fails", f"bad{n}", priority=5 * (n % 2), lifo=n == 2) for n in range(4)],
        *[add("fine", f"good{n}") for n in range(3)],
    )
    program.work(7)
    program.call(*[add("lasts", f"run{n}") for n in range(4)])
    program.lost(4)
    program.call(
        *[add("fine", f"w{n}", priority=n % 3) for n in range(6)],
        *[add("fine", f"d{n}", delay=9_000_000 + n, priority=2 * (n % 2)) for n in range(5)],
    )
