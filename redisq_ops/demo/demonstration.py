"""The demo: a temporary server with queues of every kind, a workload, and incidents.

Another process fills the server and works on it, while this one loads the dashboard.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from redisq_ops.core.model.errors import Unreachable

from .frameworks.installation import Framework
from .frameworks.processes import running
from .server import EmbeddedServer


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A temporary server with a workload."""

    url: str
    _workload: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Wait until all queues exist; raises `Unreachable` if they can't be created."""
        assert self._workload.stdout
        if not self._workload.stdout.readline():
            raise Unreachable("the demo's queues can't be made: its process has ended")


@contextmanager
def demonstration(
    incidents: Sequence[str], frameworks: Sequence[Framework] = ()
) -> Iterator[Demonstration]:
    """A server with the incidents of these names, which another process fills; server and
    workload end with the block."""
    real = [framework.name for framework in frameworks]
    with EmbeddedServer() as server, running(frameworks, server.port):
        command = [sys.executable, "-P", "-m", "redisq_ops.demo.workload"]
        workload = subprocess.Popen(
            [*command, str(os.getpid()), str(server.port), ",".join(real), *incidents],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Demonstration(server.url, workload)
        finally:
            workload.terminate()
            workload.wait(timeout=10)
