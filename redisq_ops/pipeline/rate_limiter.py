"""How fast, and how far: one rate for all tasks of a job, and what the queue still takes."""

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

from .writing import sent

PATIENCE_S = 600.0
"""how long a task waits for a full queue to take something before it gives up"""
_FIRST_S, _LONGEST_S = 0.05, 2.0
_ASKED_AGAIN_S = 1.0
"""how long the queue's bound is taken to stand"""


def place(queue: Queue[Any], name: str, n: int, rate: float, burst: int) -> Call[int]:
    """A place for ``n`` entries (at most ``burst``) in the line of that name, at ``rate`` entries
    per second: how many ms to wait first. The line is on the server, shared by all who ask; it is
    forgotten a minute after it was last used up."""
    loaded = script(queue.package, "rate_limit")
    return loaded.call(queue.keys, queue.clock, int, name=name, n=n, rate=rate, burst=burst)


@dataclass(slots=True)
class RateLimiter:
    """Holds one task to the job's rate, and to the queue's ``max_waiting``.

    Between the look at what waits and the step others may add theirs, so a queue can get over its
    bound by one step of each other task, no more. Submitting has no such gap: there the bound is
    checked by the script that adds.
    """

    queue: Queue[Any]
    name: str
    rate: float | None = None
    burst: int = 1
    patience_s: float = PATIENCE_S
    line: Queue[Any] | None = None
    """under whose tag the line is, where a job has several queues; else the queue's own"""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _bound: int = 0
    _known_at: float | None = None

    def wait(self, client: BlockingClient, n: int, *, room: bool) -> None:
        """Until ``n`` more entries may go; with ``room`` also until so many fit in.

        `QueueFull` when nothing fitted for as long as a task waits.
        """
        if room:
            self._for_room(client, n)
        if self.rate is not None:
            of = self.line or self.queue
            line = partial(place, of, self.name, n, self.rate, self.burst)
            wait_ms = sent(client, line)
            if wait_ms:
                self.sleep(wait_ms / 1000)

    def _for_room(self, client: BlockingClient, n: int) -> None:
        began, pause = self.clock(), _FIRST_S
        while bound := self._max_waiting(client):
            waiting = sent(client, self.queue.counts.op).of("waiting")
            # A step that is larger than the bound goes when nothing waits at all.
            if waiting is None or waiting + n <= max(bound, n):
                return
            if self.clock() - began > self.patience_s:
                raise full(waiting, bound, self.patience_s)
            self.sleep(pause)
            pause = min(_LONGEST_S, pause * 2)

    def _max_waiting(self, client: BlockingClient) -> int:
        """The queue's own bound as it is now, 0: none; asked again every second."""
        now = self.clock()
        if self._known_at is None or now - self._known_at >= _ASKED_AGAIN_S:
            settings = sent(client, self.queue.settings.op) if self.queue.has_settings else {}
            self._bound = int(settings.get("max_waiting", DEFAULTS.max_waiting))
            self._known_at = now
        return self._bound


def full(waiting: int, bound: int, patience_s: float) -> QueueFull:
    """What a task says that waited for room in vain."""
    return QueueFull(
        f"{count(waiting)} entries wait and max_waiting is {count(bound)}: "
        f"nothing fitted in for {age(int(patience_s * 1000))}"
    )
