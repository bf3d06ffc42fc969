"""Consumers: what each holds and for how long, and which are silent.

A group's *lag* is what has not been delivered to it, *pending* what has been delivered and is not
settled. A growing lag needs more workers; growing pending means that workers are stuck.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redisq_ops.core.engine.optional_features import HasConsumerGroups, HasConsumers
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.consumer_load import (
    NOBODY,
    PENDING_PAGE,
    GroupLoad,
    PendingDelivery,
)
from redisq_ops.core.model.entry import Consumer, Failure
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.redis.operation import together

from ..terminal import entries

DELIVERIES = (1, 2, 3, 5, 10)
"""rows of the heat map: entries with at least this many deliveries, below the next row's"""
AGES_MS = (60_000, 600_000, 3_600_000, 86_400_000)
"""columns of the heat map: held for less than this; one more column for longer"""
SILENT_MS = 300_000
"""a consumer that holds entries is silent after this time without activity"""
POISON = 10
"""deliveries from which on an entry is suspected to kill its consumers"""


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """One consumer of a group, from the deliveries examined."""

    name: str
    pending: int
    idle_ms: int | None
    """since it last took or acknowledged; None: only its leases are known"""
    oldest_ms: int | None
    """how long it has held its oldest entry"""
    late: int | None
    """how many of its leases have expired; None: this kind of queue has no leases"""
    silent_ms: int | None
    """how long it has been silent; None: it is not silent, or holds nothing"""
    exact: bool = True
    """False: it may hold more, as not all deliveries were looked at"""

    @property
    def holds(self) -> str:
        """How many entries it holds, in words."""
        return f"{'' if self.exact else 'at least '}{entries(self.pending)}"


@dataclass(frozen=True, slots=True)
class ConsumerReport:
    """Who holds what in a queue or one of its groups, from the first ``looked`` of ``pending``
    deliveries."""

    queue: str
    group: str | None
    loads: tuple[GroupLoad, ...]
    consumers: tuple[ConsumerStatus, ...]
    heat: tuple[tuple[int, ...], ...]
    """number of entries: a row for each of `DELIVERIES`, a column for each age"""
    poison: tuple[PendingDelivery, ...]
    looked: int
    pending: int
    held: tuple[PendingDelivery, ...] = ()
    """those that were looked at, held longest first; a recording has none"""
    errors: Mapping[str, Failure] = field(default_factory=dict)
    """id -> its latest error, of those that failed before; a recording has none"""


async def consumer_reports(
    queue: Queue[Any], group: str | None = None, *, silent_ms: int = SILENT_MS, poison: int = POISON
) -> list[ConsumerReport]:
    """A report for each consumer group that reads the queue independently, otherwise one for all.

    `NotFound` if the queue has no ``group``.
    """
    loads = await queue.group_loads.op(group or "")
    if group is not None and not loads:
        raise NotFound(f"queue {queue.name} has no consumer group {group}")
    independent = independent_groups(queue)
    names = [load.group for load in loads] if independent or group is not None else [""]
    return await together(
        _report(
            queue,
            name,
            [load for load in loads if load.group == name or not independent],
            silent_ms,
            poison,
        )
        for name in names
    )


def independent_groups(queue: Queue[Any]) -> bool:
    """Whether every group reads all entries and has a pending list, as in a stream."""
    return isinstance(queue, HasConsumerGroups)


async def _report(
    queue: Queue[Any], group: str, loads: Sequence[GroupLoad], silent_ms: int, poison: int
) -> ConsumerReport:
    """``group``: '' for the whole queue."""
    known, held = await together(
        consumers_of(queue, group), queue.pending_deliveries.op(group, PENDING_PAGE, glance=True)
    )
    rows = held.rows
    heat = [[0] * (len(AGES_MS) + 1) for _ in DELIVERIES]
    for row in rows:
        if row.age_ms is not None and row.deliveries is not None:
            heat[_heat_row(row.deliveries)][sum(row.age_ms >= age for age in AGES_MS)] += 1
    return ConsumerReport(
        queue.name,
        group or None,
        tuple(loads),
        tuple(_statuses(rows, known, silent_ms, all=len(rows) >= held.total)),
        tuple(map(tuple, heat)),
        tuple(row for row in rows if row.deliveries is None or row.deliveries >= poison),
        len(rows),
        held.total,
        tuple(sorted(rows, key=lambda row: -(row.age_ms or 0))),
        held.errors,
    )


def _heat_row(deliveries: int) -> int:
    return max(0, sum(deliveries >= least for least in DELIVERIES) - 1)


async def consumers_of(queue: Queue[Any], group: str) -> list[Consumer]:
    """A group's consumers, without the group in their names; [] for a whole queue."""
    if not group or not isinstance(queue, HasConsumers):
        return []
    return [
        replace(consumer, name=consumer.name.removeprefix(f"{group}:"))
        for consumer in await queue.consumers.op(group)
    ]


def _statuses(
    rows: Sequence[PendingDelivery], known: Sequence[Consumer], silent_ms: int, *, all: bool
) -> Iterator[ConsumerStatus]:
    held: dict[str, list[PendingDelivery]] = {consumer.name: [] for consumer in known}
    for row in rows:
        held.setdefault(row.consumer or NOBODY, []).append(row)
    by_name = {consumer.name: consumer for consumer in known}
    for name, pending_deliveries in sorted(held.items()):
        consumer = by_name.get(name)
        lates = [row.late_ms for row in pending_deliveries if row.late_ms is not None]
        idle = consumer.idle_ms if consumer else None
        # A consumer that works extends its leases and takes nothing: leases before idle time.
        silence = min(lates) if lates else idle
        pending = consumer.pending if consumer else len(pending_deliveries)
        yield ConsumerStatus(
            name,
            pending,
            idle,
            max((row.age_ms for row in pending_deliveries if row.age_ms is not None), default=None),
            sum(late > 0 for late in lates) if lates else None,
            silence if pending and silence is not None and silence >= silent_ms else None,
            all or consumer is not None,
        )
