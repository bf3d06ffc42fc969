"""Where a plan's entries are now, and what a run would do to them. Reads only. The figures in a
plan file are not used: anybody may have written them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.model.states import VERBS

from .entry_steps import Pick
from .impact import Consequences
from .plan import PlanFile
from .plan_header import PlanHeader

_PAGE = 500


async def look_at(
    plan: PlanFile,
    queue: Queue[Any],
    start: int,
    most: int,
    meter: Callable[[int, int], None] | None = None,
    shown: Callable[[str], str] = str,
) -> tuple[Counter[str], Consequences]:
    """Look at up to ``most`` entries from the ``start``-th on.

    Returns the number of entries in each state (``late``: they came into the planned state after
    the plan; ``gone``), and the consequences for the entries that a run would change.
    """
    found: Counter[str] = Counter()
    now = await queue.now.op()
    impact = Consequences(queue, now, shown=shown)
    picks: Iterator[Pick] = islice(plan.picks(start), most)
    while batch := list(islice(picks, _PAGE)):
        entries = await queue.get_many.op([pick.id for pick in batch], plan.header.state)
        there = list[Entry]()
        for pick, entry in zip(batch, entries, strict=True):
            word = _word(queue, plan.header, pick, entry, now)
            found[word] += 1
            if entry is not None and word == plan.header.state:
                there.append(entry)
        await impact.add(there)
        if meter is not None:
            meter(found.total(), plan.count)
    return found, impact


def _word(
    queue: Queue[Any], header: PlanHeader, pick: Pick, entry: Entry | None, now_ms: int
) -> str:
    if entry is None:
        return "gone"
    if entry.state != header.state:
        return entry.state
    # An undo restores ``since_ms``: only ``put_ms`` shows that the entry came back after the plan.
    came = entry.since_ms if entry.put_ms is None else entry.put_ms
    # (A time in the future is from a clock that ran ahead, and says nothing.)
    late = came is not None and header.high_water_ms < came <= now_ms
    other = None not in (pick.at_ms, entry.at_ms) and entry.at_ms != pick.at_ms
    if pick.stamp:
        target = VERBS[header.verb][1]
        other |= queue.selected_stamp(entry, target, header.high_water_ms) != pick.stamp
    return "late" if late or other else entry.state
