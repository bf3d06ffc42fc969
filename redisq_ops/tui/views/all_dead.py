"""`d`: the dead letters of all queues, by error, task, a field of the payload, and queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from redisq_ops.ops.inspect.snapshot import DeadLetters, ListedQueue, Snapshot
from redisq_ops.ops.terminal import age, count, quantity
from redisq_ops.tui.charts.blocks import timeline
from redisq_ops.tui.outline.outline import OutlineSection, fact, fact_section
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import BAD, DEAD, DIM

from .base import ChangeTarget, Items, QueueView
from .columns import Column, ages, ago, texts
from .delayed import moment, zone_of
from .new_groups import (
    ERROR,
    LARGEST,
    NEW,
    NewGroupsView,
    counted,
    error_words,
    field_words,
    first_death,
)

if TYPE_CHECKING:
    from redisq_ops.ops.groups.error_groups import ErrorGroup

HEIGHT = 4
_TICK = 20
COLUMN = "release"
"""the field that is shown first"""


def _since(group: ErrorGroup, view: QueueView) -> Cell:
    return first_death(group, view.now_ms, zone_of(view)) or "-"


class AllDeadView(NewGroupsView):
    name_ = "dead-all"
    title = "all dead"
    short = "all dead"
    about = "All queues: dead by error"
    at_once = True
    of_all_queues = True
    verbs = frozenset({"replay", "purge"})
    columns = (
        Column("count", "dead", 6, counted, align="right", style=DEAD),
        NEW,
        texts("task", "task", 18, lambda g: g.values[0], "", flex=2, optional=True),
        ERROR,
        texts("value", COLUMN, 10, lambda g: field_words(g) or None, "", flex=1, optional=True),
        texts("queue", "queue", 14, lambda g: g.queue, "", flex=2),
        replace(ages("first", "since", 12, lambda g: g.first_ms), cell=_since),
        ages("last", "last", 7, lambda g: g.last_ms, priority=1, falls=True),
    )
    usual = LARGEST
    empty = "no dead letters in any queue"
    tall = 18

    def __init__(self) -> None:
        super().__init__()
        self.column = COLUMN
        """the field besides error and task, as filters name it; empty: none"""

    @classmethod
    def offered_by(cls, queue: ListedQueue | None) -> bool:
        return True

    def divide(self, column: str) -> None:
        """Group by another field besides error and task, or by several with commas; empty: by no
        other. `BadInput` if there is no such field."""
        from redisq_ops.ops.groups.group_by import group_by

        if column:
            group_by(column)
        self.column = column
        self.table.rename("value", column)
        self.forget()

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.viewport.column == self.column:
            super().show(snapshot)

    def items(self, snapshot: Snapshot) -> Items:
        found = snapshot.dead.groups if snapshot.dead else ()
        by_queue: dict[str | None, list[ErrorGroup]] = defaultdict(list)
        for group in found:
            by_queue[group.queue].append(group)
        self._new = {}
        for queue, groups in by_queue.items():
            all_read = all(group.exact for group in groups)
            self._count_new(groups, all_read, queue, snapshot)
        return Items(0, len(found), found)

    def identity(self, item: ErrorGroup) -> str:
        """Its queue and what is selected there."""
        where = item.where or f"{item.fingerprint} {item.values!r}"
        return f"{item.queue} {where}"

    def words(self, item: Any) -> tuple[str, ...]:
        group: ErrorGroup = item
        texts = (group.queue, group.type, group.form, group.fingerprint, *group.values)
        return tuple(text for text in texts if text)

    def chart(self, snapshot: Snapshot, width: int) -> Text | None:
        dead = snapshot.dead
        return None if dead is None or not dead.looked else _drawn(dead, width)

    def preview_sections(self, item: Any, snapshot: Snapshot) -> list[OutlineSection]:
        group: ErrorGroup = item
        zone = zone_of(self)
        times = [
            fact(name, f"{moment(ms, zone)}  ({ago(ms, snapshot)} ago)")
            for name, ms in (("first", group.first_ms), ("last", group.last_ms))
            if ms is not None
        ]
        known = [fact("queue", group.queue or ""), fact("task", group.values[0] or "unknown")]
        known += [fact(self.column, value)] if (value := field_words(group)) else []
        reasons = ", ".join(f"{count(n)} {reason}" for reason, n in group.reasons.items())
        return [
            fact_section(
                "error", error_words(group), [fact("latest", group.message or "no message")]
            ),
            fact_section(
                "cell",
                f"{'' if group.exact else 'at least '}{count(group.count)} dead",
                [
                    *known,
                    *times,
                    *([fact("reasons", reasons)] if reasons else []),
                    fact("entry", group.sample),
                    fact("filter", group.where or _UNNAMED),
                ],
            ),
        ]

    @property
    def row_queue(self) -> str | None:
        group: ErrorGroup | None = self.item
        return group.queue if group else None

    @property
    def subject(self) -> str | None:
        """The latest entry of the row under the cursor."""
        group: ErrorGroup | None = self.item
        return group.sample if group else None

    @property
    def refusal(self) -> str:
        groups = [self._item_of.get(row) for row in self.chosen]
        if None in groups:
            return "A marked row is gone: take the marks away."
        if len({group.queue for group in groups if group}) > 1:
            return "One queue at a time: take the marks of other queues away."
        if not all(group.where for group in groups if group):
            return (
                f"{_UNNAMED[0].upper()}{_UNNAMED[1:]}. Enter lists the dead letters of the error."
            )
        return ""

    @property
    def target(self) -> ChangeTarget | None:
        """All dead letters of the queue that the rows' filters select, also older ones."""
        from redisq_ops.ops.filter.parser import parse

        groups: list[ErrorGroup] = [self._item_of[row] for row in self.chosen]
        if not groups:
            return None
        texts = [group.where or "" for group in groups]
        where = texts[0] if len(texts) == 1 else " or ".join(f"({text})" for text in texts)
        return ChangeTarget("dead", where=parse(where), queue=groups[0].queue)

    @property
    def status(self) -> list[str]:
        said, dead = super().status, self.snapshot.dead if self.snapshot else None
        if dead is None:
            return said
        if dead.queues or dead.left:
            said.append(_covered(dead))
        if dead.left:
            said.append(f"{quantity(dead.left, 'queue')} not read yet")
        if self.snapshot and self.item is not None and self._new_number(self.item):
            since = moment(self._since_ms(self.item.queue, self.snapshot), zone_of(self))
            said.append(f"new: died since {since}, when you last looked at {self.item.queue}")
        return [*said, *([_unread(dead.unread)] if dead.unread else [])]


_UNNAMED = "no filter can select just this row: its value is hidden, long, or no simple value"


def _covered(dead: DeadLetters) -> str:
    """Which dead letters were looked at."""
    where = f"dead in {quantity(dead.queues, 'queue')}"
    if dead.exact and dead.looked >= dead.total:
        return f"all {count(dead.looked)} {where}"
    which = "the latest" if dead.exact else "some"
    of = f"{'' if dead.exact else '≥'}{count(dead.total)}"
    others = f", {count(dead.others)} of them in small groups" if dead.others else ""
    return f"{which} {count(dead.looked)} of {of} {where}{others}"


def _unread(unread: Mapping[str, str]) -> str:
    name, why = next(iter(unread.items()))
    more = f" (and {quantity(len(unread) - 1, 'queue')} more)" if len(unread) > 1 else ""
    return f"{name} can't be read: {why}{more}"


def _drawn(dead: DeadLetters, width: int) -> Text:
    """The deaths of the entries that were looked at, over a time axis that ends now."""
    numbers, step = dead.deaths, dead.step_ms
    text = Text(no_wrap=True, end="")
    text.append(f" {count(sum(numbers))} died in {age(step * len(numbers))}", BAD)
    text.append(f", at most {count(max(numbers, default=0))} in {age(step)}", DIM)
    text.append(f"; {count(dead.earlier)} before" if dead.earlier else "", DIM)
    text.append(f"; of the {count(dead.looked)} looked at", DIM)
    for line in timeline(numbers, width - 2, HEIGHT):
        text.append(f"\n {line}", BAD)
    cells = max(1, (width - 2) // max(1, len(numbers)))
    axis = "".join(
        f"-{age((len(numbers) * cells - at) // cells * step)}".ljust(_TICK)
        for at in range(0, len(numbers) * cells - _TICK, _TICK)
    )
    text.append(f"\n {axis.ljust(len(numbers) * cells - 3)}now"[:width] + "\n", DIM)
    return text
