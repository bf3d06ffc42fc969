"""The demo: a temporary server with a workload on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .server import EmbeddedServer


@contextmanager
def demonstration() -> Iterator[str]:
    """The URL of a temporary server with a workload; both end with the block."""
    with EmbeddedServer() as server:
        command = [sys.executable, "-m", "redisq_ops.demo.workload", server.url]
        workload = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield server.url
        finally:
            workload.terminate()
            workload.wait(timeout=10)
