"""How many entries arrive, are settled and fail in each minute."""

from __future__ import annotations

from dataclasses import dataclass
from operator import add

ENOUGH = 30
"""settled entries from which a pace can be computed"""


@dataclass(frozen=True, slots=True)
class Rates:
    """Entries per minute, the oldest minute first; the last minute is not over yet.

    Empty for queues of other programs, whose own counters are not read.
    """

    arrived: tuple[int, ...] = ()
    settled: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()

    @classmethod
    def zero(cls, minutes: int) -> Rates:
        """Rates of minutes in which nothing happened."""
        none = (0,) * minutes
        return cls(none, none, none)

    @property
    def series(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        return self.arrived, self.settled, self.failed

    def last_minute(self, now_ms: int) -> tuple[int, int, int]:
        """(arrived, settled, failed) in the last 60 seconds, estimated from the minute counters:
        the running minute, and the part of the one before that is less than 60 seconds ago."""
        share = 1 - now_ms % 60_000 / 60_000

        def sliding(series: tuple[int, ...]) -> int:
            return series[-1] + round(series[-2] * share) if len(series) > 1 else sum(series)

        return sliding(self.arrived), sliding(self.settled), sliding(self.failed)

    def continued(self, later: Rates, minutes: int) -> Rates:
        """These rates ``minutes`` later: ``later`` replaces the last ones and adds the new ones."""
        length, kept = len(self.arrived), len(self.arrived) + minutes - len(later.arrived)
        pairs = zip(self.series, later.series, strict=True)
        return Rates(*((before[:kept] + after)[-length:] for before, after in pairs))

    def plus(self, other: Rates) -> Rates:
        """The sum of two queues' rates of the same minutes; if one is empty, the other."""
        if not (self.arrived and other.arrived):
            return self if self.arrived else other
        pairs = zip(self.series, other.series, strict=True)
        return Rates(*(tuple(map(add, one, another)) for one, another in pairs))

    def pace(self, now_ms: int) -> float | None:
        """Entries settled per minute, since the first minute with one; None: fewer than 30."""
        if sum(self.settled) < ENOUGH:
            return None
        began = next(k for k, n in enumerate(self.settled) if n)
        minutes = len(self.settled) - 1 - began + now_ms % 60_000 / 60_000
        return sum(self.settled) / max(1.0, minutes)
