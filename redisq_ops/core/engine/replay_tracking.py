"""What becomes of entries that were replayed: whether they end well or die again.

A queue says by `replay_tracker` how that can be told of its kind. Most keep an entry's id: it is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..model.entry import Entry
from ..redis.operation import together

if TYPE_CHECKING:
    from .queue import Queue

WATCHED = 1000
"""replayed entries that are followed at a time"""


class ReplayTracker:
    """Follows replayed entries by their ids. At most 1,000 at a time: while none of them is
    settled, further ones are not."""

    at_once: ClassVar[int] = 200
    """entries of one look"""

    def __init__(self, queue: Queue[Any]) -> None:
        self._queue = queue
        self._since: dict[str, int] = {}
        self._failing: set[str] = set()
        self._owed: set[str] = set()

    @property
    def failing(self) -> int:
        """How many failed again, or were lost with a worker, and will be tried again."""
        return len(self._failing)

    @property
    def unsettled(self) -> int:
        """Of how many the end isn't known."""
        return len(self._since)

    @property
    def unknown_ends(self) -> int:
        """Of how many of those it never will be."""
        return 0

    async def begin(self) -> None:
        """See how things are before the first is replayed."""

    async def add(self, ids: Sequence[str], at_ms: int, op: str, step: int) -> None:
        """Follow what a step of an operation replayed; ``at_ms``: the server's time before it."""
        for id in ids[: WATCHED - len(self._since)]:
            self._since[id] = at_ms

    def forget(self) -> None:
        """Follow none of them any more."""
        self._since.clear()
        self._failing.clear()
        self._owed.clear()

    def last_round(self) -> None:
        """From now on each is looked at once more: `remaining` says how many are yet to be."""
        self._owed = set(self._since)

    @property
    def remaining(self) -> int:
        return len(self._owed)

    async def look(self) -> list[bool]:
        """Look at some of the unsettled ones, the next ones the next time: for each that ended,
        whether it is dead again. A fixed number of round trips."""
        ids = list(self._since)[: self.at_once]
        self._owed.difference_update(ids)
        found: list[Entry | None] = []
        for start in range(0, len(ids), 50):
            found += await together(self._queue.get.op(id) for id in ids[start : start + 50])
        await self._read_extra()
        ends = [self._end(id, entry) for id, entry in zip(ids, found, strict=True)]
        return [died for died in ends if died is not None]

    async def _read_extra(self) -> None:
        """Hear what entries don't say themselves, once they were looked at."""

    def _end(self, id: str, entry: Entry | None) -> bool | None:
        """Whether it died, if it ended; None: it is followed on, or not any more."""
        since_ms = self._since.pop(id)
        self._failing.discard(id)
        if entry is None or entry.state == "done":
            return False
        if entry.state == "dead":
            return True if self._died_since(entry, since_ms) else None
        if entry.state in ("waiting", "delayed") and self._scheduled_again(entry):
            return False
        if entry.state != "trash":
            self._since[id] = since_ms
            if self._fails(entry):
                self._failing.add(id)
        return None

    def _died_since(self, entry: Entry, since_ms: int) -> bool:
        """Whether it died since; else an undo has put it back."""
        return entry.since_ms is None or entry.since_ms >= since_ms

    def _scheduled_again(self, entry: Entry) -> bool:
        """Whether it is there for its next run, ordered while it was being worked on: this one is
        over then. Of what was replayed, or given back, the record says that somebody had it."""
        return entry.op is None and not entry.handed

    def _fails(self, entry: Entry) -> bool:
        return bool(entry.attempts)  # a replay has both counts begin afresh


class ForeignReplayTracker(ReplayTracker):
    """In other programs' layouts: each look reads lists there, their times are too coarse to tell
    when an entry died, and they go on counting its attempts."""

    at_once: ClassVar[int] = 20

    def __init__(self, queue: Queue[Any]) -> None:
        super().__init__(queue)
        self._lost: set[str] = set()

    def forget(self) -> None:
        super().forget()
        self._lost.clear()

    def _died_since(self, entry: Entry, since_ms: int) -> bool:
        return True

    def _scheduled_again(self, entry: Entry) -> bool:
        return False

    def _fails(self, entry: Entry) -> bool:
        # That its worker was lost is only said of what another worker of ours has.
        if entry.lost:
            self._lost.add(entry.id)
        # Sidekiq's retry set: from the queue it was put into only a failure leads there.
        return entry.called == "retry" or entry.id in self._lost
