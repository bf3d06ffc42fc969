"""Rates from an owner's counters of all runs that ever ended: from how they grow between two looks.

A queue object that is kept, by the dashboard or a recording, knows its rates from its second whole
minute on. What was before its first look, or in a gap of more than a minute, is unknown.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Final

from ..model.quoting import bytes_of
from ..model.rates import Rates
from ..redis.operation import C_co, Call, attempt, operation, together
from ..redis.parsers import optional
from .base import ForeignQueue

GAP_MS: Final = 60_000
KEPT: Final = 24 * 60
"""minutes"""


class EndedTotals:
    """Counters ``processed``, which counts failed runs too, and ``failed``."""

    def __init__(self, processed: str, failed: str) -> None:
        self._keys = bytes_of(processed), bytes_of(failed)
        self._latest: tuple[int, int, int] | None = None
        """when the counters were read, and what they said"""
        self._first = 0
        """the first minute that was seen as a whole"""
        self._minutes: dict[int, tuple[int, int]] = {}

    async def rates(self, now_ms: int, minutes: int) -> Rates:
        """Empty as long as no whole minute was seen."""
        one, two = (Call(("GET", key), optional, key=key, cut=True) for key in self._keys)
        found = await attempt(together(one, two))
        processed, failed = (None, None) if isinstance(found, Exception) else found
        failed = b"0" if failed is None else failed  # the first failure makes the key
        if processed is None or not (processed.isdigit() and failed.isdigit()):
            self._latest = None
            return Rates()
        self._add(now_ms, int(processed), int(failed))
        last = now_ms // 60_000
        known = range(max(self._first, last - minutes + 1), last + 1)
        if last <= self._first:
            return Rates()
        rows = [self._minutes.get(minute, (0, 0)) for minute in known]
        return Rates((), *zip(*rows, strict=True))

    def _add(self, now_ms: int, processed: int, failed: int) -> None:
        minute, latest = now_ms // 60_000, self._latest
        self._latest = now_ms, processed, failed
        before_ms, *before = latest or (now_ms - GAP_MS - 1, 0, 0)
        failures = failed - before[1]
        others = processed - before[0] - failures
        if not 0 <= now_ms - before_ms <= GAP_MS or min(failures, others) < 0:
            self._first, self._minutes = minute + 1, {}
            return
        counted = self._minutes.get(minute, (0, 0))
        self._minutes[minute] = counted[0] + others, counted[1] + failures
        self._minutes.pop(minute - KEPT, None)


class CountsEnds(ForeignQueue[C_co]):
    """The owner counts the runs that ended, of the queue or of the whole deployment."""

    ended_counters: ClassVar[tuple[str, str]]
    """its counters of processed and of failed runs"""

    @cached_property
    def _totals(self) -> EndedTotals:
        return EndedTotals(*(self.at + key for key in self.ended_counters))

    @operation
    async def rates(self, now_ms: int, minutes: int = 60) -> Rates:
        """As for every queue, from the second whole minute on in which they were asked for; what
        arrives isn't counted."""
        return await self._totals.rates(now_ms, minutes)
