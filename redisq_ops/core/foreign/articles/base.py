"""What the layouts of the articles have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...model.entry import Checkup, Counts, Entry
from ...model.quoting import bytes_of, legal
from ...redis.operation import C_co, operation
from ..base import ForeignQueue

LOOK_KEYS = 100_000
"""keys looked through where a layout keeps no index of itself"""
STALE_MS = 3_600_000
"""work that began so long ago counts as abandoned"""


class RawLayout(ForeignQueue[C_co]):
    """An article's layout. ``at``: what its keys begin with, or its only key."""

    package: ClassVar[str] = "foreign.articles"

    @property
    def key(self) -> bytes:
        """The queue's key, if the layout is one key."""
        return bytes_of(self.at or self.own_name)

    async def _look(self) -> tuple[list[bytes], str | None]:
        """The queue's keys that a scan finds, and what the scan left out; None: nothing."""
        return [], None

    @operation
    async def full_counts(self, now_ms: int | None = None) -> Counts:
        keys, unseen = await self._look()
        before = self.found
        self.found = frozenset(keys) if keys and not unseen else before
        try:
            counts: Counts = await self.counts.op(now_ms)
            return counts
        finally:
            self.found = before

    async def _get_waiting(self, id: str) -> Entry | None:
        return None

    @operation
    async def invariants(self) -> list[str]:
        checkup: Checkup = await self.checkup.op(thorough=True)
        return list(checkup.flaws)


def hours(ms: float) -> str:
    """``3 h``, ``2 days``: how long ago, roughly."""
    n = int(ms // 3_600_000)
    return f"{n} h" if n < 48 else f"{n // 24:,} days"


def named(names: Sequence[bytes]) -> str:
    """The first three names."""
    return ", ".join(map(legal, names[:3])) + (", …" if len(names) > 3 else "")
