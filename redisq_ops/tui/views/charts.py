"""`v`: rates, waiting entries and their age over time, with marks where operators changed
something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.rates import Rates
from redisq_ops.ops.inspect.snapshot import ChartData, ChartScope, Snapshot
from redisq_ops.ops.terminal import age, count, printable, short_count
from redisq_ops.ops.trouble import drains
from redisq_ops.tui.line_chart import (
    ChartAxis,
    ChartLane,
    ChartLine,
    ChartMark,
    Point,
    highest,
    lane_chart,
    line_chart,
)
from redisq_ops.tui.samples import DAY, MINUTE_MS, Sample, Samples
from redisq_ops.tui.table_model import TableColumn, TableRow
from redisq_ops.tui.theme import BAD, DELAYED, DIM, HELD, OK, WARN

from .base import Items, QueueView, SortOrder
from .dead_letters import ago
from .delayed import zone_of

if TYPE_CHECKING:
    from redisq_ops.ops.change.audit_log import Operation
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
    """whether it is drawn from the dashboard's own samples, by the second"""

    @property
    def span_ms(self) -> int:
        return self.minutes * MINUTE_MS

    @property
    def read(self) -> int:
        """The minutes to read: a minute is no unit of counters by the minute."""
        return max(60, self.minutes)


PERIODS: Final = (
    ChartPeriod("60 seconds", 1, live=True), ChartPeriod("hour", 60), ChartPeriod("24 hours", DAY),
)  # fmt: skip


class ChartsView(QueueView):
    name_ = "charts"
    title = "charts"
    short = "charts"
    about = "Charts: rates, depth, age"
    named_rows = True
    columns = (
        TableColumn("mark", "", 1, style=f"bold {WARN}"),
        TableColumn("op", "change", 18),
        TableColumn("queue", "queue", 12, flex=1, priority=3),
        TableColumn("ago", "ago", 7, align="right"),
        TableColumn("done", "entries", 7, align="right"),
        TableColumn("who", "who", 12, flex=1),
        TableColumn("why", "why", 8, flex=2, priority=1),
    )
    orders = (
        SortOrder("ago", None, True, "latest first", "oldest first"),
        SortOrder("op", lambda o: o.id),
        SortOrder("queue", lambda o: o.queue),
        SortOrder("done", lambda o: o.done, True),
        SortOrder("who", lambda o: o.by),
        SortOrder("why", lambda o: o.why),
        SortOrder("mark", lambda o: o.started_ms, True),
    )
    empty = "no operator changed anything here"
    tall = 16
    has_preview = False

    def __init__(self) -> None:
        super().__init__()
        self.samples = Samples()
        self.period = PERIODS[0]
        self.all_queues = False
        self._marks: dict[Operation, str] = {}
        """changes in the period, with a letter each, the latest one A"""

    @property
    def charts(self) -> ChartScope:
        return ChartScope(self.period.read, self.all_queues)

    @property
    def window(self) -> tuple[int, int]:
        return 0, 1  # the latest changes, however many are in sight

    def zoom(self, step: int) -> str:
        at = PERIODS.index(self.period) - step
        if not 0 <= at < len(PERIODS):
            return f"the charts show the last {self.period.title} already."
        self.period = PERIODS[at]
        return ""

    def toggle_all_queues(self) -> None:
        """Charts of all queues together, or of the one that is open again."""
        self.all_queues = not self.all_queues
        self.table.clear()

    def forget(self) -> None:
        super().forget()
        self.all_queues = False

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.viewport.charts != self.charts or snapshot.charts is None:
            return  # asked for before the scope was changed
        recent = [
            operation
            for operation in snapshot.charts.operations
            if snapshot.now_ms - operation.started_ms < self.period.span_ms
        ]
        self._marks = dict(zip(recent, ascii_uppercase, strict=False))
        super().show(snapshot)

    def items(self, snapshot: Snapshot) -> Items:
        operations = snapshot.charts.operations if snapshot.charts else ()
        return Items(0, len(operations), operations)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.id, item.queue, item.by, item.why)

    @property
    def subject(self) -> str | None:
        return None

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        operation: Operation = item
        return TableRow(
            operation.id,
            (
                self._marks.get(operation, ""),
                operation.id,
                operation.queue,
                ago(operation.started_ms, snapshot),
                count(operation.done) if operation.done else ("-", DIM),
                operation.by,
                operation.why or ("-", DIM),
            ),
        )

    # --- the charts ----------------------------------------------------------------------------

    def chart(self, snapshot: Snapshot, width: int) -> Text | None:
        data = snapshot.charts
        if data is None:
            return None
        width -= 1
        height = self.size.height - max(4, self.size.height // 5)
        above = max(4, (height - 3) * 3 // 5)
        below = max(3, height - 3 - above)
        marks = [ChartMark(one.started_ms, letter) for one, letter in self._marks.items()]
        zone, half = zone_of(self), width // 2
        axis = _axis(self.period, snapshot.now_ms, zone, width)
        half_axis = _axis(self.period, snapshot.now_ms, zone, half)
        name = None if self.all_queues else snapshot.viewport.queue
        rates = _rate_lines(self.period, data.rates, self.samples.live(name), snapshot.now_ms)
        waiting, oldest = _sample_lines(self.period, self.samples, name, snapshot.now_ms)
        text = Text(no_wrap=True, end="")
        for title in (
            self._heading(snapshot, data),
            _rates_title(self.period, data.rates, rates, snapshot.now_ms),
        ):
            title.truncate(width - 1, overflow="ellipsis")
            text.append_text(title).append("\n")
        for line in lane_chart(rate_lanes(rates, above - 1), marks, axis, width, _amount):
            text.append_text(line).append("\n")
        text.append_text(_beside(*self._titles(snapshot, data, half), half)).append("\n")
        left = line_chart(waiting, marks, half_axis, half, below, _amount)
        right = line_chart(oldest, marks, half_axis, width - half, below, _duration)
        text.append_text(_joined(left, right, half)).append("\n")
        return text

    def _heading(self, snapshot: Snapshot, data: ChartData) -> Text:
        queue = snapshot.queue
        text = Text(" ")
        text.append("all queues" if self.all_queues else printable(queue.name if queue else ""))
        text.stylize(f"bold {HELD}")
        text.append(f"  last {self.period.title}", "bold")
        text.append("  + and - zoom, a: ", DIM)
        text.append("this queue" if self.all_queues else "all queues", DIM)
        if data.read < data.of:
            text.append(f"  rates of {count(data.read)} of {count(data.of)} queues so far", WARN)
        return text

    def _titles(self, snapshot: Snapshot, data: ChartData, width: int) -> tuple[Text, Text]:
        """What is above the charts of waiting entries and of the oldest one's age."""
        now, seen = snapshot.now_ms, self._since(snapshot)
        waiting, oldest = _latest_counts(snapshot)
        left = Text(" ● ", DELAYED, no_wrap=True).append(f"{count(waiting)} waiting", "bold")
        if (counts := snapshot.counts) is not None:
            left.append(_drain(counts, data.rates, now), DIM)
        right = Text(" ● ", WARN, no_wrap=True)
        age_ = "-" if oldest is None else age(max(0, now - oldest))
        right.append(f"oldest {age_}", "bold")
        if seen:
            right.append(f", {seen}", DIM)
        left.truncate(width - 1, overflow="ellipsis")
        right.truncate(width - 1, overflow="ellipsis")
        return left, right

    def _since(self, snapshot: Snapshot) -> str:
        """Since when the dashboard has seen the queue, if that is in the period."""
        now, name = snapshot.now_ms, None if self.all_queues else snapshot.viewport.queue
        if self.period.live:
            first = next((sample.at_ms for sample in self.samples.live(name)), now)
        else:
            first = next((m for m, *_ in self.samples.by_minute(name)), now // MINUTE_MS)
            first *= MINUTE_MS
        if first <= now - self.period.span_ms:
            return ""
        if self.period.live:
            return f"seen for {age(now - first)}"
        return f"seen since {_clock(first, zone_of(self))}"


def queue_chart(
    row: QueueRow, samples: Samples, now_ms: int, zone: tzinfo | None, width: int, height: int
) -> Text:
    """The overview's preview: a queue's rates in the last hour, where its kind counts them, and
    below them what waited in the last 60 seconds."""
    if row.counts is None:
        return Text(f" {printable(row.problem or 'not read yet')}", WARN)
    live, hour = PERIODS[:2]
    half, lines, below = width // 2, [], height - 1
    if row.rates is not None and row.rates.arrived:
        above = max(4, (height - 2) * 3 // 5)
        below = height - 2 - above
        if below < _LEAST:
            above, below = height - 1, 0
        rates = _rate_lines(hour, row.rates, (), now_ms)
        lines.append(_rates_title(hour, row.rates, rates, now_ms).append(", drawn: 1 h", DIM))
        axis = _axis(hour, now_ms, zone, width)
        lines += lane_chart(rate_lanes(rates, above - 1), (), axis, width, _amount)
    if below >= _LEAST:
        oldest_ms, axis = row.counts.oldest_ms, _axis(live, now_ms, zone, half)
        age_ = "-" if oldest_ms is None else age(max(0, now_ms - oldest_ms))
        left = Text(" ● ", DELAYED).append(f"{count(row.counts.waiting)} waiting", "bold")
        right = Text(" ● ", WARN).append(f"oldest {age_}", "bold")
        lines.append(_beside(left.append(", drawn: 60 s", DIM), right, half))
        waiting, oldest = _sample_lines(live, samples, row.name, now_ms)
        plots = (
            line_chart(waiting, (), axis, half, below, _amount),
            line_chart(oldest, (), axis, width - half, below, _duration),
        )
        lines.append(_joined(*plots, half))
    return Text("\n", no_wrap=True, end="").join(lines)


def _latest_counts(snapshot: Snapshot) -> tuple[int, int | None]:
    """Waiting entries, and since when the oldest one waits."""
    all_ = [row.counts for row in snapshot.overview if row.counts is not None]
    if snapshot.counts is not None:
        all_ = [snapshot.counts]
    since = (counts.oldest_ms for counts in all_ if counts.oldest_ms is not None)
    return sum(counts.waiting for counts in all_), min(since, default=None)


def _drain(counts: Counts, rates: Rates, now_ms: int) -> str:
    hour = Rates(rates.arrived[-60:], rates.settled[-60:], rates.failed[-60:])
    return drains(counts, hour, now_ms) if counts.waiting else ""


def _rates_title(
    period: ChartPeriod, rates: Rates, lines: Sequence[ChartLine], now_ms: int
) -> Text:
    """The legend, with the present value of each line."""
    if not rates.arrived:
        return Text(" this kind of queue keeps no counters of what comes and goes", DIM)
    unit, window = ("/s", "last 5 s") if period.live else ("/min", "last 60 s")
    text = Text(no_wrap=True, end="")
    for line, title in zip(lines, _NAMES, strict=True):
        points = [point for point in line.points if point is not None]
        latest = [y for x, y in points if x > now_ms - _LATEST_MS] if period.live else []
        latest = latest or [y for _, y in points[-1:]]
        text.append(" ● ", line.style).append(title, "bold")
        text.append(f" {_amount(sum(latest) / len(latest))}{unit} " if latest else " - ")
    text.append(f" {window}", DIM)
    if period.minutes == DAY:
        text.append(f"; drawn: {_BUCKET} m means", DIM)
    return text


def _joined(left: Sequence[Text], right: Sequence[Text], width: int) -> Text:
    pairs = zip(left, right, strict=True)
    return Text("\n").join(_beside(*pair, width) for pair in pairs)


def _beside(left: Text, right: Text, width: int) -> Text:
    left = left.copy()
    left.pad_right(width - left.cell_len)
    return left.append_text(right)


def _amount(value: float) -> str:
    return f"{value:.1f}" if 0 < value < 10 and value != int(value) else short_count(round(value))


def _duration(value: float) -> str:
    return age(round(value)).partition(" ")[0] if value else "0"


def _clock(ms: int, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone).strftime("%H:%M")


def _axis(period: ChartPeriod, now_ms: int, zone: tzinfo | None, width: int) -> ChartAxis:
    low, number = now_ms - period.span_ms, max(1, min(_LABELS, width // 20))
    at = [low + period.span_ms * k // number for k in range(number)]
    if period.live:
        labels = [(ms, f"-{(now_ms - ms) // 1000}s") for ms in at]
    else:
        labels = [(ms, _clock(ms, zone)) for ms in at]
    return ChartAxis(low, now_ms, (*labels, (now_ms, "now")))


# --- lines: the points of each ------------------------------------------------------------------

_NAMES = ("in", "out", "failed")
_COLORS = (HELD, OK, BAD)
_BUCKET = 6
"""minutes that are one point of a day"""


def _rate_lines(
    period: ChartPeriod, rates: Rates, samples: Iterable[Sample], now_ms: int
) -> list[ChartLine]:
    """What arrived, was settled and failed: by the second, or by the minute."""
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
    """What arrived and was settled on one scale, and what failed, usually less, on its own."""
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
    series: Sequence[int], latest: int, now_ms: int, period: ChartPeriod
) -> list[Point | None]:
    """Minutes that are over, each at its end, and the last 60 seconds."""
    over, running = series[:-1], now_ms // MINUTE_MS * MINUTE_MS
    width = _BUCKET if period.minutes == DAY else 1
    points: list[Point | None] = []
    for end in range(len(over), 0, -width):
        part = over[max(0, end - width) : end]
        points.append((running - (len(over) - end) * MINUTE_MS, sum(part) / len(part)))
    return [*reversed(points), (now_ms, latest)] if over else []


def _sample_lines(
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
    for before, (at, number, since) in pairwise([(0, 0, None), *seen]):
        if at - before[0] > gap:
            waiting.append(None)
            oldest.append(None)
        x = min(at, now_ms)
        if x >= now_ms - period.span_ms:
            waiting.append((x, number))
            oldest.append((x, since or 0))
    return ChartLine(tuple(waiting), DELAYED), ChartLine(tuple(oldest), WARN)
