"""Counting names that may be too many to keep: bounded memory, and marks where it shows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class Frequent(Generic[V]):
    """How often each value came, for the frequent ones of any number of values.

    Exact until ``limit`` different values were there. From then on a value came at least
    `at_least` and at most `at_most` times, ``slack`` apart; every value that came more often than
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

    def at_least(self, value: V) -> int:
        return self.counts.get(value, 0)

    def at_most(self, value: V) -> int:
        return self.counts.get(value, 0) + self.slack

    def top(self, n: int) -> list[tuple[V, int]]:
        """The ``n`` most frequent, with how often they came at least."""
        return sorted(self.counts.items(), key=lambda item: -item[1])[:n]


class Names:
    """Who or what was in a group: how many different ones, and the frequent ones."""

    __slots__ = ("_seen", "frequent", "more")

    KEPT = 500
    FREQUENT = 64

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self.frequent: Frequent[str] = Frequent(self.FREQUENT)
        self.more = False
        """there were more than are counted"""

    def add(self, name: str) -> None:
        self.frequent.add(name)
        if self.more:
            return
        # Hashes only: names are up to 128 bytes, and there may be a thousand groups.
        self._seen.add(hash(name))
        if len(self._seen) > self.KEPT:
            self.more = True

    def __len__(self) -> int:
        return min(len(self._seen), self.KEPT)

    def top(self, n: int) -> list[tuple[str, int]]:
        return self.frequent.top(n)
