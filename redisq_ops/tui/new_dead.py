"""How many dead letters each queue and error group got since the user last looked at them in this
dashboard."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redisq_ops.core.model.entry import Counts
from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import DEAD, DIM

if TYPE_CHECKING:
    from redisq_ops.ops.groups.error_groups import ErrorGroup


@dataclass(frozen=True, slots=True)
class NewInGroup:
    """How many entries of a group died since a time."""

    number: int
    exact: bool
    """False: at least so many; of others the time of death is unknown or was not read"""

    @property
    def cell(self) -> Cell:
        if not self.exact:
            return (f"≥{count(self.number)}", DEAD) if self.number else ("?", DIM)
        return (f"+{count(self.number)}", DEAD) if self.number else ""


class NewDead:
    """The number of dead letters of each queue when they were last on the screen, and the time; at
    first, the number and time with which the dashboard began. If some leave and others arrive, the
    arrivals are new."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._looked_ms: dict[str, int] = {}
        self._began_ms: int | None = None
        self._since_ms: dict[str, int] = {}
        """queue on screen -> when somebody looked at it before"""

    def record(self, snapshot: Snapshot) -> None:
        """What this snapshot shows has been looked at."""
        view, queue, now = snapshot.viewport.view, snapshot.viewport.queue, snapshot.now_ms
        if self._began_ms is None:
            self._began_ms = now
        looked: dict[str, Counts | None] = {}
        if view in ("dead", "groups") and queue is not None:
            looked = {queue: snapshot.counts}
        elif view == "dead-all":
            looked = {row.name: row.counts for row in snapshot.overview}
        self._since_ms = {name: self.since_ms(name, now) for name in looked}
        for name, counts in looked.items():
            self._looked_ms[name] = now
            if counts is not None and (dead := counts.of("dead")) is not None:
                self._seen[name] = dead

    def keep(self, queues: Collection[str]) -> None:
        """Forget all other queues: they are gone."""
        for known in (self._seen, self._looked_ms):
            for name in known.keys() - queues:
                del known[name]

    def of(self, queue: str, dead: int | None) -> int:
        """How many came since then."""
        if dead is None:
            return 0
        self._seen[queue] = before = min(dead, self._seen.get(queue, dead))
        return dead - before

    def since_ms(self, queue: str | None, now_ms: int) -> int:
        """When the dead letters of a queue were looked at before: while they are on the screen,
        the time before they came there."""
        began = now_ms if self._began_ms is None else self._began_ms
        name = queue or ""
        return self._since_ms.get(name, self._looked_ms.get(name, began))


def new_in_groups(
    groups: Sequence[ErrorGroup], all_read: bool, since_ms: int
) -> Iterator[NewInGroup | None]:
    """How many of each group of a queue died since then; ``all_read``: not only the latest. None:
    no times were kept of the group."""
    oldest = min((at for group in groups for at in group.times or ()), default=since_ms)
    for group in groups:
        times: Sequence[int] | None = group.times
        if times is None:
            yield None
            continue
        exact = len(times) == group.count and (all_read or oldest <= since_ms)
        yield NewInGroup(sum(at > since_ms for at in times), exact)
