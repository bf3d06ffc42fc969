"""Follows replayed entries: whether they succeed or die again.

`Queue.replay_tracker` returns the tracker of a kind of queue. Most kinds look entries up by id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, ClassVar

from ..model.entry import Entry
from ..model.errors import WrongKind
from ..redis.operation import Description, attempt, in_batches
from .parallel_reads import ParallelReads

WATCHED = 1000
"""replayed entries that are followed at a time"""


class ReplayTracker:
    """Follows replayed entries by their ids, at most 1,000 at a time.

    While it follows 1,000 unsettled entries it ignores further ones.
    """

    at_once: ClassVar[int] = 200
    """entries that one `look` reads"""

    def __init__(self, queue: ParallelReads[Any]) -> None:
        self._queue = queue
        self._since: dict[str, int] = {}
        self._failing: set[str] = set()
        self._owed: set[str] = set()

    @property
    def failing(self) -> int:
        """Number of entries that failed again or lost their worker, and will be retried."""
        return len(self._failing)

    @property
    def unsettled(self) -> int:
        """Number of entries whose end isn't known yet."""
        return len(self._since)

    def add(self, ids: Sequence[str], at_ms: int) -> None:
        """Follow entries that were replayed; ``at_ms``: the server's time (ms) before that."""
        for id in ids[: WATCHED - len(self._since)]:
            self._since[id] = at_ms

    def forget(self) -> None:
        """Stop following all entries."""
        self._since.clear()
        self._failing.clear()
        self._owed.clear()

    def last_round(self) -> None:
        """Begin the last round: each entry is read once more, `remaining` counts down."""
        self._owed = set(self._since)

    @property
    def remaining(self) -> int:
        """Number of entries that the last round has yet to read."""
        return len(self._owed)

    async def look(self) -> list[bool]:
        """Read some of the unsettled entries, the next ones at the next call.

        Returns a bool for each that ended: True when it died again. Takes a fixed number of round
        trips.
        """
        ids = list(self._since)[: self.at_once]
        self._owed.difference_update(ids)
        found = await in_batches((self._read(id) for id in ids), 50)
        ends = [self._end(id, entry) for id, entry in zip(ids, found, strict=True)]
        return [died for died in ends if died is not None]

    def _read(self, id: str) -> Description[Entry | None]:
        found: Description[Entry | None] = self._queue.get.op(id)
        return found

    def _end(self, id: str, entry: Entry | None) -> bool | None:
        """True: it died again; False: it succeeded; None: neither is known."""
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
        """Whether it died after the replay; otherwise an undo put it back."""
        return entry.since_ms is None or entry.since_ms >= since_ms

    def _scheduled_again(self, entry: Entry) -> bool:
        """Whether it waits for a run that was scheduled while it was pending: then the replayed run
        is over. Otherwise its record would say that it was replayed, or that a consumer had it."""
        return entry.op is None and not entry.handed

    def _fails(self, entry: Entry) -> bool:
        return bool(entry.attempts)  # a replay resets both counts


class ForeignReplayTracker(ReplayTracker):
    """For other programs' layouts: they have no exact time of death, count attempts on after a
    replay, and each look reads whole lists."""

    at_once: ClassVar[int] = 20

    def __init__(self, queue: ParallelReads[Any], clock: Callable[[], float] = monotonic) -> None:
        """``clock``: seconds from any beginning."""
        super().__init__(queue)
        self._clock = clock
        self._lost: set[str] = set()
        self._unseen_since: dict[str, float] = {}
        self._between: set[str] = set()
        """entries in no list: a worker is between two steps of taking them"""

    def forget(self) -> None:
        super().forget()
        self._lost.clear()
        self._unseen_since.clear()
        self._between.clear()

    async def _read(self, id: str) -> Entry | None:
        found: Entry | Exception | None = await attempt(self._queue.get.op(id))
        self._between.discard(id)
        if isinstance(found, WrongKind):
            self._between.add(id)
            return None
        if isinstance(found, Exception):
            raise found
        return found

    def _end(self, id: str, entry: Entry | None) -> bool | None:
        if entry is None:
            now = self._clock()
            unseen_s = now - self._unseen_since.setdefault(id, now)
            if id in self._between or unseen_s * 1000 < self._queue.unseen_ms:
                self._since[id] = self._since.pop(id)  # behind the others
                return None
        self._unseen_since.pop(id, None)
        return super()._end(id, entry)

    def _died_since(self, entry: Entry, since_ms: int) -> bool:
        return True

    def _scheduled_again(self, entry: Entry) -> bool:
        return False

    def _fails(self, entry: Entry) -> bool:
        # Only entries that a worker of ours took have a count of lost leases.
        if entry.lost:
            self._lost.add(entry.id)
        # Only a failure leads from the queue to a later try.
        retried = entry.state == "delayed" and (entry.failures > 0 or entry.called == "retry")
        return retried or entry.id in self._lost
