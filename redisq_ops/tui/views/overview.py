"""`1`: all queues, those in trouble first, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from redisq_ops.ops.inspect.snapshot import ListedQueue, Snapshot
from redisq_ops.ops.terminal import count, rough_age, short_count
from redisq_ops.ops.trouble.finding import Severity
from redisq_ops.ops.trouble.judgement import Trouble, rank, reasons, redacted, troubles
from redisq_ops.tui.charts.blocks import spark
from redisq_ops.tui.charts.queue_charts import queue_chart
from redisq_ops.tui.table.table_model import Cell, TableColumn, TableRow
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, WARN

from .base import Items, QueueView, SortOrder, redaction_of
from .delayed import zone_of
from .requests import number

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import Counts, State
    from redisq_ops.ops.inspect.overview import QueueRow
    from redisq_ops.tui.samples import Samples

_SPARK = 10
_STYLES = {Severity.CRITICAL: BAD, Severity.WARNING: WARN}


@dataclass(frozen=True, slots=True)
class JudgedQueue:
    """A queue, its troubles, and its rates in the last minute."""

    row: QueueRow
    found: tuple[Trouble, ...]
    minute: tuple[int, int, int] | None

    @property
    def name(self) -> str:
        return self.row.name

    def of(self, state: State) -> int | None:
        return None if self.row.counts is None else self.row.counts.of(state)

    @property
    def waits_since(self) -> int | None:
        return self.row.counts.oldest_ms if self.row.counts else None


@dataclass(frozen=True, slots=True)
class OverviewSum:
    """All queues in one line. A sum leaves out queues whose number is unknown; None: of all."""

    in_trouble: int
    dead: int | None
    waiting: int | None
    oldest_ms: int | None
    """the age of the oldest waiting entry"""

    @classmethod
    def of(cls, judged: Sequence[JudgedQueue], now_ms: int) -> OverviewSum:
        dead = [number for one in judged if (number := one.of("dead")) is not None]
        waiting = [number for one in judged if (number := one.of("waiting")) is not None]
        since = [at for one in judged if (at := one.waits_since) is not None and one.of("waiting")]
        return cls(
            sum(bool(one.found) for one in judged),
            sum(dead) if dead else None,
            sum(waiting) if waiting else None,
            now_ms - min(since) if since else None,
        )

    @property
    def words(self) -> list[str]:
        """The figures behind the number of queues in trouble, the gravest first."""
        said = [f"{short_count(self.dead)} dead"] if self.dead else []
        if self.waiting:
            oldest = f", oldest {rough_age(self.oldest_ms)}" if self.oldest_ms is not None else ""
            said.append(f"{short_count(self.waiting)} waiting{oldest}")
        return said


def _state(state: State) -> Callable[[JudgedQueue], int | None]:
    return lambda queue: queue.of(state)


def _minute(which: int) -> Callable[[JudgedQueue], int | None]:
    return lambda queue: queue.minute[which] if queue.minute else None


class OverviewView(QueueView):
    name_ = "overview"
    title = "overview"
    short = "all"
    about = "All queues, trouble first"
    of_all_queues = True
    explains_rows = False
    holds = "queues"
    columns = (
        TableColumn("name", "queue", 16, flex=1),
        TableColumn("kind", "kind", 8, style=DIM, priority=5),
        TableColumn("trouble", "trouble", 39, flex=4),
        TableColumn("waiting", "waiting", 7, align="right"),
        TableColumn("pending", "pending", 7, align="right", priority=1),
        TableColumn("delayed", "delayed", 7, align="right", priority=2),
        TableColumn("dead", "dead", 5, align="right"),
        TableColumn("in", "in/min", 6, align="right", priority=4),
        TableColumn("out", "out/min", 7, align="right", priority=4),
        TableColumn("failed", "fail/min", 8, align="right", priority=3),
        TableColumn("oldest", "oldest", 7, align="right", priority=2),
        TableColumn("spark", "out, 1 h", _SPARK, style=OK, priority=6),
    )
    orders = (
        SortOrder("trouble", lambda q: rank(q.found), words="worst first", back="worst last"),
        SortOrder("name", lambda q: q.name),
        SortOrder("kind", lambda q: q.row.kind),
        SortOrder("waiting", _state("waiting"), True),
        SortOrder("pending", _state("pending"), True),
        SortOrder("delayed", _state("delayed"), True),
        SortOrder("dead", _state("dead"), True),
        SortOrder("in", _minute(0), True),
        SortOrder("out", _minute(1), True),
        SortOrder("failed", _minute(2), True),
        SortOrder("oldest", lambda q: -(q.waits_since or 2**63), True),
        SortOrder("spark", lambda q: sum(q.row.rates.settled) if q.row.rates else None, True),
    )
    empty = "no queues here yet: redisq submit FILE makes one; redisq discover finds more"

    def __init__(self) -> None:
        super().__init__()
        self.only_trouble = False
        """whether queues without trouble are left out"""
        self.sum: OverviewSum | None = None
        """None: nothing was read yet"""
        self._judged: dict[str, JudgedQueue] = {}
        self._drawn: dict[str, tuple[JudgedQueue, TableRow]] = {}

    @classmethod
    def offered_by(cls, queue: ListedQueue | None) -> bool:
        return True

    @property
    def row_queue(self) -> str | None:
        return self.table.identity

    def items(self, snapshot: Snapshot) -> Items:
        now, redaction = snapshot.now_ms, redaction_of(self)
        text = redaction.text if redaction is not None else str
        # A row that was not read again is the same object: keep the earlier judgement.
        judged = [
            known
            if (known := self._judged.get(row.name)) is not None and known.row is row
            else JudgedQueue(
                row,
                redacted(troubles(row, now), text),
                row.rates.last_minute(now) if row.rates else None,
            )
            for row in snapshot.overview
        ]
        self._judged = {queue.name: queue for queue in judged}
        bad = [queue for queue in judged if queue.found]
        self.sum = OverviewSum.of(judged, now)
        shown = bad if self.only_trouble else judged
        return Items(0, len(shown), shown)

    def preview_chart(self, item: Any, snapshot: Snapshot, width: int, height: int) -> Text:
        """The chart of a queue in the preview."""
        samples: Samples = self.app.charts.samples  # type: ignore[attr-defined]
        return queue_chart(item.row, samples, snapshot.now_ms, zone_of(self), width, height)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.name, item.row.kind, reasons(item.found))

    def toggle_trouble(self) -> None:
        """Show only queues in trouble, or all again."""
        self.only_trouble = not self.only_trouble
        self.rearrange()

    def counts_of(self, queue: str | None) -> Counts | None:
        """A queue's counts as last read for this view."""
        rows = self.snapshot.overview if self.snapshot else ()
        return next((row.counts for row in rows if row.name == queue), None)

    def _nothing_here(self, snapshot: Snapshot) -> str:
        if self.only_trouble and snapshot.overview:
            all_ = count(len(snapshot.overview))
            return f"none of {all_} queues is in trouble; press ! to show all"
        return super()._nothing_here(snapshot)

    @property
    def status(self) -> list[str]:
        said = [cut] if (cut := self.table.cut_text("trouble")) else []
        if (seen := self.snapshot) is not None and seen.unread:
            read = len(seen.overview) - seen.unread
            said.append(f"{count(read)} of {count(len(seen.overview))} queues read so far")
        said += super().status
        return [*said, "only queues in trouble; ! shows all"] if self.only_trouble else said

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        judged, row = self._drawn.get(item.name, (None, None))
        if row is None or judged is not item:
            row = _row(item, snapshot.now_ms)
            self._drawn[item.name] = (item, row)
        return row


def _row(queue: JudgedQueue, now_ms: int) -> TableRow:
    counts, rates, found = queue.row.counts, queue.row.rates, queue.found
    why: Cell = (reasons(found), _STYLES[found[0].severity]) if found else ""
    if counts is None:
        # Without numbers, the reason gets all of their width.
        return TableRow(queue.name, (queue.name, queue.row.kind), rest=why)
    return TableRow(
        queue.name,
        (
            queue.name,
            queue.row.kind,
            why,
            number(counts.of("waiting"), ""),
            number(counts.of("pending"), HELD),
            number(counts.of("delayed"), DELAYED),
            number(counts.of("dead"), DEAD),
            *_rates(queue.minute),
            rough_age(now_ms - counts.oldest_ms) if counts.oldest_ms else ("-", DIM),
            spark(rates.settled, _SPARK) if rates else "",
        ),
    )


def _rates(minute: tuple[int, int, int] | None) -> tuple[Cell, Cell, Cell]:
    if minute is None:
        return "", "", ""
    come, gone, failed = minute
    return number(come, ""), number(gone, OK), number(failed, BAD)
