"""The entries of a change, and what they are like: selected by id, or a whole large state.

A whole state covers every entry that entered it before the change was prepared, without reading a
million ids first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Counts, Entry, State
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import together

from ..filter.filter import Filter
from ..filter.selection import Keep, Selection, select
from .impact import Consequences

LARGE = 10_000
"""a larger state is moved as a whole; otherwise all entries are read, and the preview is exact"""
LOOKED = 1_000
"""entries of a whole state that are read for the preview"""
MEAN = 50
"""entries a step moves on average"""
COST_US = 4.0
"""server time of one entry, µs, as `python -m benchmarks replay` measures it"""
MOVES: frozenset[Verb] = frozenset({"replay", "purge", "hard"})

Progress = Callable[[int, int | None], None]
"""gets how many entries were read, and of how many if that is known; may raise to stop"""


@dataclass(frozen=True, slots=True)
class WholeState:
    """All entries of a state at one moment, or with ``filter.max`` the first ones."""

    queue: Queue[Any]
    state: State
    filter: Filter
    high_water_ms: int
    """entries that entered the state after this time are not selected"""
    count: int
    sample: list[Entry] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    elsewhere: list[Entry] = field(default_factory=list)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedScope:
    """The entries of a plan, as a bulk change takes them."""

    queue: Queue[Any]
    state: State
    filter: str
    high_water_ms: int
    count: int


ChangeScope = Selection | WholeState | PlannedScope


async def select_entries(
    queue: Queue[Any],
    state: State,
    filter: Filter,
    progress: Progress | None = None,
    keep: Keep | None = None,
    shown: Callable[[str], str] = str,
    target: str = "",
) -> tuple[Selection, Consequences]:
    """Select entries by id and count what they are like, in one scan; ``keep`` and
    ``target`` as of `select`.

    ``shown`` redacts what errors say.
    """
    now = await queue.now.op()
    consequences = Consequences(queue, now, shown=shown)
    selection = await select(
        queue,
        state,
        filter,
        progress,
        each=consequences.add,
        keep=keep,
        now_ms=now,
        orphans=target in ("trash", "gone"),
        target=target,
    )
    if selection.count:
        await consequences.read_load(queue)
    return selection, consequences


async def select_whole_state(
    queue: Queue[Any],
    state: State,
    filter: Filter,
    progress: Progress | None = None,
    shown: Callable[[str], str] = str,
) -> tuple[WholeState, Consequences]:
    """Count the entries of a state, and what the first ones are like."""
    first = replace(filter, window=LOOKED)
    read, consequences = await select_entries(queue, state, first, progress, shown=shown)
    number = read.total if filter.max is None else min(read.total, filter.max)
    consequences.extrapolate(number, COST_US, MEAN)
    return (
        WholeState(queue, state, filter, read.high_water_ms, number, read.sample),
        consequences,
    )


async def movable_as_a_whole(queue: Queue[Any], state: State, verb: Verb, filter: Filter) -> bool:
    """Whether it is a whole large state that the server can move without a list of ids."""
    one = len(queue.shard_keys) == 1  # of several shards each has its own first entries
    plain = filter == Filter(max=filter.max if one else None)
    if not plain or verb not in MOVES or state not in queue.range_states:
        return False
    counts: Counts = await queue.counts.op()
    number = counts.of(state) or 0
    if min(number, filter.max or 2**53) <= LARGE:
        return False
    # The server finds only entries that arrived before now. If a clock that ran ahead before a
    # failover gave some a later time, the entries are moved by their ids.
    latest, now = await together(queue.page.op(state, max=1, start=number - 1), queue.now.op())
    return all((entry.since_ms or 0) <= now for entry in latest.entries)
