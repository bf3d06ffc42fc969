"""The queues of a recording over time, for charts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.rates import Minute, Rates

from .file import RecordedState, state_at, states, whole_times

MINUTE_MS: Final = 60_000
SAMPLES_MS: Final = 75_000
"""period before a moment for which charts show every sample"""
STATES: Final = 60
"""whole states that one call reads at most; the next calls read the others"""


@dataclass(frozen=True, slots=True)
class RecordedPoint:
    """A queue, or all queues together, at a moment."""

    at_ms: int
    waiting: int
    oldest_ms: int | None
    """since when the oldest waiting entry has waited"""
    rates: Minute
    """entries that arrived, were settled, and failed in the 60 seconds before"""


class RecordedHistory:
    """Points of a recording: about one a minute, or one for each sample. ``queue``: None means all
    queues together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: str | None = None
        self._kept: dict[int, RecordedPoint | None] = {}
        """a whole state's point, by its time"""
        self._asked: tuple[str | None, int, int] | None = None
        self._samples: list[RecordedPoint] = []
        """the latest result of `by_sample`, and what it was asked for: one frame asks repeatedly"""

    def by_minute(self, queue: str | None, at_ms: int, minutes: int) -> list[RecordedPoint]:
        """The last ``minutes`` before a moment, the oldest first."""
        if queue != self._queue:
            self._queue, self._kept = queue, {}
        found = list[int]()
        with suppress(BadInput):  # the file was damaged meanwhile
            found = whole_times(self._path, at_ms - minutes * MINUTE_MS, at_ms)
        for each in [each for each in reversed(found) if each not in self._kept][:STATES]:
            self._kept[each] = None
            with suppress(BadInput):  # a damaged one is left out
                state = state_at(self._path, each)
                self._kept[each] = None if state is None else _point(state, queue)
        points = (self._kept.get(each) for each in found)
        return [point for point in points if point is not None]

    def by_sample(self, queue: str | None, at_ms: int, span_ms: int) -> list[RecordedPoint]:
        """The samples of the ``span_ms`` before a moment, the oldest first."""
        if self._asked != (queue, at_ms, span_ms):
            self._asked, self._samples = (queue, at_ms, span_ms), []
            with suppress(BadInput):  # those before a damaged one
                for state in states(self._path, at_ms - span_ms, at_ms):
                    point = _point(state, queue)
                    if point is not None and point.at_ms >= at_ms - span_ms:
                        self._samples.append(point)
        return self._samples

    def rates(self, queue: str | None, at_ms: int, minutes: int) -> Rates:
        """Rates by the minute, as `Queue.rates` returns them; they begin after the latest minute
        of which they are unknown."""
        samples = self.by_sample(queue, at_ms, SAMPLES_MS)
        if not samples:
            return Rates()
        points = self.by_minute(queue, at_ms, minutes)
        ended = {(point.at_ms + MINUTE_MS // 2) // MINUTE_MS: point.rates for point in points}

        def series(which: int) -> tuple[int, ...]:
            number, found = samples[-1].rates[which], list[int]()
            for end in range(at_ms // MINUTE_MS, at_ms // MINUTE_MS - minutes + 1, -1):
                if number is None:
                    break
                found.append(number)
                # Whole states are a little more than a minute apart: one minute may have none.
                near = (ended.get(at) for at in (end - 1, end - 2))
                number = next((rates[which] for rates in near if rates is not None), None)
            running = found[:1] and [round(found[0] * (at_ms % MINUTE_MS) / MINUTE_MS)]
            return (*reversed(found), *running)

        return Rates(series(0), series(1), series(2))


def queue_samples(
    path: Path, queues: Collection[str], since_ms: int, until_ms: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Of a period, about one sample a minute of each queue (empty: of all): the time, and the row
    as `redisq ls --json` prints it. Times at which the server could not be read are left out."""
    for at_ms in whole_times(path, since_ms, until_ms):
        state = state_at(path, at_ms)
        if state is None or state.lost is not None:
            continue
        for name, row in sorted(state.queues.items()):
            if not queues or name in queues:
                yield at_ms, row


def _point(state: RecordedState, queue: str | None) -> RecordedPoint | None:
    """None: the queue isn't in it, or couldn't be read."""
    names = state.queues if queue is None else (queue,)
    known = [state.queues[name] for name in names if name in state.queues]
    known = [row for row in known if row["waiting"] is not None]
    if state.lost is not None or not known:
        return None
    since = [row["oldest_ms"] for row in known if row["oldest_ms"] is not None]
    waiting = sum(row["waiting"] for row in known)
    rates = _sum(known, "in"), _sum(known, "out"), _sum(known, "failed")
    return RecordedPoint(state.at_ms, waiting, min(since, default=None), rates)


def _sum(rows: Sequence[Mapping[str, Any]], what: str) -> int | None:
    """The sum of what queues count; None: none of them counts it."""
    counted = [rate for row in rows if (rate := row[f"{what}_per_min"]) is not None]
    return sum(counted) if counted else None
