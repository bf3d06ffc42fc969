"""JSON about consumers and worker processes."""

from __future__ import annotations

from typing import Literal, TypedDict

from redisq_ops.core.model.consumer_load import PendingDelivery
from redisq_ops.core.model.row_fields import Duration, Text, Time


class GroupLoad(TypedDict):
    name: str
    """group, in a request queue a request"""
    pending: int | None
    """entries delivered and not settled"""
    lag: int | None
    """entries not delivered yet"""
    again: int
    """entries that will run again and that no consumer holds"""


class ConsumerStatus(TypedDict):
    name: str
    """consumer"""
    pending: int
    """entries it holds"""
    exact: bool
    """`false`: it may hold more, and more of its leases may have expired: not all pending entries
    were read"""
    idle_ms: Duration | None
    """time since its last command"""
    oldest_age_ms: Duration | None
    """for how long it has held its oldest entry"""
    late: int | None
    """its leases that have expired; `null`: the layout has no leases"""
    silent: bool
    """whether it counts as silent"""
    silent_ms: Duration | None
    """for how long"""


class Heat(TypedDict):
    deliveries: list[int]
    """lower bounds of the rows of `counts`: number of deliveries"""
    ages_ms: list[Duration]
    """upper bounds of the columns of `counts`; the last column has none"""
    counts: list[list[int]]
    """pending entries by deliveries and by time held"""


class ConsumerReportOutput(TypedDict):
    """One object per queue, or per group of a plain stream."""

    queue: str
    group: str | None
    lag: int | None
    """entries not delivered to any consumer yet"""
    pending: int
    """entries delivered and not settled"""
    groups: list[GroupLoad]
    """load of each group"""
    consumers: list[ConsumerStatus]
    """consumers that hold entries"""
    heat: Heat
    """pending entries by deliveries and age"""
    poison: tuple[PendingDelivery, ...]
    """entries delivered too often"""
    scanned: int
    """pending entries that were read"""


class WorkerProcessOutput(TypedDict):
    queue: str
    """a queue of the program that registers the process, to name in `redisq workers rm`; the
    process may serve others"""
    name: str
    """process, as its owner registers it"""
    state: Literal["alive", "silent", "unknown", "unreadable"]
    """whether its heartbeat is recent"""
    quiet: bool | None
    """whether it takes no new jobs"""
    silent_ms: Duration | None
    """time since its last heartbeat"""
    since_ms: Time | None
    """when it started"""
    busy: int | None
    """jobs it works on"""
    jobs: list[str] | None
    """ids of these; `*` is one that is too large to be read in a list"""
    host: str
    pid: int | None
    """process id"""
    queues: list[str]
    """queues it serves"""
    problem: Text | None
    """why its record cannot be read"""
