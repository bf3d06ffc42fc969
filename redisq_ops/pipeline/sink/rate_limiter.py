"""One rate for all tasks of a job."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.redis.operation import BlockingClient, Call
from redisq_ops.core.redis.scripts import script

from ..source.connection import run_retrying

MAX_WAIT_S = 600.0
"""how long a task waits for capacity in a full queue before it fails"""


def reserve(queue: Queue[Any], name: str, n: int, rate: float, burst: int) -> Call[int]:
    """Reserve ``n`` entries (at most ``burst``) of a shared rate: the ms to wait before using them.

    The reservation is on the server under ``name``, shared by all tasks, ``rate`` in entries per
    second. The server forgets it a minute after its last use.
    """
    loaded = script(queue.package, "rate_limit")
    return loaded.call(queue.keys, queue.clock, int, name=name, n=n, rate=rate, burst=burst)


@dataclass(frozen=True, slots=True)
class RateLimiter:
    """Holds one task to the job's rate."""

    queue: Queue[Any]
    name: str
    rate: float | None = None
    burst: int = 1
    sleep: Callable[[float], None] = time.sleep

    def wait(self, client: BlockingClient, n: int) -> None:
        """Wait until the rate allows ``n`` entries."""
        if self.rate is None:
            return
        call = partial(reserve, self.queue, self.name, n, self.rate, self.burst)
        if wait_ms := run_retrying(client, call):
            self.sleep(wait_ms / 1000)
