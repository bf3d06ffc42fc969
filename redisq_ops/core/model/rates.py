"""How many entries arrive, are settled and fail in each minute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeAlias

Minute: TypeAlias = tuple[int | None, int | None, int | None]
"""(arrived, settled, failed) in the last 60 seconds; None: unknown"""
ENOUGH = 30
"""settled entries from which a pace can be computed"""


@dataclass(frozen=True, slots=True)
class Rates:
    """Entries per minute, the oldest minute first; the last minute is not over yet.

    Of another program's queue, as far as its owner counts: ``arrived`` may be unknown (empty), and
    of the others there may be fewer minutes than were asked for. All are empty if nothing is
    counted.
    """

    arrived: tuple[int, ...] = ()
    settled: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()

    @classmethod
    def zero(cls, minutes: int) -> Rates:
        """Rates of minutes in which nothing happened."""
        none = (0,) * minutes
        return cls(none, none, none)

    @classmethod
    def total(cls, rates: Iterable[Rates]) -> Rates:
        """The sum of queues' rates that end with the same minute, without what is unknown."""
        several = [one.series for one in rates]
        return cls(*map(_sum, zip(*several, strict=True))) if several else cls()

    @property
    def counted(self) -> bool:
        """Whether anything is counted."""
        return bool(self.settled)

    @property
    def series(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        return self.arrived, self.settled, self.failed

    def last_minute(self, now_ms: int) -> Minute:
        """(arrived, settled, failed) in the last 60 seconds, estimated from the minute counters:
        the running minute, and the part of the one before that is less than 60 seconds ago. None:
        unknown."""
        share = 1 - now_ms % 60_000 / 60_000

        def sliding(series: tuple[int, ...]) -> int | None:
            if len(series) > 1:
                return series[-1] + round(series[-2] * share)
            return series[0] if series else None

        return sliding(self.arrived), sliding(self.settled), sliding(self.failed)

    def continued(self, later: Rates, minutes: int) -> Rates:
        """These rates ``minutes`` later: ``later`` replaces the last ones and adds the new ones."""
        length, kept = len(self.settled), len(self.settled) + minutes - len(later.settled)
        pairs = zip(self.series, later.series, strict=True)
        return Rates(
            *((before[:kept] + after)[-length:] if before else () for before, after in pairs)
        )

    def pace(self, now_ms: int) -> float | None:
        """Entries settled per minute, since the first minute with one; None: fewer than 30."""
        if sum(self.settled) < ENOUGH:
            return None
        began = next(k for k, n in enumerate(self.settled) if n)
        minutes = len(self.settled) - 1 - began + now_ms % 60_000 / 60_000
        return sum(self.settled) / max(1.0, minutes)


def _sum(series: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    minutes = zip_longest(*map(reversed, series), fillvalue=0)
    return tuple(map(sum, minutes))[::-1]
