"""How often the tasks of a queue ran, failed, and how long they took, in a stated window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, TypeAlias

from .entry import Failure
from .row_fields import Text, Time

Times: TypeAlias = Literal["exact", "at most"]
"""whether quantiles are run times, or upper bounds of the buckets of a histogram"""


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """One task in a window. None: unknown."""

    task: str | None
    """None: runs whose task isn't kept; with ``every``: all runs of the queue"""
    ended: int | None = None
    """runs that ended, failed ones too"""
    failed: int | None = None
    p50_ms: int | None = None
    p95_ms: int | None = None
    timed: int = 0
    """of how many runs the quantiles are"""
    error: Failure | None = None
    """the latest one that was read"""
    error_ms: int | None = None
    every: bool = False


@dataclass(frozen=True, slots=True)
class DeployMark:
    """A release that its owner marked."""

    at_ms: Time
    """when it was marked"""
    label: Text
    """what the mark says"""


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The tasks of a queue, as one source knows them."""

    source: str
    """what was read, in words"""
    since_ms: int | None
    """when the window begins; None: unknown, and with it the rates"""
    until_ms: int
    tasks: tuple[TaskFigures, ...] = ()
    times: Times = "exact"
    remarks: tuple[str, ...] = ()
    """what could not be read, or is not kept, in sentences"""
    marks: tuple[DeployMark, ...] = ()
    """the releases in the window, the earliest first"""

    def per_min(self, figures: TaskFigures) -> float | None:
        """Runs of a task that ended in a minute, on average."""
        if figures.ended is None or self.since_ms is None:
            return None
        return figures.ended / max(1.0, (self.until_ms - self.since_ms) / 60_000)


def quantile(values: Iterable[int], share: float) -> int | None:
    """The value that at least this share of the values don't exceed; None: there are none."""
    ranked = sorted(values)
    return ranked[max(0, ceil(share * len(ranked)) - 1)] if ranked else None


def bucket_of(counts: Sequence[int], share: float) -> int | None:
    """The bucket of a histogram that has this quantile; None: the histogram is empty."""
    rest = ceil(share * sum(counts))
    for at, number in enumerate(counts):
        rest -= number
        if number and rest <= 0:
            return at
    return None
