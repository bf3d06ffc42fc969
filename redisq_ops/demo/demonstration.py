"""The demo: a temporary server with queues of every kind, a workload, and incidents.

Another process fills the server and works on it, while this one loads the dashboard.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from redisq_ops.core.model.errors import Unreachable

from .frameworks.installation import Framework
from .server import EmbeddedServer

# Kills the command and its children when the other end of its standard input is closed, also if
# that process dies. `GUARD` in `server` says why a parent-death signal doesn't work here.
_GUARDED = '"$@" & exec >/dev/null; read -r _; kill -9 0'


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
    with EmbeddedServer() as server, _frameworks(frameworks, server.port):
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


@contextmanager
def _frameworks(frameworks: Sequence[Framework], port: int) -> Iterator[None]:
    """A producer and a worker of each; all have sent their first jobs when the block begins. They
    end with this process, however it ends.

    Raises `Unreachable` if one does not start.
    """
    with ExitStack() as stack:
        producers = [_start(stack, each, port, "produce") for each in frameworks]
        for framework, producer in zip(frameworks, producers, strict=True):
            assert producer.stdout
            if not producer.stdout.readline():
                command = shlex.join([*framework.command, str(port), "produce"])
                raise Unreachable(f"{framework.name} does not start; its command: {command}")
        for framework in frameworks:
            _start(stack, framework, port, "work")
        yield


def _start(stack: ExitStack, framework: Framework, port: int, role: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        ["/bin/sh", "-c", _GUARDED, "sh", *framework.command, str(port), role],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if role == "produce" else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=framework.environment,
        cwd=framework.folder,
        start_new_session=True,
    )
    stack.callback(process.communicate)  # closes its standard input, and waits
    return process
