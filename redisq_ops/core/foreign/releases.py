"""The releases of a program whose queues a kind changes.

A queue of any other release is only shown. Where nothing in Redis says the release, nothing can be
refused, and the docs say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*")


@dataclass(frozen=True, slots=True)
class Releases:
    """``tried`` and ``known`` are in ascending order. A later minor release is assumed to be like
    the last one; the next major release is not."""

    tried: tuple[str, ...]
    """releases that ran beside ours"""
    known: tuple[str, ...] = ()
    """later ones, whose layout is known from their sources"""
    told: str = ""
    """where Redis says the release, in words; empty: nowhere"""

    @property
    def bounds(self) -> str:
        """``5 to 6`` or ``5.2 to 5.x``, in words; before the first major release
        ``0.23 to 0.26``."""
        first, last = self._ends
        major = last.partition(".")[0]
        to = last if major == "0" else f"{major}.x" if first.startswith(f"{major}.") else major
        return f"{first} to {to}" if first != last else first

    @property
    def _ends(self) -> tuple[str, str]:
        every = self.tried + self.known
        return every[0], every[-1]

    def other(self, there: Iterable[str]) -> str | None:
        """The earliest of these releases that is outside the bounds; None: all are inside."""
        first, last = map(_numbers, self._ends)
        numbers = [found[0] for each in there if (found := _NUMBERS.match(each))]
        outside = (each for each in numbers if not first <= _numbers(each) < (last[0] + 1,))
        return min(outside, key=_numbers, default=None)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
