"""A real BullMQ (see `node_program`)."""

from __future__ import annotations

from typing import Any

import redis

from .installed_releases import packages
from .node_program import NodeProgram, made_once, wait

VERSIONS = ("6.7.0", "5.81.5")


class Program(NodeProgram):
    """A release of BullMQ."""

    def __init__(self, client: redis.Redis, version: str = VERSIONS[0]) -> None:
        super().__init__(client, "bullmq_jobs.cjs", packages("bullmq", version))

    def flow(self, option: str = "ignoreDependencyOnFailure", tag: str = "") -> None:
        with self._started("flow", option, tag) as process:
            assert process.wait(90) == 0


def add(name: str, id: str, **options: Any) -> list[Any]:
    return ["add", name, {"what": id, "region": "eu"}, {"jobId": id} | options]


def specimen(client: redis.Redis, version: str = VERSIONS[0]) -> None:
    """Jobs in every state of the queue ``mail``."""
    made_once(Program(client, version), _fill)


def _fill(program: Program) -> None:
    client = program.client
    client.set("broken", 1)
    program.call(
        *[add("fails", f"bad{n}", priority=5 * (n % 2)) for n in range(4)],
        *[add("fine", f"good{n}") for n in range(3)],
    )
    program.work(7)
    program.call(*[add("lasts", f"run{n}") for n in range(4)])
    with program.worker():
        wait(lambda: client.get("started") == b"4")
    for n in range(4):
        client.delete(f"bull:mail:run{n}:lock")  # as it expires
    program.call(
        *[add("fine", f"w{n}", priority=3 if n > 3 else 0) for n in range(6)],
        *[add("fine", f"d{n}", delay=9_000_000 + n) for n in range(5)],
    )
