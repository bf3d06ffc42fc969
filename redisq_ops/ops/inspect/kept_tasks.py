"""The tasks of queues that are looked at again and again, by the dashboard or a recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.task_figures import TaskReport

from ..redaction import NO_REDACTION, Redaction
from .task_report import TaskReader

QUEUES: Final = 50
"""queues whose runs are remembered, those looked at last"""


@dataclass(slots=True)
class _Kept:
    reader: TaskReader
    report: TaskReport | None = None
    asked_ms: int = 0


class KeptTasks:
    """``every_ms``: a report is at most this old."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._kept: dict[str, _Kept] = {}

    def due(self, name: str, now_ms: int) -> bool:
        """Whether the queue was not asked in that time."""
        return name not in self._kept or self._old(self._kept[name], now_ms)

    async def read(
        self, queue: Queue[Any], now_ms: int, redaction: Redaction = NO_REDACTION
    ) -> TaskReport:
        kept = self._kept.pop(queue.name, None) or _Kept(TaskReader(queue, redaction=redaction))
        self._kept[queue.name] = kept
        while len(self._kept) > QUEUES:
            del self._kept[next(iter(self._kept))]
        if kept.report is None or self._old(kept, now_ms):
            kept.asked_ms = now_ms
            kept.report = await kept.reader.read(now_ms)
        return kept.report

    def _old(self, kept: _Kept, now_ms: int) -> bool:
        return not 0 <= now_ms - kept.asked_ms < self._every_ms
