"""What Sidekiq 7 and 8 keep of the runs of each class: counts by the minute, histograms of run
times, and marks of deploys.

Layout, from ``sidekiq/metrics/tracking.rb``, ``shared.rb`` and ``deploy.rb`` of 7.0 to 8.1: a hash
for each minute with ``CLASS|p`` (runs, failed ones too), ``CLASS|f`` (failed) and ``CLASS|ms``; a
string of 26 big-endian 16-bit counters for each class and minute; a hash of marks for each day.
Minutes are of UTC, and a process writes what ended in the ten seconds before. Both last 8 hours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from struct import unpack
from typing import Any, Final, NamedTuple

from ...model.quoting import bytes_of, legal
from ...model.rates import Rates
from ...model.task_figures import DeployMark, TaskFigures, TaskReport, bucket_of
from ...redis.operation import Call, attempts, together
from ...redis.parsers import optional
from ..iso_times import iso_ms

KEPT_MINUTES: Final = 8 * 60
FIELDS: Final = 3_000
"""fields of a minute's hash that are read; one with more isn't"""
HISTOGRAMS: Final = 3_000
"""histograms that are read, those of the most frequent classes first"""
BUCKETS: Final = (
    *(20, 30, 45, 65, 100, 150, 225, 335, 500, 750, 1_100, 1_700, 2_500, 3_800, 5_750, 8_500),
    *(13_000, 20_000, 30_000, 45_000, 65_000, 100_000, 150_000, 225_000, 335_000),
)
"""the time (ms) below which runs are in each bucket; the last bucket, for longer ones, has none"""


class _Minute(NamedTuple):
    """The keys of a minute, as Sidekiq 7 or 8 names them."""

    counts: bytes
    histogram: str
    """``%s``: the class"""

    @classmethod
    def of(cls, at: str, minute: int) -> list[_Minute]:
        when = datetime.fromtimestamp(minute * 60, UTC)
        day, hour, of_hour = when.day, when.hour, when.minute
        return [
            cls(
                bytes_of(f"{at}j|{when:%Y%m%d}|{hour}:{of_hour}"),
                f"{at}%s-{day:02}-{hour:02}:{of_hour}",
            ),
            cls(
                bytes_of(f"{at}j|{when:%y%m%d}|{hour}:{of_hour:02}"),
                f"{at}h|%s-{day}-{hour}:{of_hour}",
            ),
        ]


class _Counts:
    """The counts of the hashes of some minutes."""

    def __init__(self) -> None:
        self.runs: Counter[bytes] = Counter()
        self.failed: Counter[bytes] = Counter()
        self.kept: dict[bytes, list[bytes]] = {}
        """class -> its histograms in minutes in which a run of it succeeded"""
        self.unread = 0
        """hashes, or values in them, that can't be read"""

    def add(self, minute: _Minute, found: dict[bytes, bytes]) -> None:
        ok: Counter[bytes] = Counter()
        for field, value in found.items():
            name, _, what = field.rpartition(b"|")
            if what not in (b"p", b"f"):
                continue
            if not value.isdigit():
                self.unread += 1
                continue
            (self.runs if what == b"p" else self.failed)[name] += int(value)
            ok[name] += int(value) if what == b"p" else -int(value)
        for name in ok:
            if ok[name] > 0:
                key = bytes_of(minute.histogram).replace(b"%s", name)
                self.kept.setdefault(name, []).append(key)


async def report(at: str, now_ms: int, minutes: int) -> TaskReport | None:
    """The classes of a whole Sidekiq; None: no process kept metrics in that time."""
    minutes = min(minutes, KEPT_MINUTES)
    last = now_ms // 60_000
    counts, hashes = _Counts(), 0
    read = await _hashes(at, range(last - minutes + 1, last + 1))
    for _, minute, found in read:
        hashes += bool(found)
        if isinstance(found, Exception):
            counts.unread += 1
        else:
            counts.add(minute, found)
    if not hashes:
        return None
    since_ms = (last - minutes + 1) * 60_000
    times, left_out, damaged = await _times(counts)
    slow, figures = 0, list[TaskFigures]()
    for name, runs in counts.runs.items():
        histogram = times.get(name, [])
        at_most = [bucket_of(histogram, share) for share in (0.5, 0.95)]
        slow += len(BUCKETS) in at_most
        p50, p95 = (None if n is None or n == len(BUCKETS) else BUCKETS[n] for n in at_most)
        failed = counts.failed[name]
        figures.append(TaskFigures(legal(name), runs, failed, p50, p95, sum(histogram)))
    remarks = [
        (slow, "tasks with quantiles over 335 s, where Sidekiq's histograms end"),
        (left_out, "tasks that ran least often, whose run times were not read"),
        (damaged, "histograms that can't be read"),
        (counts.unread, "counts that can't be read"),
    ]
    return TaskReport(
        "Sidekiq's metrics by class, of all its queues; each attempt is a run",
        since_ms,
        now_ms,
        tuple(figures),
        "at most",
        tuple(f"{what}: {n:,}" for n, what in remarks if n),
        await _marks(at, since_ms, now_ms),
    )


async def rates(at: str, now_ms: int, minutes: int) -> Rates:
    """What a whole Sidekiq settled and failed by the minute; empty: no process kept metrics."""
    last = now_ms // 60_000
    wanted = range(last - min(minutes, KEPT_MINUTES) + 1, last + 1)
    by_minute: dict[int, list[int]] = {minute: [0, 0] for minute in wanted}
    hashes = 0
    for at_minute, minute, found in await _hashes(at, wanted):
        if isinstance(found, Exception):
            return Rates()
        counts = _Counts()
        counts.add(minute, found)
        runs, failed = counts.runs.total(), counts.failed.total()
        hashes += bool(found)
        by_minute[at_minute][0] += runs - failed
        by_minute[at_minute][1] += failed
    if not hashes:
        return Rates()
    settled, failed_ = zip(*by_minute.values(), strict=True)
    return Rates((), settled, failed_)


async def _hashes(
    at: str, minutes: Sequence[int]
) -> list[tuple[int, _Minute, dict[bytes, bytes] | Exception]]:
    """The hash of each minute, or why it can't be read."""
    keys = [(minute, key) for minute in minutes for key in _Minute.of(at, minute)]
    sizes = await attempts([Call(("HLEN", k.counts), int, key=k.counts) for _, k in keys])
    short = [
        (minute, key)
        for (minute, key), size in zip(keys, sizes, strict=True)
        if isinstance(size, int) and 0 < size <= FIELDS
    ]
    found = iter(
        await attempts(
            [
                Call(("HGETALL", k.counts), dict[bytes, bytes], key=k.counts, cut=True)
                for _, k in short
            ]
        )
    )
    read: list[tuple[int, _Minute, dict[bytes, bytes] | Exception]] = []
    for (minute, key), size in zip(keys, sizes, strict=True):
        if isinstance(size, Exception):
            read.append((minute, key, size))
        elif size > FIELDS:
            read.append((minute, key, ValueError(f"{size:,} fields")))
        elif size:
            read.append((minute, key, next(found)))
    return read


async def _times(counts: _Counts) -> tuple[dict[bytes, list[int]], int, int]:
    """The histogram of each class; how many classes are left out, and how many keys are damaged."""
    ranked = [name for name, _ in counts.runs.most_common() if name in counts.kept]
    ends = accumulate(len(counts.kept[name]) for name in ranked)
    chosen = [name for name, end in zip(ranked, ends, strict=True) if end <= HISTOGRAMS]
    keys = [(name, key) for name in chosen for key in counts.kept[name]]
    size = 2 * (len(BUCKETS) + 1)
    found = await attempts(
        [Call(("GETRANGE", key, 0, size - 1), optional, key=key) for _, key in keys]
    )
    times: dict[bytes, list[int]] = {}
    damaged = 0
    for (name, _), data in zip(keys, found, strict=True):
        if not isinstance(data, bytes) or len(data) % 2:
            damaged += 1
            continue
        row = unpack(f">{size // 2}H", data.ljust(size, b"\0"))
        before = times.get(name, [0] * len(row))
        times[name] = [one + two for one, two in zip(before, row, strict=True)]
    return times, len(ranked) - len(chosen), damaged


async def _marks(at: str, since_ms: int, now_ms: int) -> tuple[DeployMark, ...]:
    """The marks of ``Sidekiq::Deploy`` in the window."""
    first, last = (datetime.fromtimestamp(ms / 1000, UTC).date() for ms in (since_ms, now_ms))
    days = {first + timedelta(days=n) for n in range((last - first).days + 1)}
    keys = [bytes_of(f"{at}{day:%Y%m%d}-marks") for day in sorted(days)]
    found: list[Any] = await together(
        Call(("HSCAN", key, 0, "COUNT", 100), lambda reply: reply[1], key=key, cut=True)
        for key in keys
    )
    marks = []
    for rows in found:
        pairs = rows.items() if isinstance(rows, dict) else zip(rows[::2], rows[1::2], strict=True)
        for stamp, label in pairs:
            at_ms = iso_ms(stamp.decode("ascii", "replace"))
            if at_ms is not None and since_ms <= at_ms <= now_ms:
                marks.append(DeployMark(at_ms, label[:200].decode("utf-8", "backslashreplace")))
    return tuple(sorted(marks, key=lambda mark: mark.at_ms))
