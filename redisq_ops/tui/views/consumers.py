"""`8`: consumers, the entries they hold, and silent ones; lag and pending entries of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.text import Text
from textual.binding import Binding, BindingType

from redisq_ops.ops.hint import hint
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import age, count, printable, short_count
from redisq_ops.tui.outline.outline import (
    LABEL,
    LINE,
    Line,
    OutlineSection,
    aligned,
    fact,
    fact_section,
)
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import BAD, DIM, HEAT, HELD, OK, WARN

from .base import Items, QueueView, SortOrder, redaction_of
from .columns import Column, number, numbers, texts

if TYPE_CHECKING:
    from redisq_ops.core.model.consumer_load import GroupLoad, PendingDelivery
    from redisq_ops.core.model.entry import Failure
    from redisq_ops.ops.inspect.consumers import ConsumerReport, ConsumerStatus
    from redisq_ops.ops.redaction import Redaction
    from redisq_ops.tui.app import Top

_AGES = ("<1m", "<10m", "<1h", "<1d", "≥1d")
_DELIVERIES = (1, 2, 3, 5, 10)
"""the same as in `ops.consumers`, which is loaded later than this; a test compares them"""
_LABEL, _CELL = 10, 7
_GRID = 2 + _LABEL + _CELL * len(_AGES)
_GROUPS = 5
_APART = "\0"
_LISTED = 20
"""entries of a consumer that its preview lists"""
_TAKE_OVER = {
    "requeue": fact("R", "requeues what it holds: other consumers take it"),
    "claim": fact("C", "claims it for one other consumer"),
    "purge": fact("X", "acknowledges it: its group is done with it"),
}


@dataclass(frozen=True, slots=True)
class One:
    """A consumer in its group."""

    seen: ConsumerStatus
    group: str | None
    poison: int
    """number of its entries that were delivered ten times or more"""

    @property
    def identity(self) -> str:
        return self.seen.name if self.group is None else self.group + _APART + self.seen.name


def parted(identity: str) -> tuple[str | None, str]:
    """The group, if the queue has consumer groups, and the consumer of a row's identity."""
    group, apart, name = identity.rpartition(_APART)
    return (group if apart else None), name


def _full_name(one: One) -> tuple[str, str]:
    return one.seen.name, one.group or ""


def _span(
    key: str, title: str, width: int, of: Callable[[Any], int | None], style: str = "", **more: Any
) -> Column:
    def cell(one: One, _: object) -> Cell:
        return ("-", DIM) if (ms := of(one)) is None else (age(ms), style)

    return replace(numbers(key, title, width, of, **more), cell=cell)


def _late(one: One, _: object) -> Cell:
    return ("-", DIM) if one.seen.late is None else number(one.seen.late, BAD)


class ConsumersView(QueueView):
    BINDINGS: ClassVar[list[BindingType]] = [  # the dashboard's keys, in the words of this view
        Binding("X", "app.move('purge')", "Acknowledge", id="purge"),
        Binding("M", "app.begin('move')", "Move group", show=False, id="begin-move"),
        Binding("K", "app.begin('request cancel')", "Remove group", id="begin-request-cancel"),
    ]
    name_ = "consumers"
    title = "consumers"
    short = "cons"
    about = "Consumers: who holds what"
    at_once = True
    verbs = frozenset({"claim", "requeue", "purge"})
    acts_on = "pending"
    explains_rows = False
    of_some_kinds: ClassVar[Mapping[str, str]] = {"group": "HasConsumerGroups"}
    columns = (
        Column("consumer", "consumer", 20, lambda one, _: one.seen.name, _full_name, flex=2),
        texts("group", "group", 8, lambda one: one.group, flex=1, priority=3),
        numbers("pending", "pending", 7, lambda one: one.seen.pending, HELD),
        _span("oldest", "oldest", 8, lambda one: one.seen.oldest_ms),
        _span("idle", "idle", 8, lambda one: one.seen.idle_ms, priority=2),
        replace(numbers("late", "late", 5, lambda one: one.seen.late, priority=1), cell=_late),
        numbers("poison", "10+ ×", 5, lambda one: one.poison, WARN, priority=4),
        _span("silent", "silent", 10, lambda one: one.seen.silent_ms, BAD),
    )
    usual = SortOrder("silent", lambda one: one.seen.silent_ms, True)
    empty = "no consumer holds an entry: a worker is listed while it has some"
    tall = 18

    def items(self, snapshot: Snapshot) -> Items:
        from redisq_ops.ops.inspect.consumers import ConsumerStatus

        nobody = ConsumerStatus("-", 0, None, None, None, None)  # of a group without consumers
        found = [
            One(seen, report.group, sum(row.consumer == seen.name for row in report.poison))
            for report in snapshot.reports
            for seen in report.consumers or ((nobody,) if report.group else ())
        ]
        return Items(0, len(found), found)

    def words(self, item: Any) -> tuple[str, ...]:
        return (item.seen.name, item.group or "")

    def identity(self, item: Any) -> str:
        return str(item.identity)

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        one: One = item
        held = [
            (row, report.errors.get(row.id))
            for report in snapshot.reports
            for row in report.held or report.poison
            if report.group == one.group and (row.consumer or "-") == one.seen.name
        ]
        known, pending = len(held), one.seen.pending
        title = "holds nothing"
        if pending:
            title = f"holds {count(pending)}, the oldest first"
            title += f" (among the first {count(known)})" if known < pending else ""
        found = [fact_section("held", title, list(_held(held, redaction_of(self))))]
        if one.seen.silent_ms is not None:
            why_unfit = cast("Top", self.app).why_unfit
            helps = [
                line
                for verb, line in _TAKE_OVER.items()
                if not why_unfit("move", (verb,))
                and (verb, one.group is None) != ("requeue", False)  # not every server can
            ]
            found.append(fact_section("help", f"silent for {age(one.seen.silent_ms)}", helps))
        return found

    def chart(self, snapshot: Snapshot, width: int) -> Text | None:
        busy = any(report.pending or report.loads for report in snapshot.reports)
        return drawn(snapshot.reports, width) if busy else None

    def copied(self, identity: str) -> str:
        return parted(identity)[1]

    @property
    def removal(self) -> str | None:
        """The command that removes the consumer under the cursor without losing its entries."""
        under, queue = self.table.identity, self.snapshot.queue if self.snapshot else None
        if under is None or queue is None or "HasWorkerProcesses" in queue.features:
            return None
        group, name = parted(under)
        return hint("workers", "rm", queue.name, name, **({"group": group} if group else {}))

    @property
    def status(self) -> list[str]:
        said = super().status
        if self.removal:  # early, because a narrow terminal cuts the end
            said.insert(1, f"to remove it: {self.removal}")
        window = [(r.looked, r.pending) for r in self.snapshot.reports] if self.snapshot else []
        looked, held = sum(n for n, _ in window), sum(n for _, n in window)
        if looked < held:
            said.append(f"by the first {count(looked)} of {count(held)} pending")
        return said


def _held(
    held: list[tuple[PendingDelivery, Failure | None]], redaction: Redaction | None
) -> Iterator[Line]:
    """A line per entry: how long held, id, lease, number of deliveries, last error."""
    shown = held[:_LISTED]
    for id, (row, error) in zip(aligned([row.id for row, _ in shown]), shown, strict=True):
        since = "" if row.age_ms is None else f"for {age(row.age_ms)}"
        text = Text.assemble((f"{since:<{LABEL}}", DIM), id)
        if row.late_ms is not None:
            late = row.late_ms > 0
            lease = f"lease over for {age(row.late_ms)}" if late else f"lease {age(-row.late_ms)}"
            text.append(f"  {lease:<22}", BAD if late else OK)
        poison = row.deliveries is None or row.deliveries >= _DELIVERIES[-1]
        times = "given up" if row.deliveries is None else f"delivered {count(row.deliveries)} ×"
        text.append(f"  {times}", WARN if poison else DIM)
        if (shown_error := redaction.failure(error) if redaction else error) is not None:
            text.append(f"  {printable(shown_error.line, LINE)}", BAD)
        yield Line(text, row.id)


def drawn(reports: tuple[ConsumerReport, ...], width: int) -> Text:
    """Held entries by deliveries and time since the latest one; if there is room, the groups."""
    heat = [
        [sum(r.heat[i][j] for r in reports) for j in range(len(_AGES))]
        for i in range(len(_DELIVERIES))
    ]
    loads = [load for report in reports for load in report.loads]
    lag = None if any(x.lag is None for x in loads) else sum(x.lag or 0 for x in loads)
    pending = sum(report.pending for report in reports)
    again = sum(load.again for load in loads)
    text = Text(no_wrap=True, end="")
    text.append(f" lag {'unknown' if lag is None else count(lag)}", "bold")
    text.append(" not delivered yet", DIM)
    text.append(" · ", DIM)
    text.append(f"pending {count(pending)}", f"bold {HELD}")
    text.append(" delivered, not settled", DIM)
    if again:
        text.append(f" · {count(again)} wait to run again", DIM)
    text.append(f"\n {'delivered':<{_LABEL}}", DIM)
    for title in _AGES:
        text.append(f"{title:>{_CELL}}", DIM)
    beside = width - _GRID >= 40 and any(load.group for load in loads)
    room = min(max((Text(x.group).cell_len for x in loads), default=0), width - _GRID - 20)
    lines = _loads(loads, max(room, len("group"))) if beside else []
    if lines:
        text.append(f"  {'group':<{max(room, len('group'))}}{'lag':>7}  {'pending':>7}", DIM)
    peak = max((n for row in heat for n in row), default=0)
    for at, row in enumerate(heat):
        text.append(f"\n {_name(at):<{_LABEL}}", DIM)
        for n in row:
            text.append(" ")
            text.append(
                f"{short_count(n):>{_CELL - 1}}" if n else " " * (_CELL - 2) + "·", _heat(n, peak)
            )
        if at < len(lines):
            text.append("  ").append_text(lines[at])
    text.append("\n")
    return text


def _name(at: int) -> str:
    if at + 1 == len(_DELIVERIES):
        return f"{_DELIVERIES[at]}+ ×"
    low, high = list(pairwise(_DELIVERIES))[at]
    return f"{low} ×" if high == low + 1 else f"{low}-{high - 1} ×"


def _heat(n: int, peak: int) -> str:
    return HEAT[min(len(HEAT) - 1, len(HEAT) * n // (peak + 1))] if n else DIM


def _loads(loads: list[GroupLoad], room: int) -> list[Text]:
    """The groups with the largest backlog, and the number of the others."""
    ranked = sorted(loads, key=lambda x: -((x.lag or 0) + (x.pending or 0)))
    shown = ranked if len(ranked) <= _GROUPS else ranked[: _GROUPS - 1]
    lines = []
    for load in shown:
        name = printable(load.group, room)
        line = Text(f"{name}{' ' * (room - Text(name).cell_len)}")
        for value in (load.lag, load.pending):
            said = "?" if value is None else short_count(value)
            line.append(f"{said:>7}  ", "" if value else DIM)
        lines.append(line)
    if len(ranked) > len(shown):
        lines.append(Text(f"… {count(len(ranked) - len(shown))} more groups", DIM))
    return lines
