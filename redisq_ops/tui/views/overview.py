"""`1`: all queues, those in trouble first, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text
from textual.events import Click

from redisq_ops.core.model.rates import Minute, Rates
from redisq_ops.ops.inspect.snapshot import ListedQueue, Snapshot
from redisq_ops.ops.terminal import count, printable, quantity, rough_age, short_count
from redisq_ops.ops.trouble.finding import Severity
from redisq_ops.ops.trouble.judgement import rank, redacted, troubles
from redisq_ops.tui.charts.blocks import spark
from redisq_ops.tui.charts.queue_charts import queue_chart
from redisq_ops.tui.new_dead import NewDead
from redisq_ops.tui.samples import MINUTE_MS
from redisq_ops.tui.table.table_model import Cell, TableRow, styled
from redisq_ops.tui.theme import BAD, DEAD, DELAYED, DIM, HELD, OK, WARN

from .base import Items, QueueView, SortOrder, redaction_of
from .columns import Column, number
from .delayed import zone_of
from .judged_queue import JudgedQueue, folded
from .new_groups import counted, error_words, field_words, first_death
from .overview_sum import OverviewSum

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import Counts, State
    from redisq_ops.ops.filter.ast import Query
    from redisq_ops.ops.filter.queue_filter import QueueFields
    from redisq_ops.ops.groups.error_groups import ErrorGroup
    from redisq_ops.tui.samples import Samples

_SPARK, _WIDE_SPARK = 10, 15
_MINUTES = 60
"""minutes that a small chart shows"""
_ERROR = 10
"""cells of an error above the list, at least"""
_SIGNS = {Severity.CRITICAL: ("!! ", f"bold {BAD}"), Severity.WARNING: ("!  ", WARN)}
"""what stands before the reasons, and their style: both tell the severity without colours"""


def _state(state: State) -> Callable[[JudgedQueue], int | None]:
    return lambda queue: queue.of(state)


def _minute(which: int) -> Callable[[JudgedQueue], int | None]:
    return lambda queue: queue.minute[which] if queue.minute else None


def _hour(which: Callable[[Rates], Sequence[int]]) -> Callable[[JudgedQueue], int | None]:
    return lambda queue: sum(which(queue.row.rates)) if queue.row.rates else None


def _numbers(
    key: str, title: str, width: int, by: Callable[[JudgedQueue], int | None], **more: Any
) -> Column:
    return Column(key, title, width, by=by, falls=True, align="right", **more)


def _chart(key: str, title: str, by: Callable[[JudgedQueue], int | None], style: str) -> Column:
    return Column(key, title, _WIDE_SPARK, by=by, falls=True, style=style, spare=True)


class OverviewView(QueueView):
    name_ = "overview"
    title = "overview"
    short = "all"
    about = "All queues, trouble first"
    of_all_queues = True
    explains_rows = False
    holds = "queues"
    columns = (
        Column("name", "queue", 16, by=lambda q: q.first_name, flex=1),
        Column("kind", "kind", 8, by=lambda q: q.row.kind, style=DIM, priority=5),
        Column("trouble", "trouble", 39, flex=4),
        _numbers("waiting", "waiting", 7, _state("waiting")),
        _numbers("pending", "pending", 7, _state("pending"), priority=1),
        _numbers("delayed", "delayed", 7, _state("delayed"), priority=2),
        _numbers("dead", "dead", 5, _state("dead")),
        _numbers("new", "new", 5, lambda q: q.new_dead, style=DEAD, priority=2, optional=True),
        _numbers("in", "in/min", 6, _minute(0), priority=4),
        _numbers("out", "out/min", 7, _minute(1), priority=4),
        _numbers("failed", "fail/min", 8, _minute(2), priority=3),
        _numbers("oldest", "oldest", 7, lambda q: -(q.waits_since or 2**63), priority=2),
        _chart("waiting-chart", "waiting, 1 h", _state("waiting"), DIM),
        _chart("in-chart", "in, 1 h", _hour(lambda rates: rates.arrived), DIM),
        _chart("failed-chart", "failed, 1 h", _hour(lambda rates: rates.failed), BAD),
        Column(
            "spark",
            "out, 1 h",
            _SPARK,
            by=_hour(lambda r: r.settled),
            falls=True,
            style=OK,
            priority=6,
        ),
    )
    usual = SortOrder("trouble", lambda q: rank(q.found), words="worst first", back="worst last")
    empty = "no queues here yet: redisq submit FILE makes one; redisq discover finds more"
    tall = 20
    filter_examples = "mail  dead>0  kind=rq  trouble~worker  waiting>=100 oldest>1h"

    def __init__(self) -> None:
        super().__init__()
        self.only_trouble = False
        """whether queues without trouble are left out"""
        self.sum: OverviewSum | None = None
        """None: nothing was read yet"""
        self.new_dead = NewDead()
        self._judged: dict[str, JudgedQueue] = {}
        self._drawn: dict[str, tuple[JudgedQueue, str, TableRow]] = {}
        """the row of each queue, drawn for this judgement inside or outside of a fold"""
        self._unfolded: set[str] = set()
        """folds whose queues are listed"""
        self._inside: dict[str, str] = {}
        """queue -> the fold under which it is listed"""
        self._folded: list[int] = []
        """the numbers of queues in the other folds"""

    @classmethod
    def offered_by(cls, queue: ListedQueue | None) -> bool:
        return True

    @property
    def row_queue(self) -> str | None:
        return None if self.stands_for else self.table.identity

    def items(self, snapshot: Snapshot) -> Items:
        now, redaction = snapshot.now_ms, redaction_of(self)
        text = redaction.text if redaction is not None else str
        # A row that was not read again is the same object: keep the earlier judgement.
        judged = []
        for row in snapshot.overview:
            known, new = self._judged.get(row.name), self.new_dead.of(row.name, row.of("dead"))
            if known is None or known.row is not row:
                found = redacted(troubles(row, now), text)
                known = JudgedQueue(row, found, row.rates.last_minute(now) if row.rates else None)
            judged.append(known if known.new_dead == new else replace(known, new_dead=new))
        self._judged = {queue.name: queue for queue in judged}
        if len(self._drawn) > len(judged):
            self._drawn = {name: self._drawn[name] for name in self._drawn.keys() & self._judged}
        self.new_dead.keep(self._judged.keys())
        self.sum = OverviewSum.of(judged, now)
        return Items(0, len(judged), judged)

    def _arranged(self, items: Sequence[JudgedQueue], snapshot: Snapshot) -> Sequence[JudgedQueue]:
        """Queues that share their trouble follow the row of their fold, if it is unfolded. A
        filter lists all that match: nothing is folded then."""
        self._inside, self._folded = {}, []
        if self.only_trouble:
            items = [queue for queue in items if queue.found]
        if self.filter is not None:
            return super()._arranged(items, snapshot)
        rows: list[JudgedQueue] = []
        for row in super()._arranged(folded(items), snapshot):
            rows.append(row)
            if row.members and self._is_unfolded(row):
                self._inside |= dict.fromkeys((one.name for one in row.members), row.name)
                rows += super()._arranged(row.members, snapshot)
            elif row.members:
                self._folded.append(len(row.members))
        return rows

    def _is_unfolded(self, fold: JudgedQueue) -> bool:
        """Whether its queues are listed; from now on, too, if one of them has the cursor."""
        if any(queue.name in (self.table.awaited, self.table.held) for queue in fold.members):
            self._unfolded.add(fold.name)
        return fold.name in self._unfolded

    def fold(self, identity: str, fold: bool | None) -> None:
        """Fold queues into the row of this identity, or list them below it; None: the opposite of
        now."""
        if (identity not in self._unfolded) if fold is None else not fold:
            self._unfolded.add(identity)
        else:
            self.table.go_to(identity)
            self._unfolded.discard(identity)
        self.show_again()

    def forget(self) -> None:
        super().forget()
        self._unfolded, self.new_dead = set(), NewDead()

    @property
    def stands_for(self) -> str:
        return self.item.title if self.item is not None and self.item.members else ""

    @property
    def chosen(self) -> tuple[str, ...]:
        return () if self.stands_for and not self.table.marks else super().chosen

    def copied(self, identity: str) -> str:
        """The name of the queue, or the names of the queues that are folded."""
        queues = self.item.members if self.stands_for else ()
        return " ".join(queue.name for queue in queues) or identity

    def chart(self, snapshot: Snapshot, width: int) -> Text | None:
        """The largest groups of dead letters that are trouble: how many, what died, since when.
        None beside a filter, which leaves out some of these queues."""
        if not snapshot.worst or self.filter is not None:
            return None
        field = snapshot.viewport.column
        return Text("\n", end="").join(
            _group_line(group, field, self, width - 1) for group in snapshot.worst
        )

    def on_click(self, event: Click) -> None:
        if self._chart.display and self._chart.region.contains_point(event.screen_offset):
            self.app.navigation.open_view("dead-all")  # type: ignore[attr-defined]

    def preview_chart(self, item: Any, snapshot: Snapshot, width: int, height: int) -> Text:
        """The chart of a queue in the preview; of a fold its queues, each with its reasons."""
        if item.members:
            wide = max(len(queue.name) for queue in item.members) + 2
            lines = [f"{queue.name:<{wide}}{queue.why}" for queue in item.members]
            left = len(lines) - height
            if left > 0:
                lines[height - 1 :] = [f"{count(left + 1)} more"]
            return Text("\n".join(printable(line, width) for line in lines))
        samples: Samples = self.app.charts.samples  # type: ignore[attr-defined]
        return queue_chart(item.row, samples, snapshot.now_ms, zone_of(self), width, height)

    def parsed(self, text: str, utc: bool) -> Query:
        from redisq_ops.ops.filter.queue_filter import parse_queue_filter

        return parse_queue_filter(text)

    def completed(self, text: str) -> list[str]:
        from redisq_ops.ops.filter.completion import completed
        from redisq_ops.ops.filter.queue_filter import QUEUE_FIELDS

        return completed(text, QUEUE_FIELDS, ())

    def accepts(self, item: JudgedQueue, snapshot: Snapshot) -> bool:
        if self.filter is None:
            return True
        from redisq_ops.ops.filter.queue_filter import accepts_queue

        return accepts_queue(self.filter, _fields(item, snapshot.now_ms))

    def toggle_trouble(self) -> None:
        """Show only queues in trouble, or all again."""
        self.only_trouble = not self.only_trouble
        self.rearrange()

    def counts_of(self, queue: str | None) -> Counts | None:
        """A queue's counts as last read for this view."""
        rows = self.snapshot.overview if self.snapshot else ()
        return next((row.counts for row in rows if row.name == queue), None)

    def _nothing_here(self, snapshot: Snapshot) -> str:
        if not self.only_trouble:
            return super()._nothing_here(snapshot)
        left = [queue for queue in self._judged.values() if self.accepts(queue, snapshot)]
        if not left:
            return super()._nothing_here(snapshot)
        matching = "" if self.filter is None else " that match" + "es" * (len(left) == 1)
        which = f"{quantity(len(left), 'queue')}{matching}"
        return f"none of the {which} is in trouble; press ! to show all"

    @property
    def status(self) -> list[str]:
        said = [cut] if (cut := self.table.cut_text("trouble")) else []
        if (seen := self.snapshot) is not None and seen.unread:
            read = len(seen.overview) - seen.unread
            said.append(f"{count(read)} of {count(len(seen.overview))} queues read so far")
        said += super().status
        if self._folded:
            rows = quantity(len(self._folded), "row")
            said.append(f"{count(sum(self._folded))} queues are in {rows} (▸: Enter shows them)")
        return [*said, "only queues in trouble; ! shows all"] if self.only_trouble else said

    def row(self, item: Any, snapshot: Snapshot) -> TableRow:
        inside = self._inside.get(item.name, "")
        if item.members:
            sign = "▾" if item.name in self._unfolded else "▸"
            return _row(item, snapshot.now_ms, f"{sign} {item.title}", item.name, ())
        judged, where, row = self._drawn.get(item.name, (None, "", None))
        if row is None or judged is not item or where != inside:
            samples: Samples = self.app.charts.samples  # type: ignore[attr-defined]
            waited = samples.waiting(item.name, snapshot.now_ms // MINUTE_MS, _MINUTES)
            name = f"  {item.name}" if inside else item.name
            row = _row(item, snapshot.now_ms, name, inside, waited)
            self._drawn[item.name] = (item, inside, row)
        return row


def _group_line(group: ErrorGroup, field: str, view: QueueView, width: int) -> Text:
    """``90 dead  KeyError: 'amount' · ChargeCard · release v2.4.1 · payments · since 05:35``; the
    name of the field only where there is room for it."""
    value, first = field_words(group), first_death(group, view.now_ms, zone_of(view))
    since = f"since {first}" if first else ""
    line = Text(f"{counted(group, view):>6} dead  ", DEAD, no_wrap=True, end="")
    for named in (f"{field} {value}" if value else "", value):
        known = (group.values[0], named, group.queue, since)
        rest = "".join(f" · {printable(words)}" for words in known if words)
        room = width - line.cell_len - cell_len(rest)
        if room >= _ERROR:
            break
    line.append(printable(error_words(group), max(_ERROR, room)))
    line.append(rest, DIM)
    line.truncate(width, overflow="ellipsis")
    return line


def _row(queue: JudgedQueue, now_ms: int, name: str, fold: str, waited: Sequence[int]) -> TableRow:
    counts, rates = queue.row.counts, queue.row.rates
    why: Cell = ""
    if queue.found:
        sign, style = _SIGNS[queue.found[0].severity]
        why = (sign + queue.why, style)
    if counts is None:
        # Without numbers, the reason gets all of their width.
        return TableRow(queue.name, (name, queue.row.kind), rest=why, fold=fold)
    return TableRow(
        queue.name,
        (
            name,
            queue.row.kind,
            why,
            _number(queue, "waiting", ""),
            _number(queue, "pending", HELD),
            _number(queue, "delayed", DELAYED),
            _number(queue, "dead", DEAD),
            f"+{short_count(queue.new_dead)}" if queue.new_dead else "",
            *_rates(queue.minute),
            rough_age(now_ms - counts.oldest_ms) if counts.oldest_ms else ("-", DIM),
            spark(waited, _WIDE_SPARK),
            spark(rates.arrived, _WIDE_SPARK) if rates else "",
            spark(rates.failed, _WIDE_SPARK) if rates else "",
            spark(rates.settled, _SPARK) if rates else "",
        ),
        fold=fold,
    )


def _number(queue: JudgedQueue, state: State, style: str) -> Cell:
    """How many entries are in a state; of a fold at least so many, if one of its queues doesn't
    tell."""
    value = queue.of(state)
    said, look = styled(number(value, style))
    unknown = value is not None and any(one.of(state) is None for one in queue.members)
    return (f"≥{said}" if unknown else said, look)


def _rates(minute: Minute | None) -> tuple[Cell, Cell, Cell]:
    if minute is None:
        return "", "", ""
    styles = zip(minute, ("", OK, BAD), strict=True)
    come, gone, failed = ("" if n is None else number(n, style) for n, style in styles)
    return come, gone, failed


def _fields(queue: JudgedQueue, now_ms: int) -> QueueFields:
    """What the filter compares of a queue."""
    from redisq_ops.ops.filter.queue_filter import QueueFields

    return QueueFields(
        queue.name,
        queue.row.kind,
        [one.reason for one in queue.found],
        queue.row.counts,
        queue.minute,
        None if queue.waits_since is None else now_ms - queue.waits_since,
        queue.new_dead,
    )
