"""How many dead letters each queue got since the user last looked at them in this dashboard."""

from __future__ import annotations

from redisq_ops.core.model.entry import Counts
from redisq_ops.ops.inspect.snapshot import Snapshot


class NewDead:
    """The number of dead letters of each queue when they were last on the screen; at first, the
    number that the dashboard began with. If some leave and others arrive, the arrivals are new."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def record(self, snapshot: Snapshot) -> None:
        """What this snapshot shows has been looked at."""
        view, queue, counts = snapshot.viewport.view, snapshot.viewport.queue, snapshot.counts
        if view in ("dead", "groups") and queue is not None and counts is not None:
            self._look(queue, counts)
        elif view == "dead-all":
            for row in snapshot.overview:
                self._look(row.name, row.counts)

    def _look(self, queue: str, counts: Counts | None) -> None:
        if counts is not None and (dead := counts.of("dead")) is not None:
            self._seen[queue] = dead

    def of(self, queue: str, dead: int | None) -> int:
        """How many came since then."""
        if dead is None:
            return 0
        self._seen[queue] = before = min(dead, self._seen.get(queue, dead))
        return dead - before
