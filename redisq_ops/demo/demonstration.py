"""The demo: a temporary server with queues of every kind, a workload, and incidents."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient, run

from .frameworks.installation import Framework
from .frameworks.processes import running
from .incidents import Incident
from .other_programs import register_found, write_keys
from .sample_queues import create_samples
from .server import EmbeddedServer


def create_queues(
    client: BlockingClient,
    incidents: Sequence[Incident],
    dice: random.Random,
    real: Collection[str] = (),
) -> None:
    """Fill an empty server with the demo's queues; takes less than a second.

    ``real``: frameworks that fill their queues themselves.
    """
    now_ms = run(client, server_ms())
    create_samples(client, now_ms, dice)
    write_keys(client, now_ms, real)
    for incident in incidents:
        incident.create(client, now_ms)
    register_found(client)


@contextmanager
def demonstration(
    incidents: Sequence[Incident], frameworks: Sequence[Framework] = ()
) -> Iterator[str]:
    """The URL of a temporary server with queues and a workload; both end with the block."""
    real = [framework.name for framework in frameworks]
    with EmbeddedServer() as server, running(frameworks, server.port):
        with connect(server.url, "demo") as client:
            create_queues(client, incidents, random.Random(), real)
        command = [sys.executable, "-m", "redisq_ops.demo.workload", str(server.port)]
        workload = subprocess.Popen(
            [*command, ",".join(real), *(incident.name for incident in incidents)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield server.url
        finally:
            workload.terminate()
            workload.wait(timeout=10)
