"""`2`: the priority lists, all hundred at a glance, and the requests that hold tokens."""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count, printable
from redisq_ops.tui.charts.blocks import LEVEL_WIDTH, levels
from redisq_ops.tui.theme import DIM, HELD, OK

from .base import Items, QueueView, SortOrder
from .requests import AGE, FREE, HELD_OF_LIMIT, ID, PRIORITY, PROGRESS, STATE, WAITING

_LEVELS = 100
_ASIDE = 30


class LevelsView(QueueView):
    name_ = "levels"
    has_details = True
    title = "priorities"
    short = "prio"
    about = "Priorities, token holders"
    needs = "HasPriorityLevels"
    holds = "requests"
    columns = (
        PRIORITY,
        ID,
        replace(STATE, priority=2),
        HELD_OF_LIMIT,
        replace(FREE, priority=0),
        replace(WAITING, priority=0),
        PROGRESS,
        replace(AGE, by=lambda r: -r.created_ms, falls=True, priority=3),
    )
    usual = SortOrder("priority", PRIORITY.by)
    empty = "no open requests: type :submit FILE --queue QUEUE to make one"
    tall = 20

    def items(self, snapshot: Snapshot) -> Items:
        return Items(0, snapshot.open, snapshot.requests)

    def chart(self, snapshot: Snapshot, width: int) -> Text | None:
        return drawn(snapshot, width) if snapshot.levels else None


def drawn(snapshot: Snapshot, width: int) -> Text:
    """The levels in rows of ten, and beside them, where there is room, whose turn is next."""
    counts = [0] * _LEVELS
    for level in snapshot.levels:
        counts[level.priority] = level.tokens
    held = snapshot.counts.pending if snapshot.counts else 0
    text = Text(no_wrap=True, end="")
    lists = "1 list" if len(snapshot.levels) == 1 else f"{len(snapshot.levels)} lists"
    text.append(f" free tokens by priority: {count(sum(counts))} in {lists}", OK)
    text.append(f", {count(held)} held", HELD)
    grid = 4 + 10 * LEVEL_WIDTH
    beside = width - grid >= _ASIDE
    if beside:
        text.append(" " * (grid - text.cell_len) + "next in line", DIM)
    nexts = list(snapshot.levels)
    for tens, cells in enumerate(levels(counts)):
        text.append(f"\n {tens * 10:>2} ", DIM)
        for cell, style in cells:
            text.append(cell, style)
        if beside and tens < len(nexts):
            level = nexts[tens]
            text.append(f"  {level.priority:>2}  ", DIM)
            text.append(printable(" · ".join(level.requests), width - grid - 7))
    text.append("\n")
    return text
