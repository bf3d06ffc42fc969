"""`1`: all queues, what comes in and goes out, and what is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.entry import Rates
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.tui.charts import spark
from redisq_ops.tui.table import Cell, TableColumn, TableRow
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, WARN

from .base import Items, QueueView, SortOrder
from .dead_letters import ago
from .requests import number

if TYPE_CHECKING:
    from redisq_ops.ops.inspect.overview import QueueRow as Queue

_SPARK = 10


class OverviewView(QueueView):
    name_ = "overview"
    title = "overview"
    about = "Overview of all queues"
    holds = "queues"
    columns = (
        TableColumn("name", "queue", 12, flex=1),
        TableColumn("kind", "kind", 8, style=DIM, priority=5),
        TableColumn("flags", "flags", 6, priority=1),
        TableColumn("waiting", "waiting", 7, align="right"),
        TableColumn("pending", "pending", 7, align="right"),
        TableColumn("delayed", "delayed", 7, align="right"),
        TableColumn("dead", "dead", 5, align="right"),
        TableColumn("in", "in/min", 6, align="right", priority=4),
        TableColumn("out", "out/min", 7, align="right", priority=3),
        TableColumn("failed", "fail/min", 8, align="right", priority=2),
        TableColumn("oldest", "oldest", 7, align="right", priority=2),
        TableColumn("spark", "out, 1 h", _SPARK, style=OK, priority=6),
    )
    orders = (
        SortOrder("name", "by name"),
        SortOrder("dead", "most dead first", True, lambda q: q.counts.dead if q.counts else -1),
        SortOrder(
            "waiting", "most waiting first", True, lambda q: q.counts.waiting if q.counts else 0
        ),
        SortOrder(
            "failed",
            "most failing first",
            True,
            lambda q: sum(q.rates.failed[-5:]) if q.rates else 0,
        ),
        SortOrder(
            "oldest",
            "longest waiting first",
            by=lambda q: (q.counts and q.counts.oldest_ms) or float("inf"),
        ),
    )
    empty = "no queues here yet: redisq submit FILE makes one"

    def items(self, snapshot: Snapshot) -> Items:
        return Items(0, len(snapshot.overview), snapshot.overview)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.name, item.kind)

    @property
    def status(self) -> list[str]:
        return [*filter(None, [self.table.unsaid]), *super().status]

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        queue: Queue = item
        counts, rates = queue.counts, queue.rates
        if counts is None:
            # No flags and no numbers: all of that width is for the reason.
            return TableRow(queue.name, (queue.name, queue.kind), rest=(queue.problem or "?", BAD))
        return TableRow(
            queue.name,
            (
                queue.name,
                queue.kind,
                ("WRONG", BAD) if counts.problem else flags_cell(counts.paused, counts.closed),
                number(counts.of("waiting"), ""),
                number(counts.of("pending"), HELD),
                number(counts.of("delayed"), DELAYED),
                number(counts.of("dead"), DEAD),
                *_rates(rates, snapshot.now_ms),
                ago(counts.oldest_ms, snapshot) if counts.oldest_ms else ("-", DIM),
                spark(rates.settled, _SPARK) if rates else "",
            ),
        )


def flags_cell(paused: str | None, closed: str | None) -> Cell:
    if paused is not None:
        return ("PAUSED", WARN)
    return ("DRAIN", WARN) if closed is not None else ""


def _rates(rates: Rates | None, now_ms: int) -> tuple[Cell, Cell, Cell]:
    if rates is None:
        return "", "", ""
    come, gone, failed = rates.last_minute(now_ms)
    return number(come, ""), number(gone, OK), number(failed, BAD)
