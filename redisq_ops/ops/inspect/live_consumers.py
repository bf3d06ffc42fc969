"""Consumers that show a sign of life: those that could be given the entries of another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.redis.operation import together

from ..terminal import age, count
from .consumers import SILENT_MS, ConsumerStatus, consumer_reports
from .worker_processes import processes_of

LOOKED_UP: Final = 100
"""entries of which the holder is looked up"""


@dataclass(frozen=True, slots=True)
class LiveConsumer:
    """A consumer's name, and its sign of life in words."""

    name: str
    sign: str


async def live_consumers(queue: Queue[Any], group: str | None = None) -> list[LiveConsumer]:
    """The consumers of a queue, or of one of its groups, that live, by name. Reads only.

    A registered worker lives while its heartbeat does, another consumer while it takes, settles or
    extends leases.
    """
    reports, processes = await together(consumer_reports(queue, group), processes_of(queue))
    found = {process.name: "a worker" for process in processes if process.alive}
    gone = {process.name for process in processes} - found.keys()
    for report in reports:
        for status in report.consumers:
            if _lives(status) and status.name not in gone:
                of = f" of group {report.group}" if report.group else ""
                idle = "" if status.idle_ms is None else f", active {age(status.idle_ms)} ago"
                # Without heartbeats, only this tells a dead consumer from a busy one.
                since = "" if status.oldest_ms is None else f" for up to {age(status.oldest_ms)}"
                number = f"{'' if status.exact else 'at least '}{count(status.pending)}"
                found[status.name] = f"holds {number}{of}{since}{idle}"
    return [LiveConsumer(name, sign) for name, sign in sorted(found.items())]


async def only_holder(queue: Queue[Any], ids: Sequence[str]) -> str:
    """The consumer that holds all of these entries; empty: several do, or they are too many."""
    if len(ids) > LOOKED_UP:
        return ""
    found = await together(queue.get.op(id) for id in ids)
    names = {entry.consumer or "" for entry in found if entry is not None}
    return names.pop() if len(names) == 1 else ""


def _lives(status: ConsumerStatus) -> bool:
    if status.idle_ms is not None and status.idle_ms >= SILENT_MS:
        return False
    return status.silent_ms is None and not (status.late and status.late == status.pending)
