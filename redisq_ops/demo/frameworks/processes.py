"""Processes of frameworks that end with the process that started them, however it ends."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from redisq_ops.core.model.errors import Unreachable

from .installation import Framework

# Kills the command and its children when the other end of its standard input is closed, also if
# that process dies. `GUARD` in `..server` says why a parent-death signal doesn't work here.
GUARDED = '"$@" & exec >/dev/null; read -r _; kill -9 0'


@contextmanager
def running(frameworks: Sequence[Framework], port: int) -> Iterator[None]:
    """A producer and a worker of each; all have sent their first jobs when the block begins.

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
        ["/bin/sh", "-c", GUARDED, "sh", *framework.command, str(port), role],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if role == "produce" else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=framework.environment,
        cwd=framework.folder,
        start_new_session=True,
    )
    stack.callback(process.communicate)  # closes its standard input, and waits
    return process
