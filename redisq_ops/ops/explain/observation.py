"""The reads behind an explanation: a queue, and one entry or request in it, at one moment.

Only reads, in a number of round trips that does not depend on the queue's size. Every search is
bounded and reports how far it went.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.optional_features import HasClients, HasPeriodicEntries, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Clients, Counts, Entry, Rates, Request, State
from redisq_ops.core.model.queue_position import QueuePosition
from redisq_ops.core.redis.operation import both, together

from ..change import audit_log
from ..change.audit_log import Operation
from ..change.unfinished import Unfinished, unfinished
from ..groups.fingerprint import fingerprint
from ..inspect.history import EntryHistory, history_of
from ..inspect.periodic import PeriodicStatus, periodic_status, status

HISTORY_EVENTS = 5000
"""history events searched for an id that does not exist any more"""
OPERATIONS = 50
"""latest audit log entries searched for a pause, a drain, a cancel or a removal"""
RATE_MINUTES = 5
"""length of the period whose rate estimates are based on"""
DEAD_COMPARED = 200
"""oldest dead entries among which those with the same error are counted"""
BLOCKERS_COMPARED = 100
"""requests or clients examined to find why a whole queue delivers nothing"""
_FIRST_OF: tuple[State, ...] = ("pending", "delayed")


@dataclass(frozen=True, slots=True)
class SameErrorEntries:
    """How many dead entries have the same error as one."""

    group: str
    number: int
    examined: int
    total: int
    """dead entries of the queue"""
    exact: bool = True
    """False: ``total`` counts only the entries seen"""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything an explanation is based on, read at one moment."""

    queue: Queue[Any]
    id: str | None
    """of an entry or a request; None: the queue itself"""
    now_ms: int
    counts: Counts
    rates: Rates
    settings: Mapping[str, str]
    entry: Entry | None
    request: Request | None
    position: QueuePosition
    first: Mapping[State, Entry | None]
    """the pending entry with the earliest deadline, the delayed entry with the earliest time"""
    history: EntryHistory
    operations: tuple[Operation, ...]
    """latest audit log entries, newest first"""
    same_error: SameErrorEntries | None
    unfinished: tuple[Unfinished, ...]
    """unfinished moves from this queue to others"""
    blockers: tuple[str, ...]
    """of a queue: sentences that say what keeps its waiting entries from delivery"""
    periodic: tuple[PeriodicStatus, ...] = ()
    """of a queue: its periodic entries; of an id: the periodic entry of that name"""


async def observe(queue: Queue[Any], id: str | None) -> Observation:
    """Read a queue, or an entry or request in it.

    Two round trips and the deepest of the parallel reads; up to four more through the history for
    an id that does not exist.
    """
    now = await queue.now.op()
    address = id or ""
    requests = [queue] if isinstance(queue, HasRequests) and id and "/" not in address else []
    (counts, rates), ((settings, position), (first, (found, (history, logs)))) = await both(
        both(queue.counts.op(now), queue.rates.op(now, RATE_MINUTES + 1)),
        both(
            both(queue.settings.op(), queue.queue_position.op(address)),
            both(
                together(queue.page.op(state, None, 1) for state in _FIRST_OF),
                both(
                    both(
                        together([] if requests or not id else [queue.get.op(address)]),
                        together(each.request.op(address) for each in requests),
                    ),
                    both(
                        history_of(queue, address),
                        both(audit_log.last(queue, OPERATIONS), unfinished(queue)),
                    ),
                ),
            ),
        ),
    )
    operations, moves = logs
    entry = found[0][0] if found[0] else None
    request = found[1][0] if found[1] else None
    if id and entry is None and request is None and not history.events:
        history = await history_of(queue, address, HISTORY_EVENTS)
    same_error = None
    if entry is not None and entry.state == "dead" and entry.error is not None:
        same_error = await _same_error(queue, entry)
    if entry is not None and entry.op and all(o.id != entry.op for o in operations):
        last_change = await audit_log.known(queue, entry.op)
        operations = [*operations, *([last_change] if last_change else [])]
    known = {operation.id for operation in operations}
    operations = [
        *operations, *(move.operation for move in moves if move.operation.id not in known)
    ]  # fmt: skip
    blockers = () if id else await _blockers(queue)
    periodic = () if entry or request else await _periodic(queue, address, now)
    first_entries = {
        state: page.entries[0] if page.entries else None
        for state, page in zip(_FIRST_OF, first, strict=True)
    }
    return Observation(
        queue, id, now, counts, rates, settings, entry, request, position, first_entries, history,
        tuple(operations), same_error, tuple(moves), blockers, periodic,
    )  # fmt: skip


async def _same_error(queue: Queue[Any], entry: Entry) -> SameErrorEntries:
    page = await queue.page.op("dead", None, DEAD_COMPARED)
    group = fingerprint(entry)
    groups = {dead.id: fingerprint(dead) for dead in page.entries} | {entry.id: group}
    number = sum(other == group for other in groups.values())
    return SameErrorEntries(group, number, len(groups), page.total, page.exact)


async def _periodic(queue: Queue[Any], name: str, now: int) -> tuple[PeriodicStatus, ...]:
    if not isinstance(queue, HasPeriodicEntries):
        return ()
    if not name:
        return tuple(await periodic_status(queue))
    found = await queue.get_periodic.op(name)
    return () if found is None else tuple(await status(queue, [found], now))


async def _blockers(queue: Queue[Any]) -> tuple[str, ...]:
    """Why the first hundred requests or clients of a queue get nothing delivered."""
    requests = (
        await queue.requests.op(0, BLOCKERS_COMPARED) if isinstance(queue, HasRequests) else []
    )
    clients = (
        await queue.clients.op(0, BLOCKERS_COMPARED) if isinstance(queue, HasClients) else Clients()
    )
    waiting = [request for request in requests if request.waiting]
    waiting_clients = [client for client in clients.clients if client.waiting]
    paused = sum(request.paused for request in waiting)
    full = sum(not r.paused and r.pending >= r.limit for r in waiting)
    blocked = sum(client.blocked for client in waiting_clients)
    capped = sum(
        not c.blocked and c.cap is not None and c.pending >= c.cap for c in waiting_clients
    )
    reasons = [
        (paused, len(waiting), "requests with waiting entries are paused"),
        (full, len(waiting), "requests with waiting entries have reached their limit"),
        (blocked, len(waiting_clients), "clients with waiting entries are blocked"),
        (capped, len(waiting_clients), "clients with waiting entries have reached their cap"),
    ]
    return tuple(f"{n} of {total} {reason}" for n, total, reason in reasons if n)
