"""The state of all queues now, in a fixed number of round trips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.exceptions import InvalidResponse, RedisError

from redisq_ops.core.engine.optional_features import HasPeriodicEntries
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered, all_queues, server_ms
from redisq_ops.core.model.entry import Counts, Rates
from redisq_ops.core.model.errors import RedisqError, Unreachable
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.redis.operation import Call, apart, attempt, both, together

from ..change.unfinished import unfinished
from ..deployment import Deployment


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
    periodic: tuple[int, int] | None = None
    """periodic entries, and how many of them missed a run; None: the kind has none"""


@dataclass(frozen=True, slots=True)
class Overview:
    """Every queue, at one time of the server's clock."""

    now_ms: int
    rows: tuple[QueueRow, ...]


async def overview(deployment: Deployment, minutes: int = 60, rates: bool = True) -> Overview:
    """Read the registry and the clock, then every queue: two round trips.

    ``minutes``: length of the rates, if ``rates`` are wanted.
    """
    entries, now = await both(all_queues(deployment.prefix), server_ms())
    rows = await together(
        apart(_row(deployment, entry, now, minutes if rates else 0)) for entry in entries
    )
    return Overview(
        now,
        tuple(
            QueueRow(entry.name, entry.kind, None, None, _problem(row))
            if isinstance(row, Exception)
            else row
            for entry, row in zip(entries, rows, strict=True)
        ),
    )


def _problem(error: Exception) -> str:
    """Why a queue can't be shown. Unexpected errors may quote payloads: only the type is shown."""
    known = isinstance(error, (RedisqError, RedisError))
    return str(error) if known else f"unexpected error: {type(error).__name__}"


async def _row(deployment: Deployment, entry: Registered, now: int, minutes: int) -> QueueRow:
    queue: Queue[Any] = deployment.open(entry)
    moves_and_rates = both(attempt(_unfinished(queue)), attempt(_rates(queue, now, minutes)))
    (counts, periodic), (moves, rates) = await both(
        both(queue.counts.op(now), attempt(_periodic(queue, now))), moves_and_rates
    )
    more = (moves, rates, periodic)
    problem = next((_problem(each) for each in more if isinstance(each, Exception)), None)
    rates = None if isinstance(rates, Exception) else rates
    moves = () if isinstance(moves, Exception) else moves
    periodic = None if isinstance(periodic, Exception) else periodic
    return QueueRow(entry.name, entry.kind, counts, rates, problem, moves, periodic)


async def _periodic(queue: Queue[Any], now: int) -> tuple[int, int] | None:
    if not isinstance(queue, HasPeriodicEntries):
        return None
    counts: tuple[int, int] = await queue.periodic_counts.op(now)
    return counts


async def _rates(queue: Queue[Any], now: int, minutes: int) -> Rates | None:
    rates: Rates | None = await queue.rates.op(now, minutes) if minutes else None
    return rates if rates is not None and rates.arrived else None


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
