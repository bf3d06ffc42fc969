"""The dead letters of all queues for a screen that is refreshed: the latest of each queue.

A queue is read again when the number of its dead letters changed, and otherwise in turn; a refresh
reads few queues, and of each a bounded number of entries and bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Counts
from redisq_ops.core.redis.operation import apart, together

from ..deployment import Deployment
from ..groups.error_groups import ErrorGroup, ErrorGroups
from ..groups.group_by import GroupBy, group_by
from ..redaction import Redaction
from .overview import Overview, QueueRow, problem_text
from .queue_snapshot import latest_dead
from .rolling_overview import SLOW_S, RollingOverview
from .snapshot import BAR_WIDTHS, DeadLetters, Snapshot, Viewport

LATEST: Final = 250
"""dead letters that are read of a queue"""
PROBED: Final = 20
"""with payloads: those read first, to learn their sizes"""
BYTES: Final = 1 << 20
"""about how many bytes of payloads are read of a queue"""
QUEUES: Final = 10
"""queues that a refresh reads; fewer on a slow link"""
AGAIN_MS: Final = 30_000
"""a queue whose number of dead letters stays the same is read again after this time"""
WORST: Final = 5
"""queues of whose dead letters the overview shows the largest groups"""
LARGEST: Final = 3
"""groups that it shows"""
FEW: Final = 2
"""queues that a refresh of the overview reads for them"""
LOOKS: Final = 2 * -(-WORST // FEW)
"""refreshes after which all of them were read, each in two steps, unless others took their place"""
CHANGED_MS: Final = 5000
"""after this time it reads a queue again whose number of dead letters changed"""
LATELY_MS: Final = 3_600_000
KEPT: Final = 100
"""groups that are kept of a queue"""
_BY_TASK: Final = group_by("error,task")
_FITTING: Final = 0.95
"""share of the deaths that the chart shows: one long ago is left out"""


@dataclass(slots=True)
class _Kept:
    """What was read of one queue."""

    dead: int | None
    """how many dead letters it had then; None: unknown"""
    read_ms: int
    problem: str = ""
    groups: tuple[ErrorGroup, ...] = ()
    others: int = 0
    """dead letters of the groups that were not kept"""
    looked: int = 0
    total: int = 0
    exact: bool = True
    deaths: array[int] = field(default_factory=lambda: array("q"))
    """when the entries died (ms)"""
    mean: int | None = None
    """bytes of a payload; None: no payload was read yet"""
    unfinished: bool = False
    """only the first few were read so far"""

    def about(self, group: ErrorGroup) -> float:
        """How many entries a group has if those that were read are like the others."""
        return group.count * max(1.0, self.total / max(1, self.looked))


class DeadReader:
    """Reads what the view of all dead letters shows."""

    def __init__(self, deployment: Deployment, overview: RollingOverview) -> None:
        self._deployment = deployment
        self._overview = overview
        self._kept: dict[str, _Kept] = {}
        self._by: GroupBy | None = None
        self._room = QUEUES
        self._looks = 0
        """how often `worst` read"""
        self._slow_ms = 0
        """when `worst` read slowly; 0: never"""

    async def read(
        self, column: str, bars: int, redaction: Redaction
    ) -> tuple[Overview, DeadLetters, int]:
        """The overview, the dead letters grouped by error, task and ``column``, and how many queues
        were not read yet. ``bars``: bars of the chart."""
        self._divide(column)
        # The numbers of the first ones, the largest at first, are as they are now.
        seen = await self._overview.read([*self._kept][:QUEUES])
        rows = {row.name: row for row in seen.rows if row.counts and row.counts.of("dead") != 0}
        self._kept = {name: kept for name, kept in self._kept.items() if name in rows}
        due, began = self._due(list(rows.values()), seen.now_ms), monotonic()
        await self._look(due, self._room, seen.now_ms, redaction)
        slow = monotonic() - began > SLOW_S
        self._room = max(1, self._room // 2) if slow else min(QUEUES, 2 * self._room)
        left = [row for row in rows.values() if self._is_unread(row)] if due else []
        unread = {row.name: why for row in seen.rows if (why := _why_unread(row))}
        return seen, self._summed(unread, len(left), seen.now_ms, bars), len(left)

    async def worst(self, column: str, redaction: Redaction) -> tuple[ErrorGroup, ...]:
        """The largest groups of the queues with the worst trouble of dead letters, as the overview
        was last read, without acknowledged ones: first those of which an entry died within
        `LATELY_MS`. It reads `FEW` queues
        at most, and each again after `AGAIN_MS`, or `CHANGED_MS` if its number changed; none on a
        slow link, and none for `AGAIN_MS` after a slow read."""
        self._divide(column)
        rows, now = self._overview.worst_dead(WORST), self._overview.now
        due = [
            row
            for row in self._due(rows, now)
            if self._is_unread(row) or not 0 <= now - self._kept[row.name].read_ms < CHANGED_MS
        ]
        if due and not self._overview.slow and not 0 <= now - self._slow_ms < AGAIN_MS:
            self._looks, began = self._looks + 1, monotonic()
            await self._look(due, FEW, now, redaction)
            if monotonic() - began > SLOW_S:
                self._slow_ms = now
        groups = [
            (kept.about(group), group)
            for row in rows
            if (kept := self._kept.get(row.name))
            for group in kept.groups
            if not _is_known(group, row, now)
        ]
        groups.sort(key=lambda pair: (now - (pair[1].last_ms or 0) > LATELY_MS, -pair[0]))
        return tuple(group for _, group in groups[:LARGEST])

    @property
    def begins(self) -> bool:
        """Whether `worst` has not read all of its first queues once."""
        if self._looks >= LOOKS or self._overview.slow or self._slow_ms:
            return False
        return any(self._is_unread(row) for row in self._overview.worst_dead(WORST))

    def _divide(self, column: str) -> None:
        """Group by error, task and this field; what was grouped otherwise is dropped."""
        by = group_by(",".join(filter(None, ("error", "task", column))))
        if self._by is None or by.names != self._by.names:
            self._kept, self._by = {}, by

    async def _look(
        self, due: Sequence[QueueRow], most: int, now: int, redaction: Redaction
    ) -> None:
        """Read the first ``most`` of these queues."""
        queues = self._open() if due else {}
        chosen = [(row, queues[row.name]) for row in due if row.name in queues][:most]
        read = await together(apart(self._queue(*one, now, redaction)) for one in chosen)
        for (row, _), found in zip(chosen, read, strict=True):
            if isinstance(found, Exception):
                found = _Kept(row.of("dead"), now, problem_text(found))
            self._kept[row.name] = found

    def _is_unread(self, row: QueueRow) -> bool:
        """Whether it was not read yet, or only its first few entries."""
        kept = self._kept.get(row.name)
        return kept is None or kept.unfinished

    def _due(self, rows: Sequence[QueueRow], now: int) -> list[QueueRow]:
        """The queues to be read: first new ones, the largest first, then changed ones, then those
        that were read longest ago."""
        urgency: dict[str, tuple[int, int]] = {}
        for row in rows:
            kept, dead = self._kept.get(row.name), row.of("dead")
            if kept is None or self._is_unread(row):
                urgency[row.name] = (0, -(dead or 0))
            elif kept.dead != dead:
                urgency[row.name] = (1, kept.read_ms)
            elif not 0 <= now - kept.read_ms < AGAIN_MS:
                urgency[row.name] = (2, kept.read_ms)
        found = [row for row in rows if row.name in urgency]
        return sorted(found, key=lambda row: urgency[row.name])

    def _open(self) -> dict[str, Queue[Any]]:
        """The queues by name. No entry is in two of them: one that stands for another program's
        whole deployment leaves out the queues that are registered separately."""
        queues = {entry.name: queue for entry, queue in self._overview.opened}
        for entry, queue in self._overview.opened:
            if queue.whole and (parts := [one for one in queues.values() if queue.covers(one)]):
                queues[entry.name] = self._deployment.open(entry)
                queues[entry.name].leave_out(parts)
        return queues

    async def _queue(
        self, row: QueueRow, queue: Queue[Any], now: int, redaction: Redaction
    ) -> _Kept:
        assert self._by is not None
        before, needs = self._kept.get(row.name), self._by.needs
        mean = before.mean if before else None
        most = LATEST
        if "payload" in needs:
            most = PROBED if mean is None else max(1, min(LATEST, BYTES // max(1, mean)))
        # The number of a whole deployment counts the queues that are left out.
        counts: Counts | None = None if queue.whole else row.counts
        bare = Snapshot(Viewport("dead", needs=needs), now, counts=counts)
        found = await latest_dead(queue, bare, most)
        entries = [entry for entry in found.entries if not entry.problem]
        groups = ErrorGroups(KEPT, redaction, by=self._by, times=True)
        groups.add(entries, row.name)
        if not any(value for group in groups.ranked() for value in group.values[1:]):
            # No entry has the field: the rows' filters need not exclude it.
            groups = ErrorGroups(KEPT, redaction, by=_BY_TASK, times=True)
            groups.add(entries, row.name)
        sizes = [len(entry.payload) for entry in entries if entry.payload is not None]
        read_all = found.exact and len(found.entries) >= found.total
        ranked = tuple(replace(one, exact=one.exact and read_all) for one in groups.ranked())
        return _Kept(
            row.of("dead"),
            now,
            groups=ranked,
            others=groups.others.count,
            looked=len(entries),
            total=found.total,
            exact=found.exact,
            deaths=array("q", (e.since_ms for e in entries if e.since_ms is not None)),
            mean=sum(sizes) // len(sizes) if sizes else 0,
            unfinished=most == PROBED and mean is None and found.total > len(found.entries) >= most,
        )

    def _summed(self, unread: dict[str, str], left: int, now: int, bars: int) -> DeadLetters:
        kept = [one for one in self._kept.values() if not one.problem]
        unread |= {name: one.problem for name, one in self._kept.items() if one.problem}
        ranked = sorted(
            ((one.about(group), group) for one in kept for group in one.groups),
            key=lambda pair: (-pair[0], -(pair[1].last_ms or 0)),
        )
        deaths = [at for one in kept for at in one.deaths]
        step, numbers = death_bars(deaths, now, bars)
        return DeadLetters(
            tuple(group for _, group in ranked),
            sum(one.others for one in kept),
            sum(one.looked for one in kept),
            sum(one.total for one in kept),
            all(one.exact for one in kept),
            sum(one.total > 0 for one in kept),
            left,
            unread,
            step,
            numbers,
            len(deaths) - sum(numbers),
        )


def _is_known(group: ErrorGroup, row: QueueRow, now: int) -> bool:
    """Whether an operator knows of all of its entries."""
    known, last = row.acknowledged, group.last_ms
    return known is not None and known.holds(now) and last is not None and last <= known.at_ms


def _why_unread(row: QueueRow) -> str | None:
    return row.problem if row.counts is None else row.counts.problem


def death_bars(deaths: Sequence[int], now: int, bars: int) -> tuple[int, tuple[int, ...]]:
    """The width (ms) of a bar, and the deaths in each, the present one last."""
    ages = sorted(max(0, now - at) for at in deaths)
    far = ages[min(len(ages) - 1, int(len(ages) * _FITTING))] if ages else 0
    step = next((step for step in BAR_WIDTHS if far < step * (bars - 1)), BAR_WIDTHS[-1])
    end, numbers = now // step, [0] * bars
    for at in deaths:
        if 0 <= (ago := end - min(at, now) // step) < bars:
            numbers[bars - 1 - ago] += 1
    return step, tuple(numbers)
