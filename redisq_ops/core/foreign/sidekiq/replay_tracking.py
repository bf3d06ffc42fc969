"""What becomes of jobs of Sidekiq that were replayed."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from ...engine.parallel_reads import ParallelReads
from ...engine.replay_tracking import ForeignReplayTracker
from ...model.entry import Entry


class JobTracker(ForeignReplayTracker):
    """A process of Sidekiq takes a job out of its list, and writes what it runs at its next
    heartbeat. Until then the job is in no key, so only one that stays away has ended well."""

    away_s: ClassVar[float] = 15
    """for how long a job must not be found: a process has a heartbeat every ten seconds"""

    def __init__(self, queue: ParallelReads[Any]) -> None:
        super().__init__(queue)
        self._away: dict[str, float] = {}

    def forget(self) -> None:
        super().forget()
        self._away.clear()

    def _end(self, id: str, entry: Entry | None) -> bool | None:
        now = time.monotonic()
        if entry is None and now - self._away.setdefault(id, now) < self.away_s:
            self._follow(id)
            return None
        self._away.pop(id, None)
        return super()._end(id, entry)
