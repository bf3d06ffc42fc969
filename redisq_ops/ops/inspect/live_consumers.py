"""Consumers that show a sign of life: those that could be given the entries of another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.redis.operation import both

from ..terminal import age, count
from .consumers import SILENT_MS, ConsumerStatus, consumer_reports
from .worker_processes import processes_of


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
    reports, processes = await both(consumer_reports(queue, group), processes_of(queue))
    found = {process.name: "a worker" for process in processes if process.alive}
    gone = {process.name for process in processes} - found.keys()
    for report in reports:
        for status in report.consumers:
            if _lives(status) and status.name not in gone:
                of = f" of group {report.group}" if report.group else ""
                idle = "" if status.idle_ms is None else f", active {age(status.idle_ms)} ago"
                found[status.name] = f"holds {count(status.pending)}{of}{idle}"
    return [LiveConsumer(name, sign) for name, sign in sorted(found.items())]


def _lives(status: ConsumerStatus) -> bool:
    if status.idle_ms is not None and status.idle_ms >= SILENT_MS:
        return False
    return status.silent_ms is None and not (status.late and status.late == status.pending)
