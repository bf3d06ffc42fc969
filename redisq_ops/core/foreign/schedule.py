"""A schedule by which another program starts jobs, as it keeps it in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import islice, takewhile
from typing import Any

from ..model.errors import BadInput

LATE_MS = 120_000
"""how long after its time a run isn't late: programs look for what is due every 30 or 60 s"""
_SPANS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


@dataclass(frozen=True, slots=True)
class OwnersSchedule:
    """What is unknown is None: not every program keeps every part."""

    name: str
    program: str
    """the program that starts the jobs: the queue's owner, or an addition to it"""
    expression: str | None = None
    """as the program writes it; None where ``every_ms`` says it all"""
    zone: str | None = None
    """the zone of the expression's times; None: that of the program's processes, if any"""
    every_ms: int | None = None
    next_ms: int | None = None
    run_ms: int | None = None
    next_id: str | None = None
    """the delayed entry that is its next run, where there is one"""
    paused: bool = False
    task: str | None = None
    payload: bytes | None = None
    problem: str | None = None
    kept: bool = True
    """whether the program itself keeps ``next_ms``, and so tells what it missed"""
    refusals: Mapping[str, str] = field(default_factory=dict, compare=False)
    """see `ScheduleProgram.refusals`"""
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)
    """see `ScheduleProgram.notes`"""
    record: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """what was read, for changes: see the program's `change`"""

    @property
    def run(self) -> None:
        """The id of its latest run, which is unknown."""

    @property
    def spec(self) -> None:
        """Its definition as one of ours: it has none."""

    @property
    def cron(self) -> str | None:
        if self.expression is not None or self.every_ms is None:
            return self.expression
        return f"every {span(self.every_ms)}"

    @property
    def digest(self) -> str:
        """SHA-1 of all parts except times; it shows whether somebody changed it."""
        read = (self.name, self.program, self.cron, self.zone, self.paused, self.task, self.payload)
        return sha1(repr(read).encode()).hexdigest()

    def overdue(self, now_ms: int) -> bool | None:
        """Whether its next run should have begun; None: unknown."""
        if self.paused:
            return False
        if self.next_ms is None or not self.kept:
            return None
        return self.next_ms + LATE_MS < now_ms

    def missed(self, now_ms: int, most: int) -> int | None:
        """How many of its times passed without a run; counts up to ``most``. None: unknown."""
        overdue = self.overdue(now_ms)
        if not overdue or self.next_ms is None:
            return None if overdue is None else 0
        if self.every_ms:
            return min(most, 1 + (now_ms - self.next_ms) // self.every_ms)
        try:
            times = self.times(self.next_ms - 1)
            return sum(1 for _ in islice(takewhile(lambda at: at < now_ms, times), most))
        except BadInput:
            return None

    def times(self, after_ms: int) -> Any:
        """The times (ms UTC) of its expression after ``after_ms``. Raises `BadInput` where they are
        unknown: no zone is named, or the expression is no cron expression of five fields."""
        from ..queues.delay.periodic import Periodic, slots

        if self.zone is None or self.expression is None:
            raise BadInput("the zone of its times is not in Redis")
        return slots(Periodic(self.name, self.expression, zone=self.zone), after_ms)


def span(ms: int) -> str:
    """``15m``, ``1h 30m``."""
    parts = []
    for unit, size in _SPANS:
        count, ms = divmod(ms, size)
        parts += [f"{count}{unit}"] if count else []
    return " ".join([*parts, *([f"{ms}ms"] if ms or not parts else [])])
