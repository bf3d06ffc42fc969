"""The periodic entries of queues: next run, latest run, missed runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.schedule import OwnersSchedule
from redisq_ops.core.model.entry import State
from redisq_ops.core.queues.delay.periodic import RUNS, ScheduledPeriodic
from redisq_ops.core.redis.operation import together

from ..required_features import with_periodic
from ..terminal import count


@dataclass(frozen=True, slots=True)
class PeriodicStatus:
    """A periodic entry and its runs, at one moment."""

    entry: ScheduledPeriodic | OwnersSchedule
    run_state: State | None
    """state of its latest run; None: it ended and was removed, or there was none"""
    missed: int | None
    """times that passed without a run; `RUNS` means that many or more; None: unknown"""
    overdue: bool | None
    """whether it missed a run; None: unknown"""

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def held(self) -> bool:
        """Whether the next run waits for the end of the latest one."""
        spec = self.entry.spec
        live = self.run_state in ("waiting", "pending", "delayed")
        return bool(self.missed and live and spec and not spec.overlap)


def missed_words(missed: int | None) -> str:
    """A number of missed runs: ``3``; ``100 or more``, since no more are counted; ``some``."""
    if missed is None:
        return "some"
    return f"{count(missed)}{' or more' if missed >= RUNS else ''}"


async def periodic_status(queue: Queue[Any]) -> list[PeriodicStatus]:
    """All periodic entries of a queue, the one that runs next first; two round trips or more."""
    entries, now = await together(with_periodic(queue).periodics.op(), queue.now.op())
    return await status(queue, entries, now)


async def status(
    queue: Queue[Any], entries: Sequence[ScheduledPeriodic | OwnersSchedule], now_ms: int
) -> list[PeriodicStatus]:
    """The entries with the states of their latest runs."""
    ids = [entry.run or "" for entry in entries]
    runs = dict(zip(ids, await queue.get_many.op(ids), strict=True)) if any(ids) else {}
    states = {id: run.state for id, run in runs.items() if run is not None}
    return [
        PeriodicStatus(entry, states.get(id), entry.missed(now_ms, RUNS), entry.overdue(now_ms))
        for id, entry in zip(ids, entries, strict=True)
    ]
