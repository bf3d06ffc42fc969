"""What a rule finds, how bad it is, and from which value on: the words of all rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from redisq_ops.core.model.row_fields import UNPRINTED, Text

if TYPE_CHECKING:
    from ..inspect.overview import QueueRow


HOUR: Final = 60
"""minutes of rates that an estimate of the time to drain rests on"""
UNKNOWN_WORK: Final = 1 << 53
"""of a server in trouble, or a queue that can't be read: any number of entries may be affected"""


class Severity(IntEnum):
    """How bad a trouble is: a warning is worth a look, critical means that work isn't done."""

    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong with a queue."""

    severity: Severity
    """how bad it is"""
    rule: str
    """[rule](../how-to/check-with-a-monitor.md#the-rules)"""
    reason: Text
    """what is wrong"""
    work: int = field(default=0, metadata=UNPRINTED)
    """how many entries it affects, as far as is known"""
    for_ms: int = field(default=0, metadata=UNPRINTED)
    """for how long, as far as is known"""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which value on a queue is in trouble; times in ms."""

    no_worker_ms: int = 60_000
    """no worker asks for work that there is; an idle worker asks every few seconds"""
    overdue_ms: int = 60_000
    """a lease has expired and nobody took its entry back"""
    stalled_ms: int = 300_000
    """entries wait and workers ask, but nothing is settled"""
    minutes: int = 5
    """length of the period in which failures and dead entries are counted"""
    dead: int = 10
    """dead entries in that period"""
    dead_letters: int = 1
    """dead entries that nobody acknowledged, however old"""
    many_dead_letters: int = 1000
    """as many of them are critical"""
    held_ms: int = 900_000
    """a consumer without heartbeats holds entries and asked for nothing since"""
    attempts: int = 20
    """attempts in that period that are needed to judge the share of failures"""
    failing_percent: int = 50
    """per cent of these that failed"""
    failures: int = 10
    """failures of one entry that is tried again"""
    lost: int = 2
    """workers that vanished while they held one entry"""
    oldest_ms: int = 3_600_000
    """the oldest waiting entry has waited"""
    depth: int | None = None
    """waiting entries; None: any number is fine"""
    growth: int | None = None
    """entries that arrived minus those settled, in that period; None: any number is fine"""

    def off(self, rule: str) -> bool:
        """Whether a rule has no threshold."""
        return {"deep": self.depth, "growing": self.growth}.get(rule, 0) is None

    @property
    def rate_minutes(self) -> int:
        """How many minutes of rates the rules look at; the last one is still running."""
        return min(HOUR, max(self.minutes, -(-self.no_worker_ms // 60_000)) + 1)

    def lately(self, series: tuple[int, ...]) -> tuple[int, ...]:
        """The latest minutes of a series of counts; the last one is still running."""
        return series[-self.minutes - 1 :]


USUAL: Final = Thresholds()


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found."""

    reason: str
    work: int = 0
    for_ms: int = 0
    severity: Severity | None = None
    """None: that of the rule"""


Rule = Callable[["QueueRow", int, Thresholds], Iterator[Finding]]
