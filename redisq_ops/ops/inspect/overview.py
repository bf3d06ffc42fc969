"""The state of all queues now, in a fixed number of round trips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from redis.exceptions import InvalidResponse, RedisError

from redisq_ops.core.engine.optional_features import HasClients, HasPeriodicEntries, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered, all_queues, server_ms
from redisq_ops.core.model.activity import Activity
from redisq_ops.core.model.entry import Client, Clients, Counts, Entry, Rates, Request
from redisq_ops.core.model.errors import RedisqError, Unreachable
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.redis.operation import Call, apart, attempt, both, together

from .. import trouble
from ..change import audit_log
from ..change.audit_log import Operation
from ..change.unfinished import unfinished
from ..deployment import Deployment

SIGN_MINUTES = trouble.USUAL.minutes
EXAMINED = 20
"""queues in trouble of which evidence is read, the worst first"""
CLIENTS = 100
"""clients of a queue that are looked at, by name"""
_LATEST = 20
"""dead entries whose errors are compared, of each shard"""
_HELD = 50
"""pending entries whose consumers are compared"""
_OPERATIONS = 20
"""latest changes among which a pause is looked for"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The names behind a queue's trouble: read only where there is one."""

    paused_by: str | None = None
    closed_by: str | None = None
    error: str | None = None
    """the error of most of the latest dead entries, by its type"""
    requests: tuple[Request, ...] = ()
    """the oldest open requests"""
    holders: tuple[str, ...] = ()
    """the consumer of each pending entry, the first deadline first"""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue in the overview; ``problem`` says what could not be read and why."""

    name: str
    kind: str
    counts: Counts | None
    rates: Rates | None
    problem: str | None = None
    unfinished: tuple[str, ...] = ()
    """operation ids of its unfinished moves to other queues"""
    activity: Activity | None = None
    clients: tuple[Client, ...] = ()
    """of a queue with clients: the first ones, by name"""
    evidence: Evidence | None = None
    periodic: tuple[int, int] | None = None
    """periodic entries, and how many of them missed a run; None: the kind has none"""


@dataclass(frozen=True, slots=True)
class Overview:
    """Every queue, at one time of the server's clock."""

    now_ms: int
    rows: tuple[QueueRow, ...]


async def overview(deployment: Deployment, minutes: int = 60, signs: bool = False) -> Overview:
    """Read the registry and the clock, then every queue: two round trips.

    ``minutes``: length of the rates. With ``signs`` also what `ops.trouble` judges by: three more
    round trips at most.
    """
    entries, now = await both(all_queues(deployment.prefix), server_ms())
    read = await together(apart(_row(deployment, entry, now, minutes, signs)) for entry in entries)
    rows = [
        QueueRow(entry.name, entry.kind, None, None, _problem(row))
        if isinstance(row, Exception)
        else row
        for entry, row in zip(entries, read, strict=True)
    ]
    if signs:
        rows = await _with_evidence(deployment, entries, rows, now)
    return Overview(now, tuple(rows))


def _problem(error: Exception) -> str:
    """Why a queue can't be shown. Unexpected errors may quote payloads: only the type is shown."""
    known = isinstance(error, (RedisqError, RedisError))
    return str(error) if known else f"unexpected error: {type(error).__name__}"


async def _row(
    deployment: Deployment, entry: Registered, now: int, minutes: int, signs: bool
) -> QueueRow:
    queue: Queue[Any] = deployment.open(entry)
    moves_and_rates = both(attempt(_unfinished(queue)), attempt(_rates(queue, now, minutes)))
    seen = attempt(_signs(queue, now)) if signs else _no_signs()
    seen_and_periodic = both(seen, attempt(_periodic(queue, now)))
    (counts, (found, periodic)), (moves, rates) = await both(
        both(queue.counts.op(now), seen_and_periodic), moves_and_rates
    )
    results = (moves, rates, found, periodic)
    unread = (each for each in results if isinstance(each, Exception))
    problem = next(map(_problem, unread), None)
    rates = None if isinstance(rates, Exception) else rates
    moves = () if isinstance(moves, Exception) else moves
    activity, clients = (None, ()) if isinstance(found, Exception) else found
    periodic = None if isinstance(periodic, Exception) else periodic
    return QueueRow(
        entry.name, entry.kind, counts, rates, problem, moves, activity, clients, periodic=periodic
    )


async def _periodic(queue: Queue[Any], now: int) -> tuple[int, int] | None:
    if not isinstance(queue, HasPeriodicEntries):
        return None
    counts: tuple[int, int] = await queue.periodic_counts.op(now)
    return counts


async def _signs(queue: Queue[Any], now: int) -> tuple[Activity | None, tuple[Client, ...]]:
    activity, found = await both(
        queue.activity.op(now - SIGN_MINUTES * 60_000),
        together([queue.clients.op(0, CLIENTS)] if isinstance(queue, HasClients) else []),
    )
    clients: list[Clients] = found
    return activity, clients[0].clients if clients else ()


async def _no_signs() -> tuple[Activity | None, tuple[Client, ...]]:
    return None, ()


async def _with_evidence(
    deployment: Deployment, entries: Sequence[Registered], rows: Sequence[QueueRow], now: int
) -> list[QueueRow]:
    found = [trouble.troubles(row, now) for row in rows]
    bad = [at for at in range(len(rows)) if found[at] and rows[at].counts is not None]
    bad = sorted(bad, key=lambda at: trouble.rank(found[at]))[:EXAMINED]
    evidence = await together(
        attempt(_evidence(deployment, entries[at], rows[at], {one.rule for one in found[at]}))
        for at in bad
    )
    examined = list(rows)
    for at, seen in zip(bad, evidence, strict=True):
        if isinstance(seen, Evidence):  # without it the reason stands, with no names in it
            examined[at] = replace(examined[at], evidence=seen)
    return examined


async def _evidence(
    deployment: Deployment, entry: Registered, row: QueueRow, rules: set[str]
) -> Evidence:
    queue: Queue[Any] = deployment.open(entry)
    stalled = "stalled" in rules
    (operations, dead), (requests, held) = await both(
        both(
            together(
                [audit_log.last(queue, _OPERATIONS)] if rules & {"paused", "draining"} else []
            ),
            together([_latest_dead(queue)] if "dying" in rules else []),
        ),
        both(
            together(
                [queue.requests.op(0, CLIENTS)]
                if stalled and isinstance(queue, HasRequests)
                else []
            ),
            together([queue.page.op("pending", None, _HELD)] if stalled else []),
        ),
    )
    counts = row.counts
    done: list[Operation] = operations[0] if operations else []
    errors = Counter(e.error.type for e in (dead[0] if dead else ()) if e.error is not None)
    common = errors.most_common(1)
    return Evidence(
        _author(done, "pause", f"paused = {counts.paused if counts else ''}"),
        _author(done, "drain", f"closed = {counts.closed if counts else ''}"),
        common[0][0] if common and 2 * common[0][1] > errors.total() else None,
        tuple(requests[0]) if requests else (),
        tuple(e.consumer for page in held for e in page.entries if e.consumer is not None),
    )


def _author(operations: Sequence[Operation], verb: str, what: str) -> str | None:
    found = (o.who for o in operations if o.verb == verb and o.what == what)
    return next(found, None)


async def _latest_dead(queue: Queue[Any]) -> list[Entry]:
    parts = queue.shard_queues or (queue,)
    counts: list[Counts] = await together(part.counts.op() for part in parts)
    pages = await together(
        part.page.op("dead", max=_LATEST, start=max(0, one.dead - _LATEST))
        for part, one in zip(parts, counts, strict=True)
    )
    return [entry for page in pages for entry in page.entries]


async def _rates(queue: Queue[Any], now: int, minutes: int) -> Rates | None:
    rates: Rates = await queue.rates.op(now, minutes)
    return rates if rates.arrived else None


async def _unfinished(queue: Queue[Any]) -> tuple[str, ...]:
    listed: dict[str, int] = await queue.unfinished_transfers.op()
    if not listed:
        return ()
    return tuple(move.operation.id for move in await unfinished(queue))


async def eviction_policy() -> str | None:
    """The server's ``maxmemory-policy`` if it evicts keys; None if not, or if it can't be read."""
    info: Call[str | None] = Call(
        ("INFO", "memory"), lambda reply: reply.get("maxmemory_policy"), key=registry_key()
    )
    policy = await apart(info)
    if isinstance(policy, InvalidResponse):
        raise Unreachable("the server at this address is not Redis or Valkey") from policy
    if isinstance(policy, RedisqError):  # no permission for INFO, or one of several nodes is down
        return None
    if isinstance(policy, Exception):
        raise policy
    return None if policy in (None, "noeviction") else str(policy)
