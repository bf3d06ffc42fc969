"""Samples of each queue since the dashboard began, for values of which the server has no history.

The last minute is kept refresh by refresh, the last day minute by minute.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.rates import Rates
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count

MINUTE_MS = 60_000
LIVE_MS = 75_000
"""how long single samples are kept"""
DAY = 24 * 60
_UNKNOWN = -1
_WIDTH = 3


@dataclass(frozen=True, slots=True)
class Waiting:
    """The waiting entries of a queue, or of several together, as far as they are known."""

    number: int | None
    """None: unknown of each"""
    exact: bool
    """False: there may be more"""
    since_ms: int | None
    """since when the oldest one waits"""

    @classmethod
    def of(cls, counts: Sequence[Counts | None]) -> Waiting:
        """``counts``: those of each queue; None: unknown."""
        read = [one for one in counts if one is not None]
        known = [number for one in read if (number := one.of("waiting")) is not None]
        since = [one.oldest_ms for one in read if one.oldest_ms is not None]
        number = sum(known) if known or not counts else None
        return cls(number, len(known) == len(counts), min(since, default=None))

    @property
    def words(self) -> str:
        if self.number is None:
            return "? waiting"
        return f"{'' if self.exact else '≥'}{count(self.number)} waiting"


@dataclass(frozen=True, slots=True)
class Sample:
    """A queue at one time. ``passed``: entries arrived, settled and failed since the first
    sample; None: unknown."""

    at_ms: int
    waiting: int | None
    """None: unknown"""
    oldest_ms: int | None
    """age of the oldest waiting entry"""
    passed: tuple[float, float, float] | None = None


@dataclass(slots=True)
class _Seen:
    live: deque[Sample] = field(default_factory=deque)
    minutes: array[int] = field(default_factory=lambda: array("q"))
    """flat: minute, waiting, age of the oldest in ms, for each minute with a sample; -1: unknown"""
    counted: tuple[int, tuple[int, int, int]] | None = None
    """the last minute whose counters were read, and these counters"""
    passed: tuple[int, int, int] = (0, 0, 0)


class Samples:
    """The samples of each queue; under None those of all queues together."""

    def __init__(self) -> None:
        self._seen: dict[str | None, _Seen] = {}
        self._rows: dict[str, object] = {}

    def live(self, queue: str | None) -> Iterable[Sample]:
        """The samples of the last minute, the oldest first."""
        seen = self._seen.get(queue)
        return seen.live if seen else ()

    def by_minute(self, queue: str | None) -> list[tuple[int, int | None, int | None]]:
        """(minute, waiting, age of the oldest in ms) of each minute with a sample."""
        seen = self._seen.get(queue)
        flat = seen.minutes if seen else array("q")
        return [
            (flat[at], _known(flat[at + 1]), _known(flat[at + 2]))
            for at in range(0, len(flat), _WIDTH)
        ]

    def waiting(self, queue: str, minute: int, minutes: int) -> list[int]:
        """Waiting entries of up to ``minutes`` minutes in a row, the last one being ``minute``."""
        seen, found = self._seen.get(queue), list[int]()
        flat = seen.minutes if seen else array("q")
        for at in range(len(flat) - _WIDTH, -1, -_WIDTH):
            if len(found) == minutes or flat[at] != minute - len(found):
                break
            if flat[at + 1] == _UNKNOWN:
                break
            found.append(flat[at + 1])
        return found[::-1]

    def record(self, snapshot: Snapshot) -> None:
        """Keep a sample of each queue whose counts are in the snapshot."""
        now = snapshot.now_ms
        if snapshot.overview:
            self._record_all(snapshot)
        elif snapshot.counts is not None and snapshot.viewport.queue is not None:
            rates = snapshot.charts.rates if snapshot.charts else None
            self._keep(snapshot.viewport.queue, now, Waiting.of([snapshot.counts]), rates)

    def _record_all(self, snapshot: Snapshot) -> None:
        now = snapshot.now_ms
        for row in snapshot.overview:
            if row.counts is not None and self._rows.get(row.name) is not row:  # it was read again
                self._rows[row.name] = row
                self._keep(row.name, now, Waiting.of([row.counts]), row.rates)
        rates = (row.rates for row in snapshot.overview if row.rates is not None)
        total = Rates.total(map(_latest, rates))
        self._keep(None, now, Waiting.of([row.counts for row in snapshot.overview]), total)

    def _keep(self, name: str | None, now: int, seen_now: Waiting, rates: Rates | None) -> None:
        seen = self._seen.setdefault(name, _Seen())
        waiting, since = seen_now.number, seen_now.since_ms
        age = None if since is None else max(0, now - since)
        if seen.live and now < seen.live[-1].at_ms:  # another server, or its clock was set back
            seen = self._seen[name] = _Seen()
        passed = None
        if rates is not None and rates.arrived:
            passed = seen.passed = _counted(seen, now // MINUTE_MS, _latest(rates))
        seen.live.append(Sample(now, waiting, age, passed))
        while seen.live[0].at_ms < now - LIVE_MS:
            seen.live.popleft()
        minute, flat = now // MINUTE_MS, seen.minutes
        new = [_UNKNOWN if value is None else value for value in (waiting, age)]
        if not flat or flat[-_WIDTH] != minute:
            flat.extend((minute, *new))
            del flat[: max(0, len(flat) - _WIDTH * DAY)]
        else:  # the highest of the minute
            flat[-2], flat[-1] = max(flat[-2], new[0]), max(flat[-1], new[1])


def _known(value: int) -> int | None:
    return None if value == _UNKNOWN else value


def _latest(rates: Rates) -> Rates:
    """The last five minutes: more than pass between two refreshes."""
    return Rates(rates.arrived[-5:], rates.settled[-5:], rates.failed[-5:])


def _counted(seen: _Seen, minute: int, rates: Rates) -> tuple[int, int, int]:
    """Entries arrived, settled and failed since the first sample, from the minute counters."""
    series = (rates.arrived, rates.settled, rates.failed)
    now = (series[0][-1], series[1][-1], series[2][-1])
    before, seen.counted = seen.counted, (minute, now)
    if before is None or not 0 <= minute - before[0] < len(series[0]):
        return seen.passed
    minutes = minute - before[0]
    # Lower counters than before belong to a new queue of that name: never count below zero.
    came, gone, failed = (
        passed + max(0, sum(part[len(part) - 1 - minutes :]) - part_before)
        for passed, part, part_before in zip(seen.passed, series, before[1], strict=True)
    )
    return came, gone, failed
