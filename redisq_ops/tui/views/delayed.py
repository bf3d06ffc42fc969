"""`6`: delayed entries, and when they become due."""

from __future__ import annotations

from dataclasses import replace
from datetime import tzinfo
from typing import Any

from rich.text import Text

from redisq_ops.core.model.entry import Entry
from redisq_ops.ops.inspect.snapshot import BAR_WIDTHS, Snapshot, Upcoming
from redisq_ops.ops.terminal import age, count, date
from redisq_ops.tui.charts.blocks import timeline
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import DELAYED, DIM, OK

from .base import QueueView, SortOrder
from .columns import Column
from .entry_view import ATTEMPTS, ERROR, ID, TASK, EntryView

HEIGHT = 5
_TICK = 20


def _due_at(entry: Entry, view: QueueView) -> Cell:
    return ("-", DIM) if entry.at_ms is None else moment(entry.at_ms, zone_of(view))


def _due_in(entry: Entry, view: QueueView) -> Cell:
    if entry.at_ms is None:
        return "-", DIM  # it waits for something else than a time
    left = entry.at_ms - view.now_ms
    return ("now", OK) if left <= 0 else (age(left), DELAYED)


class DelayedView(EntryView):
    name_ = "delayed"
    title = "delayed"
    short = "due"
    about = "Delayed: what becomes due"
    state = "delayed"
    verbs = frozenset({"requeue", "purge"})
    columns = (
        ID,
        TASK,
        Column("in", "due in", 9, _due_in, align="right"),
        Column("at", "due at", 19, _due_at, lambda e: e.at_ms),
        ATTEMPTS,
        replace(ERROR, flex=2, priority=3),
    )
    usual = SortOrder("in", words="next first", back="last first")
    empty = "nothing is delayed: entries that wait for a time or a retry come here"
    tall = 18

    def __init__(self) -> None:
        super().__init__()
        self._bar_ms: int | None = None

    @property
    def bar_ms(self) -> int | None:
        return self._bar_ms

    def zoom(self, step: int) -> str:
        upcoming = self.snapshot.upcoming if self.snapshot else None
        if upcoming is None:
            return "there is no timeline yet."
        at = BAR_WIDTHS.index(self._bar_ms or upcoming.step_ms) - step
        if not 0 <= at < len(BAR_WIDTHS):
            return f"a bar is {age(upcoming.step_ms)} wide already."
        self._bar_ms = BAR_WIDTHS[at]
        return ""

    def forget(self) -> None:
        super().forget()
        self._bar_ms = None

    def chart(self, snapshot: Snapshot, width: int) -> Text | None:
        upcoming = snapshot.upcoming
        if upcoming is None or not (sum(upcoming.numbers) or upcoming.later):
            return None
        return drawn(upcoming, width)


def drawn(upcoming: Upcoming, width: int) -> Text:
    """The histogram over its axis; ``width`` cells, one or more a bar."""
    numbers, step = upcoming.numbers, upcoming.step_ms
    text = Text(no_wrap=True, end="")
    peak = max(numbers, default=0)
    text.append(f" {count(sum(numbers))} due in {age(step * len(numbers))}", DELAYED)
    text.append(f", at most {count(peak)} in {age(step)}", DIM)
    if upcoming.later:
        text.append(f"; {count(upcoming.later)} not shown", DIM)
    text.append("; + and - zoom", DIM)
    for line in timeline(numbers, width - 2, HEIGHT):
        text.append(f"\n {line}", DELAYED)
    cells = max(1, (width - 2) // max(1, len(numbers)))
    axis = ""
    for at in range(0, len(numbers) * cells, _TICK):
        axis += ("now" if not at else f"+{age(at // cells * step)}").ljust(_TICK)
    text.append(f"\n {axis[: width - 2].rstrip()}\n", DIM)
    return text


def moment(ms: int, zone: tzinfo | None) -> str:
    """A time to the second, in the zone that the header names."""
    return date(ms, zone, offset=False)


def zone_of(view: Any) -> tzinfo | None:
    zone: tzinfo | None = getattr(view.app, "zone", None)
    return zone
