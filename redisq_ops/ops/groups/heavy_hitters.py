"""Counts of the most frequent values of any number of values, in bounded memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class HeavyHitters(Generic[V]):
    """Counts of the most frequent values.

    Exact up to ``limit`` different values. Beyond that the true count of a value is between the one
    in ``counts`` and `at_most`, which differ by ``slack``, and every value with a count above
    ``slack`` is kept. (Purging by the median: Anderson and others, "A high-performance algorithm
    for identifying frequent items in data streams", 2017.)
    """

    __slots__ = ("counts", "limit", "slack")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.counts: dict[V, int] = {}
        self.slack = 0

    def add(self, value: V, n: int = 1) -> None:
        counts = self.counts
        if value in counts:
            counts[value] += n
            return
        if len(counts) >= self.limit:
            cut = sorted(counts.values())[len(counts) // 2]
            self.slack += cut
            counts = self.counts = {v: count - cut for v, count in counts.items() if count > cut}
        counts[value] = n

    def at_most(self, value: V) -> int:
        return self.counts.get(value, 0) + self.slack

    def top(self, n: int) -> list[tuple[V, int]]:
        """The ``n`` most frequent values with their least counts, the largest first."""
        return sorted(self.counts.items(), key=lambda item: -item[1])[:n]


class DistinctNames:
    """The number of different names, up to `KEPT`, and the most frequent ones."""

    __slots__ = ("_hashes", "frequent", "more")

    KEPT = 500
    FREQUENT = 64

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self.frequent: HeavyHitters[str] = HeavyHitters(self.FREQUENT)
        self.more = False
        """there are more than `KEPT`; ``len()`` is then a lower bound"""

    def add(self, name: str) -> None:
        self.frequent.add(name)
        if self.more:
            return
        # Hashes, since names can have 128 bytes and there can be a thousand groups.
        self._hashes.add(hash(name))
        if len(self._hashes) > self.KEPT:
            self.more = True

    def __len__(self) -> int:
        return min(len(self._hashes), self.KEPT)

    def top(self, n: int) -> list[tuple[str, int]]:
        return self.frequent.top(n)
