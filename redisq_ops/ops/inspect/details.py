"""Everything known about one queue, request or entry, at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.optional_features import (
    HasClients,
    HasConsumerGroups,
    HasPeriodicEntries,
    HasPriorityLevels,
    HasRequests,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.attachment import Attachment
from redisq_ops.core.model.entry import Checkup, Clients, Consumer, Counts, Entry, Level, Request
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.queues.request.records import found
from redisq_ops.core.queues.request.stream import PendingSubRequest
from redisq_ops.core.redis.operation import attempt, together

from ..change import audit_log
from ..change.audit_log import Operation
from ..change.control import QueueSetting, queue_settings
from ..hint import hint
from ..required_features import requests_of
from .flow import FlowMember, flow
from .history import PAGE, EntryHistory, history_of
from .periodic import PeriodicStatus, periodic_status

LISTED = 100
"""clients of a queue, or unsettled entries of a request, that are read"""


@dataclass(frozen=True, slots=True)
class QueueDetails:
    """A queue: counts, settings, and requests if it has any."""

    queue: Queue[Any]
    now_ms: int
    counts: Counts
    settings: tuple[QueueSetting, ...]
    history: int
    """number of history events"""
    requests: tuple[int, ...]
    """(open, settled and still kept); empty for a kind of queue without requests"""
    levels: tuple[Level, ...]
    consumers: tuple[Consumer, ...]
    """of all groups, in a kind of queue whose groups have their own consumers"""
    checkup: Checkup
    """what a quick check finds wrong"""
    clients: Clients
    """the first 100 clients by name; empty except in fair queues"""
    options: dict[str, str]
    """how it was created, for kinds of queues that have variants"""
    periodic: tuple[PeriodicStatus, ...] | None = None
    """its periodic entries; None: the kind has none"""


@dataclass(frozen=True, slots=True)
class PendingEntry:
    """A pending entry, and the idle time in the stream's own pending list."""

    entry: Entry
    idle_ms: int | None


@dataclass(frozen=True, slots=True)
class RequestDetails:
    """A request, its stream and group, and which consumer has which entry."""

    queue: Queue[Any]
    now_ms: int
    request: Request
    stream: str
    length: int
    consumers: tuple[Consumer, ...]
    pending: tuple[PendingEntry, ...]
    """the first 100 by number"""
    differences: tuple[tuple[str, int, str], ...]
    """where the stream's pending list differs from the request's count: (consumer, number, why)"""
    history: EntryHistory


@dataclass(frozen=True, slots=True)
class EntryDetails:
    """An entry in any state."""

    queue: Queue[Any]
    now_ms: int
    entry: Entry
    idle_ms: int | None
    history: EntryHistory
    operation: Operation | None = None
    """the operator's change that touched it last, if the audit log still has it"""
    flow: tuple[FlowMember, ...] | None = ()
    """the entries that wait for each other with it, as they are drawn; None: they can't be read"""
    attachments: tuple[Attachment, ...] = ()
    """its result, progress, logs"""

    @property
    def content_bytes(self) -> int:
        """Bytes of its payload and attachments."""
        return sum(map(len, [self.entry.payload or b"", *(a.content for a in self.attachments)]))


async def queue_details(queue: Queue[Any]) -> QueueDetails:
    """Read a queue, in a few round trips."""
    now = await queue.now.op()
    counts, settings, history = await together(
        queue.full_counts.op(now),
        queue_settings(queue),
        queue.history_length.op(),
    )
    requests: list[int] = []
    levels: list[Level] = []
    if isinstance(queue, HasRequests):
        totals = requests_of(queue).requests_total
        requests = await together([totals.op(False), totals.op(True)])
    if isinstance(queue, HasPriorityLevels):
        levels = await queue.levels.op()
    consumers = await queue.consumers.op("") if isinstance(queue, HasConsumerGroups) else []
    checkup = await queue.checkup.op()
    clients = await queue.clients.op(0, LISTED) if isinstance(queue, HasClients) else Clients()
    options = await queue.creation_options.op()
    periodic = await periodic_status(queue) if isinstance(queue, HasPeriodicEntries) else None
    return QueueDetails(
        queue,
        now,
        counts,
        tuple(settings),
        history,
        tuple(requests),
        tuple(levels),
        tuple(consumers),
        checkup,
        clients,
        options,
        None if periodic is None else tuple(periodic),
    )


async def request_details(queue: Queue[Any], id: str, window: int = PAGE) -> RequestDetails:
    """Read a request; `NotFound` if there is none with that id.

    ``window``: history events searched.
    """
    requests = requests_of(queue)
    record, now, consumers, held = await together(
        requests.request.op(id),
        queue.now.op(),
        requests.consumers.op(id),
        requests.unsettled.op(id, LISTED),
    )
    request = found(record, id, queue.name)
    ids = [entry_id for entry_id, state in held if state == "pending"]
    entries, rows, stream, history = await together(
        together(queue.get.op(entry_id) for entry_id in ids),
        requests.held.op(id, [_number(entry_id) for entry_id in ids]),
        requests.stream_of.op(id),
        history_of(queue, id, window),
    )
    pending = tuple(
        PendingEntry(entry, row.idle_ms if row else None)
        for entry, row in zip(entries, rows, strict=True)
        if entry is not None and entry.state == "pending"
    )
    return RequestDetails(
        queue,
        now,
        request,
        stream.key,
        stream.length,
        tuple(consumers),
        pending,
        tuple(differences(request, consumers)),
        history,
    )


async def entry_details(queue: Queue[Any], id: str, window: int = PAGE) -> EntryDetails:
    """Read an entry in any state; `NotFound` if there is none with that id."""
    entry, now, history = await together(
        queue.get.op(id), queue.now.op(), history_of(queue, id, window)
    )
    if entry is None:
        raise await _no_entry(queue, id)
    row, operation, linked, attachments = await together(
        _pending_row(queue, id),
        _last_change(queue, entry),
        attempt(flow(queue, entry)),
        _attachments(queue, entry),
    )
    members = None if isinstance(linked, Exception) else linked
    idle_ms = row.idle_ms if row else None
    return EntryDetails(queue, now, entry, idle_ms, history, operation, members, attachments)


async def _attachments(queue: Queue[Any], entry: Entry) -> tuple[Attachment, ...]:
    """What is kept beside an entry; if it can't be read, why."""
    found = await attempt(queue.attachments.op(entry))
    if isinstance(found, Exception):
        return (Attachment("attachments", b"", str(found)),)
    return tuple(found)


async def _no_entry(queue: Queue[Any], id: str) -> NotFound:
    if isinstance(queue, HasPeriodicEntries) and await queue.get_periodic.op(id):
        command = hint("periodic", "ls", queue.name)
        return NotFound(f"{queue.name}/{id} is a periodic entry, not an entry: use {command}")
    return NotFound(f"no entry {id} in queue {queue.name}")


async def _pending_row(queue: Queue[Any], id: str) -> PendingSubRequest | None:
    if not isinstance(queue, HasRequests):
        return None
    rows: list[PendingSubRequest | None] = await requests_of(queue).held.op(
        id.rpartition("/")[0], [_number(id)]
    )
    return rows[0]


async def _last_change(queue: Queue[Any], entry: Entry) -> Operation | None:
    return None if entry.op is None else await audit_log.known(queue, entry.op)


def _number(id: str) -> int:
    return int(id.rpartition("/")[2])


def differences(request: Request, consumers: list[Consumer]) -> list[tuple[str, int, str]]:
    """Where the consumers' pending entries don't add up to the request's: (name, number, why)."""
    held = sum(consumer.pending for consumer in consumers)
    if held == request.pending:
        return []
    why = (
        f"the request counts {request.pending} pending: it changed while it was read, or run "
        "redisq fsck"
    )
    return [("consumers", held, why)]
