"""What a change did: how many entries as intended, how many not and why, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from redisq_ops.core.model.exit_codes import DONE, FAILED, PARTLY_DONE

OTHERS = "by another undo"
"""how an undo counts entries that another undo restored, earlier or at the same time"""


@dataclass(slots=True)
class ChangeOutcome:
    """What a change did: the last output of `redisq`, which decides the exit code."""

    op: str | None
    """operation, for `redisq undo`; `null`: nothing was changed"""
    matched: int
    """entries (or requests, settings, workers) that were selected"""
    done: int = 0
    """those of them that were changed"""
    skipped: dict[str, int] = field(default_factory=dict)
    """reason → number left as they were"""

    def skip(self, reason: str, n: int = 1) -> None:
        if n:
            self.skipped[reason] = self.skipped.get(reason, 0) + n

    def count(self, results: Mapping[str, int]) -> int:
        """Add numbers of entries by result: moved, or the reason why not. Returns their sum."""
        for result, n in results.items():
            if result == "moved":
                self.done += n
            else:
                self.skip(result, n)
        return sum(results.values())

    @property
    def handled(self) -> int:
        """Entries that were dealt with, whatever became of them."""
        return self.done + sum(self.skipped.values())

    @property
    def left(self) -> int:
        """Entries that were handled and are not in the intended state."""
        return sum(n for reason, n in self.skipped.items() if reason not in ("same", OTHERS))

    @property
    def exit_code(self) -> int:
        """0 if all entries are as intended or none matched, 3 if some are, 1 if none is."""
        right = self.handled - self.left
        if right >= self.matched:
            return DONE
        return PARTLY_DONE if right else FAILED
