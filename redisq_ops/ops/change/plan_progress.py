"""Where a plan's entries are now, as applying it would find them. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.redis.operation import together

from .entry_steps import Pick
from .plan import PlanFile, PlanHeader

_PAGE = 500


async def whereabouts(
    plan: PlanFile, queue: Queue[Any], meter: Callable[[int, int], None] | None = None
) -> Counter[str]:
    """By state, ``late`` for those that came into the planned one since, ``gone``."""
    found: Counter[str] = Counter()
    now = await queue.now.op()
    picks: Iterator[Pick] = plan.picks()
    while batch := list(islice(picks, _PAGE)):
        entries = await together(queue.get.op(pick.id) for pick in batch)
        for pick, entry in zip(batch, entries, strict=True):
            found[_word(plan.header, pick, entry, now)] += 1
        if meter is not None:
            meter(found.total(), plan.count)
    return found


def _word(header: PlanHeader, pick: Pick, entry: Entry | None, now_ms: int) -> str:
    if entry is None:
        return "gone"
    if entry.state != header.state:
        return entry.state
    # What an undo brought back is dead as long as ever, and still it came after the plan.
    came = entry.since_ms if entry.put_ms is None else entry.put_ms
    # (A time that is still to come is of a clock that was ahead, and says nothing.)
    late = came is not None and header.high_water_ms < came <= now_ms
    other = None not in (pick.at_ms, entry.at_ms) and entry.at_ms != pick.at_ms
    return "late" if late or other else entry.state
