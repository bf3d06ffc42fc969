"""The reads behind an explanation: a queue, and one entry or request in it, at one moment.

Only reads, in a number of round trips that does not depend on the queue's size. Every search is
bounded and reports how far it went.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from redisq_ops.core.engine.acknowledgement import Acknowledgement, acknowledgement
from redisq_ops.core.engine.optional_features import (
    HasClients,
    HasOwnersLimit,
    HasPeriodicEntries,
    HasRequests,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.activity import ConsumerSign
from redisq_ops.core.model.entry import Clients, Counts, Entry, OwnersLimit, Request, State
from redisq_ops.core.model.open_resize import OpenResize
from redisq_ops.core.model.queue_position import QueuePosition
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import Description, attempt, together

from ..change import audit_log
from ..change.allowed import refusal
from ..change.audit_log import Operation
from ..change.unfinished import Unfinished, unfinished
from ..groups.fingerprint import fingerprint
from ..inspect.consumers import ConsumerReport, consumer_reports
from ..inspect.flow import NOTHING_HELD, FlowMember, Held, holding
from ..inspect.history import EntryHistory, history_of
from ..inspect.overview import evidence, queue_rates, queue_row
from ..inspect.periodic import PeriodicStatus, periodic_status, status
from ..trouble.finding import USUAL, Trouble
from ..trouble.judgement import troubles

HISTORY_EVENTS = 5000
"""history events searched for an id that does not exist any more"""
OPERATIONS = 50
"""latest audit log entries searched for a pause, a drain, a cancel or a removal"""
RATE_MINUTES = 5
"""length of the period from whose rates estimates are computed"""
DEAD_COMPARED = 200
"""oldest dead entries among which those with the same error are counted"""
BLOCKERS_COMPARED = 100
"""requests or clients examined to find why a whole queue delivers nothing"""
RELATED = 3
"""how many of the entries that hold one, or wait for it, are named"""
ADVISED: tuple[tuple[Verb, State], ...] = (
    ("requeue", "delayed"),
    ("requeue", "pending"),
    ("replay", "dead"),
    ("restore", "trash"),
)
"""what may be advised for an entry, by its state"""
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
class Blocker:
    """A rule that keeps the waiting entries of requests or clients from delivery."""

    rule: str
    """request-paused | limit | blocked | cap | client-rate"""
    names: tuple[str, ...]
    """the requests or clients it stops"""
    total: int
    """requests or clients with waiting entries"""
    what: str

    @property
    def sentence(self) -> str:
        return f"{len(self.names)} of {self.total} {self.what}"


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
    """latest audit log entries, newest first; and older ones that concern it"""
    log_ms: int | None
    """from when on all audit log entries are among these; 0: all are; None: some are corrupt"""
    same_error: SameErrorEntries | None
    unfinished: tuple[Unfinished, ...]
    """unfinished moves from this queue to others"""
    blockers: tuple[Blocker, ...]
    """of a queue: what keeps its waiting entries from delivery"""
    periodic: tuple[PeriodicStatus, ...] = ()
    """of a queue: its periodic entries; of an id: the periodic entry of that name"""
    reports: tuple[ConsumerReport, ...] = ()
    """of a queue: who holds what"""
    refused: Mapping[tuple[str, Verb], str] = field(default_factory=dict)
    """(id, verb) -> why the verb would leave that entry alone, of verbs that may be advised"""
    held: Held = NOTHING_HELD
    """of an entry: what keeps it from going on, and what it keeps"""
    broken: tuple[Trouble, ...] = ()
    """the rules of `redisq check` that the queue breaks, of those in `EXPLAINED`"""
    signs: tuple[ConsumerSign, ...] = ()
    """the latest sign of life of each consumer, as far as it is known"""
    resize: OpenResize | None = None
    """a change of the number of shards that is not complete"""
    leader: Request | None = None
    """the request that the observed one follows; None: it follows none, or that one is gone"""
    owners_limit: OwnersLimit | None = None


async def observe(queue: Queue[Any], id: str | None) -> Observation:
    """Read a queue, or an entry or request in it.

    Two round trips and the deepest of the parallel reads; up to four more through the history for
    an id that does not exist.
    """
    now = await queue.now.op()
    address = id or ""
    reads: list[Description[Any]] = [
        _blocked(queue, id),
        queue.counts.op(now),
        queue.rates.op(now, RATE_MINUTES + 1),
        queue.settings.op(),
        queue.queue_position.op(address),
        _entry_or_request(queue, address),
        together(queue.page.op(state, None, 1, glance=True) for state in _FIRST_OF),
        history_of(queue, address),
        audit_log.latest_and_corrupt(queue, OPERATIONS),
        unfinished(queue),
        _broken(queue, id, now),
        queue.open_resize.op(),
        _owners_limit(queue),
    ]
    (
        (blockers, reports),
        counts,
        rates,
        settings,
        position,
        (entry, request),
        first,
        history,
        (operations, corrupt),
        moves,
        (broken, signs),
        resize,
        owners_limit,
    ) = await together(reads)
    if id and entry is None and request is None and not history.events:
        history = await history_of(queue, address, HISTORY_EVENTS)
    log_ms = 0 if len(operations) < OPERATIONS else operations[-1].started_ms
    same_error = None
    if entry is not None and entry.state == "dead" and entry.error is not None:
        same_error = await _same_error(queue, entry)
    if entry is not None and entry.op and all(o.id != entry.op for o in operations):
        last_change = await audit_log.known(queue, entry.op)
        operations = [*operations, *([last_change] if last_change else [])]
    known = {operation.id for operation in operations}
    operations = [
        *operations,
        *(move.operation for move in moves if move.operation.id not in known),
    ]
    periodic = () if entry or request else await _periodic(queue, address, now)
    first_entries = {
        state: page.entries[0] if page.entries else None
        for state, page in zip(_FIRST_OF, first, strict=True)
    }
    shown = entry or (None if id else first_entries["pending"])
    flow = NOTHING_HELD if shown is None else await attempt(holding(queue, shown))
    held = NOTHING_HELD if isinstance(flow, Exception) else flow
    refused = await _refused(queue, shown, (*held.holding[:RELATED], *held.beside[:RELATED]))
    of = request or position.request
    leader = None
    if isinstance(queue, HasRequests) and of is not None and of.follows:
        leader = await queue.request.op(of.follows)
    return Observation(
        queue,
        id,
        now,
        counts,
        rates,
        settings,
        entry,
        request,
        position,
        first_entries,
        history,
        tuple(operations),
        None if corrupt else log_ms,
        same_error,
        tuple(moves),
        blockers,
        periodic,
        tuple(reports),
        refused,
        held,
        broken,
        signs,
        resize,
        leader,
        owners_limit,
    )


async def _refused(
    queue: Queue[Any], entry: Entry | None, beside: Sequence[FlowMember]
) -> dict[tuple[str, Verb], str]:
    """The verbs that would be refused for an entry and for dead ones ``beside`` it, so that
    `explain` advises none of these."""
    if entry is None:
        return {}
    dead = [(one, await one.queue.get.op(one.id)) for one in beside if one.state == "dead"]
    asked = [(entry.id, verb, queue, entry) for verb, state in ADVISED if state == entry.state]
    if entry.orphan:
        asked = [(entry.id, "purge", queue, entry)]
    asked += [(one.id, "replay", one.queue, found) for one, found in dead if found is not None]
    said = await together(refusal(of, verb, about) for _, verb, of, about in asked)
    rows = zip(asked, said, strict=True)
    return {(id, verb): why for (id, verb, _, _), why in rows if why is not None}


async def _owners_limit(queue: Queue[Any]) -> OwnersLimit | None:
    """None also where it can't be read: that must not hide other reasons."""
    if not isinstance(queue, HasOwnersLimit):
        return None
    found = await attempt(queue.owners_limit.op())
    return None if isinstance(found, Exception) else found


async def _entry_or_request(queue: Queue[Any], id: str) -> tuple[Entry | None, Request | None]:
    """What the id names; a queue with requests has entries ``request/number``."""
    if isinstance(queue, HasRequests) and "/" not in id:
        return None, await queue.request.op(id) if id else None
    return await queue.get.op(id) if id else None, None


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


UNASKED = "no-worker"
"""rule of `trouble` that is among the reasons of entries and requests, too"""
EXPLAINED = ("dying", "dead", "poison", "failing", UNASKED)
"""rules of `trouble` that are among a queue's reasons"""


async def _broken(
    queue: Queue[Any], id: str | None, now: int
) -> tuple[tuple[Trouble, ...], tuple[ConsumerSign, ...]]:
    """The rules that the queue breaks, and the signs of life of its consumers."""
    rates = queue_rates(queue, now, RATE_MINUTES + 1)
    known = Acknowledgement.decoded((await acknowledgement(queue.name, queue.prefix)).encode())
    row = await queue_row(queue, queue.name, queue.kind, now, rates, USUAL, known)
    signs = row.activity.signs if row.activity else None
    if id:
        return tuple(one for one in troubles(row, now) if one.rule == UNASKED), signs or ()
    seen = await attempt(evidence(queue, row, {one.rule for one in troubles(row, now)}, now))
    if not isinstance(seen, Exception):  # without evidence the reason names no entries
        row = replace(row, evidence=seen)
    return tuple(one for one in troubles(row, now) if one.rule in EXPLAINED), signs or ()


async def _blocked(
    queue: Queue[Any], id: str | None
) -> tuple[tuple[Blocker, ...], list[ConsumerReport]]:
    """What keeps a queue's entries from delivery, and who holds them; nothing for an id."""
    if id:
        return (), []
    blockers, reports = await together(_blockers(queue), attempt(consumer_reports(queue)))
    # Consumers that can't be read must not hide the other reasons.
    return blockers, [] if isinstance(reports, Exception) else reports


async def _blockers(queue: Queue[Any]) -> tuple[Blocker, ...]:
    """Why the first hundred requests or clients of a queue get nothing delivered."""
    requests = (
        await queue.requests.op(0, BLOCKERS_COMPARED) if isinstance(queue, HasRequests) else []
    )
    clients = (
        await queue.clients.op(0, BLOCKERS_COMPARED) if isinstance(queue, HasClients) else Clients()
    )
    waiting = [request for request in requests if request.waiting]
    paused = tuple(request.id for request in waiting if request.paused)
    full = tuple(r.id for r in waiting if not r.paused and r.pending >= r.limit)
    waiting_clients = [client for client in clients.clients if client.waiting]
    blocked = tuple(client.client for client in waiting_clients if client.blocked)
    capped = tuple(
        c.client
        for c in waiting_clients
        if not c.blocked and c.cap is not None and c.pending >= c.cap
    )
    resting = tuple(c.client for c in waiting_clients if not c.blocked and c.rests)
    r, c = len(waiting), len(waiting_clients)
    rules = (
        Blocker("request-paused", paused, r, "requests with waiting entries are paused"),
        Blocker("limit", full, r, "requests with waiting entries have reached their limit"),
        Blocker("blocked", blocked, c, "clients with waiting entries are blocked"),
        Blocker("cap", capped, c, "clients with waiting entries have reached their cap"),
        Blocker("client-rate", resting, c, "clients with waiting entries are at their rate"),
    )
    return tuple(rule for rule in rules if rule.names)
