"""The queues of a recording over time, for charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redisq_ops.core.model.rates import Rates

from .file import Member, RecordedState, first_line, lines

MINUTE_MS: Final = 60_000
SAMPLES_MS: Final = 75_000
"""period before a moment for which charts show every sample"""
MEMBERS: Final = 60
"""members whose first state one call reads at most; the next calls read the others"""


@dataclass(frozen=True, slots=True)
class RecordedPoint:
    """A queue, or all queues together, at a moment."""

    at_ms: int
    waiting: int
    oldest_ms: int | None
    """since when the oldest waiting entry has waited"""
    rates: tuple[int, int, int]
    """entries that arrived, were settled, and failed in the 60 seconds before"""


class RecordedHistory:
    """Points of a recording: about one a minute, or one for each sample. ``queue``: None means all
    queues together."""

    def __init__(self, path: Path, members: Sequence[Member]) -> None:
        self._path, self._members = path, members
        self._queue: str | None = None
        self._kept: dict[int, RecordedPoint | None] = {}
        """first state of a member, by its offset"""
        self._asked: tuple[str | None, int, int] | None = None
        self._samples: list[RecordedPoint] = []
        """the latest result of `by_sample`, and what it was asked for: one frame asks repeatedly"""

    def by_minute(self, queue: str | None, at_ms: int, minutes: int) -> list[RecordedPoint]:
        """The last ``minutes`` before a moment, the oldest first."""
        if queue != self._queue:
            self._queue, self._kept = queue, {}
        since = at_ms - minutes * MINUTE_MS
        found = [member for member in self._members if since <= member.at_ms <= at_ms]
        unread = [member for member in reversed(found) if member.offset not in self._kept]
        for member in unread[:MEMBERS]:
            line = first_line(self._path, member)
            self._kept[member.offset] = None if line is None else _points([line], queue)[0]
        points = (self._kept.get(member.offset) for member in found)
        return [point for point in points if point is not None]

    def by_sample(self, queue: str | None, at_ms: int, span_ms: int) -> list[RecordedPoint]:
        """The samples of the ``span_ms`` before a moment, the oldest first."""
        if self._asked != (queue, at_ms, span_ms):
            begun = [member for member in self._members if member.at_ms <= at_ms]
            points = (
                point
                for member in begun[-3:]  # a member has a minute
                for point in _points(lines(self._path, member)[0], queue)
            )
            self._asked = queue, at_ms, span_ms
            self._samples = [
                point for point in points if point and at_ms - span_ms <= point.at_ms <= at_ms
            ]
        return self._samples

    def rates(self, queue: str | None, at_ms: int, minutes: int) -> Rates:
        """Rates by the minute, as `Queue.rates` returns them."""
        series = [[0] * minutes for _ in range(3)]
        latest: RecordedPoint | None = None
        for latest in self.by_minute(queue, at_ms, minutes):
            back = at_ms // MINUTE_MS - (latest.at_ms - MINUTE_MS // 2) // MINUTE_MS
            for each, number in zip(series, latest.rates, strict=True):
                each[max(0, minutes - 1 - back)] = number
        now = next(reversed(self.by_sample(queue, at_ms, SAMPLES_MS)), latest)
        if now is not None and minutes > 1:
            passed = at_ms % MINUTE_MS / MINUTE_MS
            for each, number in zip(series, now.rates, strict=True):
                each[-2:] = number, round(number * passed)
        return Rates(*map(tuple, series))


def _points(rows: Sequence[dict[str, Any]], queue: str | None) -> list[RecordedPoint | None]:
    """The points of consecutive lines; None: the queue isn't in it, or couldn't be read."""
    state, points = RecordedState(), list[RecordedPoint | None]()
    for line in rows:
        state.apply(line)
        names = state.queues if queue is None else (queue,)
        known = [state.queues[name] for name in names if name in state.queues]
        known = [row for row in known if row["waiting"] is not None]
        since = [row["oldest_ms"] for row in known if row["oldest_ms"] is not None]
        waiting, arrived, settled, failed = (
            sum(row[field] or 0 for row in known)
            for field in ("waiting", "in_per_min", "out_per_min", "failed_per_min")
        )
        rates = (arrived, settled, failed)
        point = RecordedPoint(state.at_ms, waiting, min(since, default=None), rates)
        points.append(point if known and state.lost is None else None)
    return points
