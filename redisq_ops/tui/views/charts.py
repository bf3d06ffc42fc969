"""`v`: rates, waiting entries and their age over time, with marks where operators changed
something."""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from rich.text import Text

from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.rates import Rates
from redisq_ops.ops.inspect.snapshot import ChartData, ChartScope, Snapshot
from redisq_ops.ops.terminal import age, count, printable
from redisq_ops.ops.trouble.entry_rules import drains
from redisq_ops.tui.charts.line_chart import ChartMark, lane_chart, line_chart
from redisq_ops.tui.charts.queue_charts import (
    PERIODS,
    amount,
    beside,
    clock,
    duration,
    joined,
    rate_lanes,
    rate_lines,
    rates_title,
    sample_lines,
    time_axis,
)
from redisq_ops.tui.samples import MINUTE_MS, Samples, Waiting
from redisq_ops.tui.theme import DELAYED, DIM, HELD, WARN

from .audit_log import AGO, DONE, LATEST, OP, WHO, WHY
from .base import Items, QueueView, SortOrder
from .columns import Column, texts
from .delayed import zone_of

if TYPE_CHECKING:
    from redisq_ops.ops.change.audit_log import Operation


class ChartsView(QueueView):
    name_ = "charts"
    title = "charts"
    short = "charts"
    about = "Charts: rates, depth, age"
    at_once = True
    named_rows = True
    explains_rows = False
    columns = (
        Column("mark", "", 1, lambda o, view: view.mark(o), style=f"bold {WARN}"),
        OP,
        texts("queue", "queue", 12, lambda o: o.queue, "", flex=1, priority=3),
        AGO,
        DONE,
        WHO,
        WHY,
    )
    usual = LATEST
    empty = "no operator changed anything here"
    tall = 16
    has_preview = False

    def __init__(self) -> None:
        super().__init__()
        self.orders = (*self.orders, SortOrder("mark", lambda o: o.started_ms, True))
        self.samples = Samples()
        self.period = PERIODS[0]
        self.all_queues = False
        self._marks: dict[Operation, str] = {}
        """changes in the period, with a letter each, the latest one A"""

    @property
    def charts(self) -> ChartScope:
        return ChartScope(self.period.read, self.all_queues)

    def mark(self, operation: Operation) -> str:
        """The letter of a change in the charts; empty: it has none."""
        return self._marks.get(operation, "")

    def zoom(self, step: int) -> str:
        at = PERIODS.index(self.period) - step
        if not 0 <= at < len(PERIODS):
            return f"the charts show the last {self.period.title} already."
        self.period = PERIODS[at]
        return ""

    def toggle_all_queues(self) -> None:
        """Switch between charts of all queues together and of the open queue."""
        self.all_queues = not self.all_queues
        self.table.clear()

    def forget(self) -> None:
        super().forget()
        self.all_queues = False

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.viewport.charts != self.charts or snapshot.charts is None:
            return  # read before the scope was changed
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
        axis = time_axis(self.period, snapshot.now_ms, zone, width)
        half_axis = time_axis(self.period, snapshot.now_ms, zone, half)
        name = None if self.all_queues else snapshot.viewport.queue
        rates = rate_lines(self.period, data.rates, self.samples.live(name), snapshot.now_ms)
        waiting, oldest = sample_lines(self.period, self.samples, name, snapshot.now_ms)
        text = Text(no_wrap=True, end="")
        for title in (
            self._heading(snapshot, data),
            rates_title(self.period, data.rates, rates, snapshot.now_ms),
        ):
            title.truncate(width - 1, overflow="ellipsis")
            text.append_text(title).append("\n")
        for line in lane_chart(rate_lanes(rates, above - 1), marks, axis, width, amount):
            text.append_text(line).append("\n")
        text.append_text(beside(*self._titles(snapshot, data, half), half)).append("\n")
        left = line_chart(waiting, marks, half_axis, half, below, amount)
        right = line_chart(oldest, marks, half_axis, width - half, below, duration)
        text.append_text(joined(left, right, half)).append("\n")
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
        """The titles of the charts of waiting entries and of the oldest one's age."""
        now, seen = snapshot.now_ms, self._since(snapshot)
        every = [row.counts for row in snapshot.overview]
        waiting = Waiting.of(every if self.all_queues else [snapshot.counts])
        left = Text(" ● ", DELAYED, no_wrap=True).append(waiting.words, "bold")
        if (counts := snapshot.counts) is not None:
            left.append(_drain(counts, data.rates, now), DIM)
        right = Text(" ● ", WARN, no_wrap=True)
        age_ = "-" if waiting.since_ms is None else age(max(0, now - waiting.since_ms))
        right.append(f"oldest {age_}", "bold")
        if seen:
            right.append(f", {seen}", DIM)
        left.truncate(width - 1, overflow="ellipsis")
        right.truncate(width - 1, overflow="ellipsis")
        return left, right

    def _since(self, snapshot: Snapshot) -> str:
        """For how long the dashboard has samples of the queue, if not for the whole period."""
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
        return f"seen since {clock(first, zone_of(self))}"


def _drain(counts: Counts, rates: Rates, now_ms: int) -> str:
    hour = Rates(rates.arrived[-60:], rates.settled[-60:], rates.failed[-60:])
    return drains(counts, hour, now_ms) if counts.of("waiting") else ""
