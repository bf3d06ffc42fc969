"""Rates of queues from refresh to refresh: minutes that are over are read once."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.model.rates import Rates

from .overview import queue_rates

MINUTE_MS = 60_000


class KeptRates:
    """The rates of the last ``minutes`` of any queue."""

    def __init__(self, minutes: int) -> None:
        self.minutes = minutes
        self._kept: dict[Registered, tuple[int, Rates]] = {}
        """a queue -> the minute of the last read, and what was read"""

    async def read(self, queue: Queue[Any], entry: Registered, now: int) -> Rates | None:
        """Up to the minute of ``now``; None: the queue has no such counters."""
        minute = now // MINUTE_MS
        before, known = self._kept.get(entry, (0, None))
        passed = minute - before
        whole = known is not None and len(known.settled) >= self.minutes
        if known is None or not whole or not 0 <= passed < self.minutes - 1:
            rates = await queue_rates(queue, now, self.minutes)
        else:
            later = await queue_rates(queue, now, max(2, passed + 1))
            rates = None if later is None else known.continued(later, passed)
        if rates is not None:
            self._kept[entry] = minute, rates
        return rates
