"""What becomes of tasks that were sent again: only their results tell."""

from __future__ import annotations

from ...engine.replay_tracking import ForeignReplayTracker
from ...model.entry import Entry


class TaskTracker(ForeignReplayTracker):
    """A task that was acknowledged when it began is in no key while it runs, and one whose success
    is ignored leaves no result: if nothing of a task is found, its end isn't known."""

    def _end(self, id: str, entry: Entry | None) -> bool | None:
        if entry is None:
            self._follow(id)
            return None
        return super()._end(id, entry)

    def _fails(self, entry: Entry) -> bool:
        return entry.failures > 0  # a message that sends a task again counts from zero
