"""What the charts show of the past, for one queue or for all."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.redis.operation import attempt, together

from ..change import audit_log
from ..change.audit_log import Operation
from ..deployment import Deployment
from .kept_rates import MINUTE_MS, KeptRates
from .overview import Overview, queue_rates
from .rolling_overview import MINUTES, RollingOverview
from .snapshot import ChartData, ChartScope

OPERATIONS = 30
"""latest changes that are shown"""
LOG_MS = 10_000
"""the changes in all queues are at most this old"""
DAY = 24 * 60
QUEUES = 10
"""queues whose day one refresh reads, if the charts show all queues"""


class ChartReader:
    """Reads what charts show, and keeps the minutes that are over."""

    def __init__(self, deployment: Deployment, overview: RollingOverview) -> None:
        self._deployment = deployment
        self._overview = overview
        self._rates = {MINUTES: KeptRates(MINUTES), DAY: KeptRates(DAY)}
        self._operations: tuple[Operation, ...] = ()
        self._logged_ms: int | None = None
        self._day = _Day()

    async def of_queue(
        self, queue: Queue[Any], entry: Registered, now: int, scope: ChartScope
    ) -> ChartData:
        """The rates of a queue, and the changes of its audit log."""
        rates, operations = await together(
            self._rates[scope.minutes].read(queue, entry, now),
            audit_log.last(queue, OPERATIONS),
        )
        return ChartData(scope, rates or Rates(), tuple(operations))

    async def of_all(self, scope: ChartScope) -> tuple[Overview, ChartData]:
        """The rates of all queues; a day's rates are of the queues read so far, some per
        refresh."""
        asked = self._overview.now
        more = self._day.missing(self._overview) if scope.minutes == DAY else []
        seen, days, _ = await together(
            self._overview.read(()),
            together(attempt(queue_rates(q, asked, DAY)) for _, q in more),
            self._read_log(),
        )
        hour = Rates.total(row.rates for row in seen.rows if row.rates is not None)
        if scope.minutes != DAY or not hour.arrived:
            return seen, ChartData(scope, hour, self._operations)
        self._day.go_on(seen.now_ms)
        for (entry, _), day in zip(more, days, strict=True):
            self._day.add(entry, None if isinstance(day, Exception) else day, asked)
        opened = {entry for entry, _ in self._overview.opened}
        rates, read = self._day.ending(hour), len(self._day.read & opened)
        return seen, ChartData(scope, rates, self._operations, read, len(opened))

    async def _read_log(self) -> None:
        now = self._overview.now
        if self._logged_ms is None or not 0 <= now - self._logged_ms < LOG_MS:
            found = await audit_log.log(self._deployment, OPERATIONS)
            self._operations, self._logged_ms = tuple(found.operations), now


class _Day:
    """The sum of all queues' rates over a day.

    The last hour is from the overview. The hours before are read queue by queue, and added; a
    minute that leaves the last hour keeps its rates.
    """

    def __init__(self) -> None:
        self.read: set[Registered] = set()
        self._rates = Rates.zero(DAY)
        self._minute = self._hour = 0
        """the last minute of the rates, and the first minute that is from the overview"""

    def missing(self, overview: RollingOverview) -> list[tuple[Registered, Queue[Any]]]:
        return [one for one in overview.opened if one[0] not in self.read][:QUEUES]

    def go_on(self, now: int) -> None:
        """Let the rates end with the minute of ``now``."""
        minute = now // MINUTE_MS
        passed = minute - self._minute
        if 0 <= passed < DAY:
            self._rates = self._rates.continued(Rates.zero(passed), passed)
        else:
            self.read, self._rates = set(), Rates.zero(DAY)
            self._hour = minute - MINUTES + 1
        self._minute = minute

    def add(self, entry: Registered, rates: Rates | None, asked_ms: int) -> None:
        """Add a queue's rates from before the overview's hour; they end at ``asked_ms``."""
        self.read.add(entry)
        if rates is not None:
            passed = self._minute - asked_ms // MINUTE_MS
            whole = Rates.total([Rates.zero(DAY), rates]).continued(Rates.zero(passed), passed)
            before = max(0, DAY - 1 - (self._minute - self._hour))
            rest = (0,) * (DAY - before)
            parts = (part[:before] + rest for part in whole.series)
            self._rates = Rates.total([self._rates, Rates(*parts)])

    def ending(self, hour: Rates) -> Rates:
        """The day that ends with this hour."""
        self._rates = self._rates.continued(hour, 0)
        return self._rates
