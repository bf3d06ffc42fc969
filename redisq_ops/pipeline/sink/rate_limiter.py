"""One rate for all tasks of a job, and the bound on a queue's waiting entries."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import QueueFull
from redisq_ops.core.model.settings import DEFAULTS
from redisq_ops.core.redis.operation import BlockingClient, Call
from redisq_ops.core.redis.scripts import script
from redisq_ops.ops.terminal import age, count

from ..source.connection import run_retrying

MAX_WAIT_S = 600.0
"""how long a task waits for capacity in a full queue before it fails"""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
_BOUND_AGE_S = 1.0
"""how long a read value of ``max_waiting`` is used before it is read again"""


def reserve(queue: Queue[Any], name: str, n: int, rate: float, burst: int) -> Call[int]:
    """Reserve ``n`` entries (at most ``burst``) of a shared rate: the ms to wait before using them.

    The reservation is on the server under ``name``, shared by all tasks, ``rate`` in entries per
    second. The server forgets it a minute after its last use.
    """
    loaded = script(queue.package, "rate_limit")
    return loaded.call(queue.keys, queue.clock, int, name=name, n=n, rate=rate, burst=burst)


@dataclass(slots=True)
class RateLimiter:
    """Holds one task to the job's rate and to the queue's ``max_waiting``.

    Other tasks may add a step each between the check and this task's step, so a queue can exceed
    its bound by one step per other task. A submission is exact: its script checks the bound itself.
    """

    queue: Queue[Any]
    name: str
    rate: float | None = None
    burst: int = 1
    max_wait_s: float = MAX_WAIT_S
    rate_queue: Queue[Any] | None = None
    """queue whose hash slot holds the rate, for a job on several queues; default: ``queue``"""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _bound: int = 0
    _bound_read_at: float | None = None

    def wait(self, client: BlockingClient, n: int, *, check_capacity: bool) -> None:
        """Wait until the rate allows ``n`` entries and, with ``check_capacity``, until the queue
        has capacity for them.

        Raises `QueueFull` if the queue has no capacity for ``max_wait_s`` seconds.
        """
        if check_capacity:
            self._wait_for_capacity(client, n)
        if self.rate is not None:
            holder = self.rate_queue or self.queue
            call = partial(reserve, holder, self.name, n, self.rate, self.burst)
            wait_ms = run_retrying(client, call)
            if wait_ms:
                self.sleep(wait_ms / 1000)

    def _wait_for_capacity(self, client: BlockingClient, n: int) -> None:
        started, pause = self.clock(), _FIRST_PAUSE_S
        while bound := self._max_waiting(client):
            waiting = run_retrying(client, self.queue.counts.op).of("waiting")
            # A step larger than the bound may run when nothing is waiting.
            if waiting is None or waiting + n <= max(bound, n):
                return
            if self.clock() - started > self.max_wait_s:
                raise queue_full_error(waiting, bound, self.max_wait_s)
            self.sleep(pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)

    def _max_waiting(self, client: BlockingClient) -> int:
        """The queue's bound, re-read every second; 0: none."""
        now = self.clock()
        if self._bound_read_at is None or now - self._bound_read_at >= _BOUND_AGE_S:
            settings = (
                run_retrying(client, self.queue.settings.op) if self.queue.has_settings else {}
            )
            self._bound = int(settings.get("max_waiting", DEFAULTS.max_waiting))
            self._bound_read_at = now
        return self._bound


def queue_full_error(waiting: int, bound: int, max_wait_s: float) -> QueueFull:
    """The error of a task whose wait for capacity took too long."""
    return QueueFull(
        f"{count(waiting)} entries are waiting and max_waiting is {count(bound)}: "
        f"no capacity for {age(int(max_wait_s * 1000))}"
    )
