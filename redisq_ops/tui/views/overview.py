"""`1`: all queues, what comes in and goes out, and what is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redisq_ops.core.values import Rates
from redisq_ops.ops.snapshot import Snapshot
from redisq_ops.tui.charts import spark
from redisq_ops.tui.table import Cell, Column, Row
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, WARN

from .dead import ago
from .requests import number
from .view import Items, Order, QueueView

if TYPE_CHECKING:
    from redisq_ops.ops.look import Row as Queue

_SPARK = 10


class OverviewView(QueueView):
    name_ = "overview"
    title = "overview"
    about = "Overview of all queues"
    holds = "queues"
    columns = (
        Column("name", "queue", 12, flex=1),
        Column("kind", "kind", 8, style=DIM, priority=5),
        Column("flags", "flags", 6, priority=1),
        Column("waiting", "waiting", 7, align="right"),
        Column("pending", "pending", 7, align="right"),
        Column("delayed", "delayed", 7, align="right"),
        Column("dead", "dead", 5, align="right"),
        Column("in", "in/min", 6, align="right", priority=4),
        Column("out", "out/min", 7, align="right", priority=3),
        Column("failed", "fail/min", 8, align="right", priority=2),
        Column("oldest", "oldest", 7, align="right", priority=2),
        Column("spark", "out, 1 h", _SPARK, style=OK, priority=6),
    )
    orders = (
        Order("name", "by name"),
        Order("dead", "most dead first", True, lambda q: q.counts.dead if q.counts else -1),
        Order("waiting", "most waiting first", True, lambda q: q.counts.waiting if q.counts else 0),
        Order(
            "failed",
            "most failing first",
            True,
            lambda q: sum(q.rates.failed[-5:]) if q.rates else 0,
        ),
        Order(
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

    def row(self, item: Any, snapshot: Snapshot) -> Row:
        queue: Queue = item
        counts, rates = queue.counts, queue.rates
        if counts is None:
            # No flags and no numbers: all of that width is for the reason.
            return Row(queue.name, (queue.name, queue.kind), rest=(queue.problem or "?", BAD))
        return Row(
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
