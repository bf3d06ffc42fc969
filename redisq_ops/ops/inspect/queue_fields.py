"""The numbers and flags of a queue, as `redisq ls --json` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from redisq_ops.core.model.row_fields import Duration, Text, Time

if TYPE_CHECKING:
    from .overview import QueueRow


@dataclass(frozen=True, slots=True)
class QueueFields:
    """What commands and recordings have of each queue. A count is `null` if the layout of another
    program does not show it."""

    name: str
    """name of the queue"""
    kind: str
    """`request`, `delay`, `circular`, `fair`, `carmine`, or a [kind of another
    program](../how-to/inspect-other-queues.md#what-is-found); `unknown` if the registry
    entry is corrupt"""
    waiting: int | None
    """entries that wait for a worker"""
    pending: int | None
    """entries that were delivered and not settled"""
    delayed: int | None
    """entries that wait for their ready time"""
    dead: int | None
    """dead letters"""
    done: int | None
    """entries settled since the queue was created"""
    trash: int | None
    """purged entries that can still be restored"""
    in_per_min: int | None
    """entries that arrived in the last 60 seconds, estimated from the counters of two minutes"""
    out_per_min: int | None
    """entries settled in the last 60 seconds, estimated likewise"""
    failed_per_min: int | None
    """failed attempts in the last 60 seconds, estimated likewise"""
    oldest_ms: Time | None
    """when the oldest waiting work arrived"""
    oldest_age_ms: Duration | None
    """age of that work"""
    paused: Text | None
    """reason of the pause; `null`: the queue is not paused"""
    draining: Text | None
    """reason of the drain; `null`: the queue accepts new entries"""
    only_shown: Text | None
    """why redisq refuses every change of it: it does not know the release of its program; `null`:
    it allows what the kind allows"""
    problem: Text | None
    """what could not be read"""
    unfinished: tuple[str, ...]
    """operations that still hold entries between two queues, see [Move
    entries](../how-to/move-entries.md#a-move-that-was-killed)"""
    resizing: Text | None
    """a change of the number of [shards](../explanation/sharding.md#changing-the-number) that is
    not complete; `null`: none"""
    periodic: int | None
    """periodic entries; `null` if the kind has none, or too many to be read at each look"""
    periodic_overdue: int | None
    """periodic entries that missed a run; `null`: unknown"""

    @classmethod
    def of(cls, row: QueueRow, now_ms: int) -> QueueFields:
        """A queue of the overview."""
        counts = row.counts
        oldest = paused = closed = shown = unread = None
        if counts is not None:
            oldest, paused, closed = counts.oldest_ms, counts.paused, counts.closed
            shown, unread = counts.only_shown, counts.problem
        arrived, settled, failed = (
            row.rates.last_minute(now_ms) if row.rates else (None, None, None)
        )
        return cls(
            name=row.name,
            kind=row.kind,
            waiting=row.of("waiting"),
            pending=row.of("pending"),
            delayed=row.of("delayed"),
            dead=row.of("dead"),
            done=row.of("done"),
            trash=row.of("trash"),
            in_per_min=arrived,
            out_per_min=settled,
            failed_per_min=failed,
            oldest_ms=oldest,
            oldest_age_ms=oldest and max(0, now_ms - oldest),
            paused=paused,
            draining=closed,
            only_shown=shown,
            problem=row.problem or unread,
            unfinished=row.unfinished,
            resizing=None if row.resize is None else str(row.resize),
            periodic=row.periodic and row.periodic[0],
            periodic_overdue=row.periodic and row.periodic[1],
        )
