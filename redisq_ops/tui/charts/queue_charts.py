"""The charts of a queue: rates, waiting entries, and the age of the oldest of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rich.text import Text

from redisq_ops.core.model.rates import Rates
from redisq_ops.ops.terminal import age, printable, short_count
from redisq_ops.tui.charts.line_chart import (
    ChartAxis,
    ChartLane,
    ChartLine,
    Point,
    highest,
    lane_chart,
    line_chart,
)
from redisq_ops.tui.samples import DAY, MINUTE_MS, Sample, Samples, Waiting
from redisq_ops.tui.theme import BAD, DELAYED, DIM, HELD, OK, WARN

if TYPE_CHECKING:
    from redisq_ops.ops.inspect.overview import QueueRow

_GAP_MS: Final = 12_000
"""samples that are further apart aren't joined by a line"""
_LATEST_MS: Final = 5000
_LEAST: Final = 3
"""lines of a plot with its axis"""
_LABELS: Final = 4
"""texts below a chart, where there is room"""


@dataclass(frozen=True, slots=True)
class ChartPeriod:
    """How far back the charts go."""

    title: str
    minutes: int
    live: bool = False
    """whether the rates are drawn by the second, from the dashboard's own samples"""

    @property
    def span_ms(self) -> int:
        return self.minutes * MINUTE_MS

    @property
    def read(self) -> int:
        """The minutes to read: at least an hour, since counters are by the minute."""
        return max(60, self.minutes)


PERIODS: Final = (
    ChartPeriod("60 seconds", 1, live=True),
    ChartPeriod("hour", 60),
    ChartPeriod("24 hours", DAY),
)


def queue_chart(
    row: QueueRow, samples: Samples, now_ms: int, zone: tzinfo | None, width: int, height: int
) -> Text:
    """The overview's preview: a queue's rates in the last hour, if its kind counts them, and
    below them the waiting entries of the last 60 seconds."""
    if row.counts is None:
        return Text(f" {printable(row.problem or 'not read yet')}", WARN)
    live, hour = PERIODS[:2]
    half, lines, below = width // 2, [], height - 1
    if row.rates is not None and row.rates.counted:
        above = max(4, (height - 2) * 3 // 5)
        below = height - 2 - above
        if below < _LEAST:
            above, below = height - 1, 0
        rates = rate_lines(hour, row.rates, (), now_ms)
        lines.append(rates_title(hour, row.rates, rates, now_ms).append(", drawn: 1 h", DIM))
        axis = time_axis(hour, now_ms, zone, width)
        lines += lane_chart(rate_lanes(rates, above - 1), (), axis, width, amount)
    if below >= _LEAST:
        oldest_ms, axis = row.counts.oldest_ms, time_axis(live, now_ms, zone, half)
        age_ = "-" if oldest_ms is None else age(max(0, now_ms - oldest_ms))
        left = Text(" ● ", DELAYED).append(Waiting.of([row.counts]).words, "bold")
        right = Text(" ● ", WARN).append(f"oldest {age_}", "bold")
        lines.append(beside(left.append(", drawn: 60 s", DIM), right, half))
        waiting, oldest = sample_lines(live, samples, row.name, now_ms)
        plots = (
            line_chart(waiting, (), axis, half, below, amount),
            line_chart(oldest, (), axis, width - half, below, duration),
        )
        lines.append(joined(*plots, half))
    return Text("\n", no_wrap=True, end="").join(lines)


def rates_title(period: ChartPeriod, rates: Rates, lines: Sequence[ChartLine], now_ms: int) -> Text:
    """The legend, with the latest value of each line."""
    if not rates.counted:
        return Text(" this kind of queue keeps no counters of what comes and goes", DIM)
    unit, window = ("/s", "last 5 s") if period.live else ("/min", "last 60 s")
    text = Text(no_wrap=True, end="")
    for line, title in zip(lines, _NAMES, strict=True):
        points = [point for point in line.points if point is not None]
        latest = [y for x, y in points if x > now_ms - _LATEST_MS] if period.live else []
        latest = latest or [y for _, y in points[-1:]]
        text.append(" ● ", line.style).append(title, "bold")
        text.append(f" {amount(sum(latest) / len(latest))}{unit} " if latest else " - ")
    text.append(f" {window}", DIM)
    if period.minutes == DAY:
        text.append(f"; drawn: {_BUCKET} m means", DIM)
    return text


def joined(left: Sequence[Text], right: Sequence[Text], width: int) -> Text:
    pairs = zip(left, right, strict=True)
    return Text("\n").join(beside(*pair, width) for pair in pairs)


def beside(left: Text, right: Text, width: int) -> Text:
    left = left.copy()
    left.pad_right(width - left.cell_len)
    return left.append_text(right)


def amount(value: float) -> str:
    return f"{value:.1f}" if 0 < value < 10 and value != int(value) else short_count(round(value))


def duration(value: float) -> str:
    return age(round(value)).partition(" ")[0] if value else "0"


def clock(ms: int, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone).strftime("%H:%M")


def time_axis(period: ChartPeriod, now_ms: int, zone: tzinfo | None, width: int) -> ChartAxis:
    low, number = now_ms - period.span_ms, max(1, min(_LABELS, width // 20))
    at = [low + period.span_ms * k // number for k in range(number)]
    if period.live:
        labels = [(ms, f"-{(now_ms - ms) // 1000}s") for ms in at]
    else:
        labels = [(ms, clock(ms, zone)) for ms in at]
    return ChartAxis(low, now_ms, (*labels, (now_ms, "now")))


# --- lines: the points of each ------------------------------------------------------------------

_NAMES = ("in", "out", "failed")
_COLORS = (HELD, OK, BAD)
_BUCKET = 6
"""minutes of one point, in the chart of a day"""


def rate_lines(
    period: ChartPeriod, rates: Rates, samples: Iterable[Sample], now_ms: int
) -> list[ChartLine]:
    """The rates of arrived, settled and failed entries: by the second, or by the minute."""
    if period.live:
        each = _by_second(samples)
    else:
        each = [
            _by_minute(series[-period.minutes :], latest, now_ms, period)
            for series, latest in zip(
                (rates.arrived, rates.settled, rates.failed),
                rates.last_minute(now_ms),
                strict=True,
            )
        ]
    return [ChartLine(tuple(points), style) for points, style in zip(each, _COLORS, strict=True)]


def rate_lanes(lines: Sequence[ChartLine], rows: int) -> list[ChartLane]:
    """Lanes: arrived and settled on one scale; failed, usually fewer, on a scale of its own."""
    failed = max(1, rows // 5)
    failed += (rows - failed) % 2
    each = max(1, (rows - failed) // 2)
    scales = (highest(lines[:2]), highest(lines[:2]), highest(lines[2:]))
    heights = (each, each, failed)
    return [
        ChartLane(name, line, top, height)
        for name, line, top, height in zip(_NAMES, lines, scales, heights, strict=True)
    ]


def _by_second(samples: Iterable[Sample]) -> list[list[Point | None]]:
    lines: list[list[Point | None]] = [[], [], []]
    before: Sample | None = None
    for sample in samples:
        if sample.passed is None or (before and sample.at_ms - before.at_ms < 1000):
            continue
        if before is not None and before.passed is not None:
            seconds = (sample.at_ms - before.at_ms) / 1000
            pairs = zip(before.passed, sample.passed, strict=True)
            for line, (was, now) in zip(lines, pairs, strict=True):
                line.append((sample.at_ms, (now - was) / seconds))
        before = sample
    return lines


def _by_minute(
    series: Sequence[int], latest: int | None, now_ms: int, period: ChartPeriod
) -> list[Point | None]:
    """A point at the end of each minute that is over, and one now for the last 60 seconds."""
    over, running = series[:-1], now_ms // MINUTE_MS * MINUTE_MS
    width = _BUCKET if period.minutes == DAY else 1
    points: list[Point | None] = []
    for end in range(len(over), 0, -width):
        part = over[max(0, end - width) : end]
        points.append((running - (len(over) - end) * MINUTE_MS, sum(part) / len(part)))
    return [] if not over or latest is None else [*reversed(points), (now_ms, latest)]


def sample_lines(
    period: ChartPeriod, samples: Samples, name: str | None, now_ms: int
) -> tuple[ChartLine, ChartLine]:
    """Waiting entries, and the age of the oldest one."""
    if period.live:
        seen = [(s.at_ms, s.waiting, s.oldest_ms) for s in samples.live(name)]
        gap = _GAP_MS
    else:
        seen = [
            ((minute + 1) * MINUTE_MS, waiting, oldest_ms)
            for minute, waiting, oldest_ms in samples.by_minute(name)
        ]
        gap = 2 * MINUTE_MS
    waiting: list[Point | None] = []
    oldest: list[Point | None] = []
    for before, (at, number, since) in pairwise([(0, None, None), *seen]):
        if at - before[0] > gap:
            waiting.append(None)
            oldest.append(None)
        x = min(at, now_ms)
        if x >= now_ms - period.span_ms:
            waiting.append(None if number is None else (x, number))
            unknown = since is None and number != 0
            oldest.append(None if unknown else (x, since or 0))
    return ChartLine(tuple(waiting), DELAYED), ChartLine(tuple(oldest), WARN)
