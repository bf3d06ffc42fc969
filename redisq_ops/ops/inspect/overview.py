"""The state of all queues now, in a fixed number of round trips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from redis.exceptions import InvalidResponse, RedisError

from redisq_ops.core.engine.acknowledgement import Acknowledgement, acknowledgements
from redisq_ops.core.engine.optional_features import HasClients, HasPeriodicEntries, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered, all_queues, server_ms
from redisq_ops.core.model.activity import Activity
from redisq_ops.core.model.entry import Client, Counts, Entry, Request, State
from redisq_ops.core.model.errors import RedisqError, Unreachable
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.model.open_resize import OpenResize
from redisq_ops.core.model.rate_limit import RateLimit
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.redis.operation import (
    Call,
    Description,
    apart,
    attempt,
    together,
)

from ..change import audit_log
from ..change.audit_log import Operation
from ..deployment import Deployment
from ..queue_names import check_named, is_named
from ..trouble.entry_rules import not_acknowledged, suspect
from ..trouble.finding import HOUR, USUAL, Thresholds
from ..trouble.judgement import rank, troubles

MINUTES = 2
"""minutes of rates of the latest 60 seconds"""
EXAMINED = 20
"""queues in trouble of which evidence is read, the worst first"""
CLIENTS = 100
"""clients of a queue that are looked at, by name"""
_LATEST = 20
"""dead entries whose errors are compared"""
_HELD = 50
"""pending entries whose consumers are compared"""
AT_ONCE = 100
"""queues whose evidence is read in one round trip or two"""
_TRIED = 20
"""pending and delayed entries each that are looked at, the first ones by time"""
NOTHING_KNOWN: Final[Mapping[str, Acknowledgement]] = MappingProxyType({})
_OPERATIONS = 20
"""latest changes among which a pause is looked for"""


@dataclass(frozen=True, slots=True)
class CommonError:
    """The error type that most of the latest dead entries have."""

    type: str
    looked: int
    """how many entries were looked at: all dead ones, or the latest"""
    task: str | None = None
    """the task of most of them, in which it is; None: there is none, or the layout has no tasks"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The names behind a queue's trouble, read only for a queue in trouble."""

    paused_by: str | None = None
    closed_by: str | None = None
    error: CommonError | None = None
    """the error of most of the latest dead entries"""
    requests: tuple[Request, ...] = ()
    """the oldest open requests"""
    holders: tuple[str, ...] = ()
    """the consumer of each pending entry, the first deadline first"""
    tried: tuple[Entry, ...] | None = None
    """the first pending and delayed entries; None: not looked at"""
    rate: RateLimit | None = None
    """the rate at which its entries are handed out"""


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
    periodic: tuple[int | None, int | None] | None = None
    """periodic entries, and how many of them missed a run, each None where it is unknown; None:
    the kind has none"""
    resize: OpenResize | None = None
    """the change of the number of its shards that is not complete"""
    acknowledged: Acknowledgement | None = None
    """which of its dead letters an operator knows of"""
    deployment: str = ""
    """of another program: the same for all queues of a deployment, and for the whole"""
    whole: bool = False
    """whether it is a whole deployment, and counts the entries of its queues, too"""

    def of(self, state: State) -> int | None:
        """How many entries are in a state; None: unknown."""
        return None if self.counts is None else self.counts.of(state)

    @property
    def missed_runs(self) -> int:
        """How many of its periodic entries are known to have missed a run."""
        return 0 if self.periodic is None else self.periodic[1] or 0


@dataclass(frozen=True, slots=True)
class Overview:
    """Every queue, at one time of the server's clock."""

    now_ms: int
    rows: tuple[QueueRow, ...]
    unread: int = 0
    """how many of them have only their name so far"""

    def of(self, names: Sequence[str]) -> Overview:
        """The queues of these names and patterns; raises `NotFound` for one that matches none."""
        check_named(names, (row.name for row in self.rows))
        rows = tuple(row for row in self.rows if is_named(row.name, names))
        return replace(self, rows=rows)


def summed(rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The rows that count each entry once: without queues whose whole deployment has a row, too."""
    wholes = {row.deployment for row in rows if row.whole}
    return [row for row in rows if row.whole or row.deployment not in wholes]


async def overview(
    deployment: Deployment, limits: Callable[[str], Thresholds] = lambda name: USUAL
) -> Overview:
    """Read the registry and the clock, then every queue with the rates that the rules look at, then
    the names behind what is wrong, of a hundred queues at a time: about five round trips for up to
    that many, and two for each further hundred.

    ``limits``: the thresholds by which `ops.trouble` judges a queue.
    """
    (entries, now), known = await listed(deployment)
    rows = await queue_rows(deployment, entries, now, MINUTES, limits, known)
    return Overview(now, tuple(await _with_evidence(deployment, entries, rows, now, limits)))


async def listed(
    deployment: Deployment,
) -> tuple[tuple[list[Registered], int], dict[str, Acknowledgement]]:
    """The queues and the server's time (ms); and the acknowledgements by queue, none if they can't
    be read: then every dead letter is trouble. One round trip."""
    read: Description[Any] = acknowledgements(deployment.prefix)
    found, known = await together(
        apart(together(all_queues(deployment.prefix), server_ms())), apart(read)
    )
    if isinstance(found, Exception):
        raise found
    return found, {} if isinstance(known, Exception) else known


async def queue_rows(
    deployment: Deployment,
    entries: Sequence[Registered],
    now: int,
    minutes: int,
    limits: Callable[[str], Thresholds] | None = None,
    known: Mapping[str, Acknowledgement] = NOTHING_KNOWN,
    opened: Mapping[str, Queue[Any]] = MappingProxyType({}),
) -> list[QueueRow]:
    """The rows of some queues, with at least so many ``minutes`` of rates; one round trip.

    ``opened``: queues that are kept from look to look."""
    read = await together(
        apart(
            _row(
                deployment,
                opened.get(one.name),
                one,
                now,
                minutes,
                limits and limits(one.name),
                known.get(one.name),
            )
        )
        for one in entries
    )
    return [row_or_problem(entry, row) for entry, row in zip(entries, read, strict=True)]


async def died_lately(deployment: Deployment, minutes: Mapping[str, int]) -> dict[str, int | None]:
    """How many entries of some queues died in the last ``minutes``, by name; two round trips.

    None: the layout doesn't show it, or the queue can't be read."""
    entries, now = await together(all_queues(deployment.prefix), server_ms())
    chosen = [entry for entry in entries if entry.name in minutes]
    found = await together(
        apart(_activity(deployment, entry, now - minutes[entry.name] * 60_000)) for entry in chosen
    )
    return {
        entry.name: None if isinstance(seen, Exception) else seen.dead_lately
        for entry, seen in zip(chosen, found, strict=True)
    }


async def _activity(deployment: Deployment, entry: Registered, since_ms: int) -> Activity:
    seen: Activity = await deployment.open(entry).activity.op(since_ms)
    return seen


async def _row(
    deployment: Deployment,
    opened: Queue[Any] | None,
    entry: Registered,
    now: int,
    minutes: int,
    limits: Thresholds | None,
    known: Acknowledgement | None,
) -> QueueRow:
    queue: Queue[Any] = opened or deployment.open(entry)
    rates = queue_rates(queue, now, max(minutes, limits.rate_minutes if limits else 0))
    return await queue_row(queue, entry.name, entry.kind, now, rates, limits, known)


def row_or_problem(entry: Registered, row: QueueRow | Exception) -> QueueRow:
    """The row; if it could not be read, a row with the reason."""
    if isinstance(row, Exception):
        return QueueRow(entry.name, entry.kind, None, None, problem_text(row))
    return row


def problem_text(error: Exception) -> str:
    """Why a queue can't be shown. Unexpected errors may quote payloads: only the type is shown."""
    known = isinstance(error, (RedisqError, RedisError))
    return str(error) if known else f"unexpected error: {type(error).__name__}"


async def queue_row(
    queue: Queue[Any],
    name: str,
    kind: str,
    now: int,
    rates: Description[Rates | None],
    limits: Thresholds | None,
    known: Acknowledgement | None,
) -> QueueRow:
    """A queue in the overview; ``rates``: how its rates are read.

    ``limits``: the thresholds for its signs of trouble; None: these signs are not read. ``known``:
    the acknowledgement of its dead letters.
    """
    counts, moves, rates_, found, periodic, resize = await together(
        [
            queue.counts.op(now),
            attempt(_unfinished(queue)),
            attempt(rates),
            attempt(_signs(queue, now, limits, known)),
            attempt(_periodic(queue, now)),
            attempt(queue.open_resize.op()),
        ]
    )
    results = (moves, rates_, found, periodic, resize)
    unread = (each for each in results if isinstance(each, Exception))
    problem = next(map(problem_text, unread), None)
    rates_ = None if isinstance(rates_, Exception) else rates_
    moves = () if isinstance(moves, Exception) else moves
    activity, clients = (None, ()) if isinstance(found, Exception) else found
    periodic = None if isinstance(periodic, Exception) else periodic
    resize = None if isinstance(resize, Exception) else resize
    return QueueRow(
        name,
        kind,
        counts,
        rates_,
        problem,
        moves,
        activity,
        clients,
        periodic=periodic,
        resize=resize,
        acknowledged=known,
        deployment=queue.deployment,
        whole=queue.whole,
    )


async def _periodic(queue: Queue[Any], now: int) -> tuple[int | None, int | None] | None:
    if not isinstance(queue, HasPeriodicEntries):
        return None
    counts: tuple[int | None, int | None] = await queue.periodic_counts.op(now)
    return counts


async def _signs(
    queue: Queue[Any], now: int, limits: Thresholds | None, known: Acknowledgement | None
) -> tuple[Activity | None, tuple[Client, ...]]:
    if limits is None:
        return None, ()
    active = queue.activity.op(now - limits.minutes * 60_000, known and known.at_ms)
    if not isinstance(queue, HasClients):
        return await active, ()
    activity, clients = await together(active, queue.clients.op(0, CLIENTS))
    return activity, clients.clients


async def _with_evidence(
    deployment: Deployment,
    entries: Sequence[Registered],
    rows: Sequence[QueueRow],
    now: int,
    limits: Callable[[str], Thresholds],
) -> list[QueueRow]:
    found = [troubles(row, now, limits(row.name)) for row in rows]
    bad = [at for at in range(len(rows)) if found[at] and rows[at].counts is not None]
    worst = sorted(bad, key=lambda at: rank(found[at]))[:EXAMINED]
    chosen = worst + [at for at in range(len(rows)) if suspect(rows[at]) and at not in worst]
    examined = list(rows)
    for begin in range(0, len(chosen), AT_ONCE):
        some = chosen[begin : begin + AT_ONCE]
        rules = {at: {one.rule for one in found[at]} for at in some}
        queues = {at: deployment.open(entries[at]) for at in some}
        old = [at for at in some if "old" in rules[at]]
        seen, hours = await together(
            together(attempt(evidence(queues[at], rows[at], rules[at], now)) for at in some),
            together(attempt(queue_rates(queues[at], now, HOUR)) for at in old),
        )
        for at, rates in zip(old, hours, strict=True):
            if isinstance(rates, Rates):  # for the estimate of the time to drain
                examined[at] = replace(examined[at], rates=rates)
        for at, one in zip(some, seen, strict=True):
            if isinstance(one, Evidence):  # without it the reason stands, with no names in it
                examined[at] = replace(examined[at], evidence=one)
    return examined


async def evidence(
    queue: Queue[Any], row: QueueRow, rules: Collection[str], now_ms: int
) -> Evidence:
    """The names behind what these rules found of a queue."""
    reads: dict[str, Description[Any]] = {}
    if not {"paused", "draining"}.isdisjoint(rules):
        reads["operations"] = audit_log.last(queue, _OPERATIONS)
    if not {"dying", "dead"}.isdisjoint(rules):
        new = not_acknowledged(row, now_ms) if "dead" in rules else None
        most = min(_LATEST, new or _LATEST)
        reads["dead"] = queue.latest.op("dead", most, glance=True, number=row.of("dead"))
    if "stalled" in rules:
        reads["pending"] = queue.page.op("pending", None, _HELD, glance=True)
        reads["rate"] = queue.rate_limit()
        if isinstance(queue, HasRequests):
            reads["requests"] = queue.requests.op(0, CLIENTS)
    if suspect(row):
        for state in ("pending", "delayed"):
            if row.counts is not None and row.counts.of(state):
                reads[f"tried {state}"] = queue.page.op(state, None, _TRIED, glance=True)
    found = dict(zip(reads, await together(reads.values()), strict=True))
    counts, done = row.counts, found.get("operations", [])
    held = found["pending"].entries if "pending" in found else ()
    return Evidence(
        _author(done, "pause", f"paused = {counts.paused if counts else ''}"),
        _author(done, "drain", f"closed = {counts.closed if counts else ''}"),
        _common_error(found["dead"].entries) if "dead" in found else None,
        tuple(found.get("requests", ())),
        tuple(e.consumer for e in held if e.consumer is not None),
        tuple(e for name in found if name.startswith("tried ") for e in found[name].entries),
        found.get("rate"),
    )


def _common_error(latest: Sequence[Entry]) -> CommonError | None:
    failed = [(entry.error.type, entry.task) for entry in latest if entry.error is not None]
    for pairs in (failed, [(type_, None) for type_, _ in failed]):
        for (type_, task), number in Counter[tuple[str, str | None]](pairs).most_common(1):
            if 2 * number > len(latest):
                return CommonError(type_, len(latest), task)
    return None


def _author(operations: Sequence[Operation], verb: str, what: str) -> str | None:
    found = (o.who for o in operations if o.verb == verb and o.what == what)
    return next(found, None)


async def queue_rates(queue: Queue[Any], now: int, minutes: int) -> Rates | None:
    rates: Rates = await queue.rates.op(now, minutes)
    return rates if rates.counted else None


async def _unfinished(queue: Queue[Any]) -> tuple[str, ...]:
    listed: dict[str, int] = await queue.unfinished_transfers.op()
    if not listed:
        return ()
    # Loaded only where a queue has any: `redisq ls` starts sooner without it.
    from ..change.unfinished import unfinished

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
