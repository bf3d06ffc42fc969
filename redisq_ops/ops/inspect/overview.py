"""Looking: what all queues are doing now, in a fixed number of round trips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.exceptions import InvalidResponse, RedisError

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
    """One queue in the overview. ``problem`` says why there are no counts."""

    name: str
    kind: str
    counts: Counts | None
    rates: Rates | None
    problem: str | None = None
    unfinished: tuple[str, ...] = ()
    """moves out of it to other queues that are not finished"""


@dataclass(frozen=True, slots=True)
class Overview:
    """Every queue at one moment of the server's clock."""

    now_ms: int
    rows: tuple[QueueRow, ...]


async def overview(deployment: Deployment, minutes: int = 60, rates: bool = True) -> Overview:
    """Two round trips: the registry and the clock, then everything else at once."""
    entries, now = await both(all_queues(deployment.prefix), server_ms())
    looks = await together(
        apart(_row(deployment, entry, now, minutes if rates else 0)) for entry in entries
    )
    return Overview(
        now,
        tuple(
            QueueRow(entry.name, entry.kind, None, None, _problem(look))
            if isinstance(look, Exception)
            else look
            for entry, look in zip(entries, looks, strict=True)
        ),
    )


def _problem(error: Exception) -> str:
    """Why a queue can't be shown; the words of what nobody foresaw may quote a payload."""
    known = isinstance(error, (RedisqError, RedisError))
    return str(error) if known else f"unexpected error: {type(error).__name__}"


async def _row(deployment: Deployment, entry: Registered, now: int, minutes: int) -> QueueRow:
    queue: Queue[Any] = deployment.open(entry)
    looks = both(attempt(_unfinished(queue)), attempt(_rates(queue, now, minutes)))
    counts, (left, rates) = await both(queue.counts.op(now), looks)
    problem = next((_problem(each) for each in (left, rates) if isinstance(each, Exception)), None)
    rates = None if isinstance(rates, Exception) else rates
    left = () if isinstance(left, Exception) else left
    return QueueRow(entry.name, entry.kind, counts, rates, problem, left)


async def _rates(queue: Queue[Any], now: int, minutes: int) -> Rates | None:
    rates: Rates | None = await queue.rates.op(now, minutes) if minutes else None
    return rates if rates is not None and rates.arrived else None


async def _unfinished(queue: Queue[Any]) -> tuple[str, ...]:
    listed: dict[str, int] = await queue.unfinished_transfers.op()
    if not listed:
        return ()
    return tuple(one.operation.id for one in await unfinished(queue))


async def eviction_policy() -> str | None:
    """The server's ``maxmemory-policy`` if it deletes keys; None too where that is not told."""
    asked: Call[str | None] = Call(
        ("INFO", "memory"), lambda info: info.get("maxmemory_policy"), key=registry_key()
    )
    policy = await apart(asked)
    if isinstance(policy, InvalidResponse):
        raise Unreachable("what answers there is no Redis or Valkey server") from policy
    if isinstance(policy, RedisqError):  # no right to ask, or a node of several that is gone
        return None
    if isinstance(policy, Exception):
        raise policy
    return None if policy in (None, "noeviction") else str(policy)
