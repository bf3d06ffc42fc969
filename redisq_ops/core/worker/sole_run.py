"""An entry that lost its leases runs alone: one that kills its process takes no other with it."""

from __future__ import annotations

from time import monotonic

from ..model.settings import DEFAULTS
from .handler import Work
from .queue_source import address, log

LOST_BEFORE = DEFAULTS.max_lost - 1
"""lost leases after which an entry runs alone: by default, one more makes it dead"""
PATIENCE_S = 60.0
"""how long it waits for other entries to end, and others for it"""


class SoleRun:
    """The entry of a worker that runs alone, or waits until nothing else is held."""

    def __init__(self) -> None:
        self._waiting: Work | None = None
        self._running: Work | None = None
        self.ends_at = 0.0
        """when, in monotonic seconds, it or the others no longer wait"""

    @property
    def on(self) -> bool:
        """Whether the worker takes nothing more, and starts nothing beside."""
        if self._waiting is not None:
            return True
        return self._running is not None and monotonic() < self.ends_at

    def admit(self, work: Work) -> bool:
        """Make it the entry that runs alone; False: another one is."""
        if self.on:
            return False
        self._waiting, self.ends_at = work, monotonic() + PATIENCE_S
        text = (
            "%s lost its lease %d times: it runs alone, and this worker takes no others meanwhile"
        )
        log.warning(text, address(work), work.delivery.lost)
        return True

    def due(self, held: int) -> Work | None:
        """The entry to start now: the one that waits, if the worker holds no other of ``held``, or
        after a minute."""
        if held > 1 and monotonic() < self.ends_at:
            return None
        work, self._waiting = self._waiting, None
        if work is not None:
            self._running, self.ends_at = work, monotonic() + PATIENCE_S
        return work

    def ended(self, work: Work) -> None:
        """Take in that a handler ended."""
        if work is self._running:
            self._running = None
