"""Connections of readers: one for each process and server, and none that could change anything.

Spark's workers are forked and used again, so a client is made where it is first needed and kept
under its process' id.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from redisq_ops.core.model.errors import Unreachable
from redisq_ops.core.redis.client import ServerAddress, connect
from redisq_ops.core.redis.operation import BlockingClient, Call, Description, run

T = TypeVar("T")

READS = frozenset(
    {
        "DBSIZE", "EXISTS", "GET", "GETRANGE", "HEXISTS", "HGET", "HGETALL", "HLEN", "HMGET",
        "HSCAN", "HSTRLEN", "HVALS", "LINDEX", "LLEN", "LPOS", "LRANGE", "MGET", "PTTL", "SCAN",
        "SCARD", "SISMEMBER", "SMEMBERS", "SMISMEMBER", "SSCAN", "STRLEN", "TIME", "TYPE", "XINFO",
        "XLEN", "XPENDING", "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT", "ZMSCORE", "ZRANGE", "ZRANK",
        "ZREVRANK", "ZSCAN", "ZSCORE",
    }
)  # fmt: skip
"""every command a reader may send; XINFO and XPENDING only look"""
TRIES = 6
_CLIENTS: dict[tuple[int, ServerAddress, bool], BlockingClient] = {}


class NotARead(AssertionError):
    """A command that isn't in `READS` was about to be sent by a reader."""


class _Looking:
    """A description whose every call is looked at before it goes out."""

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner

    def send(self, value: Any) -> Any:
        return _looked_at(self._inner.send(value))

    def throw(self, error: BaseException) -> Any:
        return _looked_at(self._inner.throw(error))

    def close(self) -> None:
        self._inner.close()


def _looked_at(calls: Any) -> Any:
    for call in calls:
        if isinstance(call, Call) and str(call.command[0]).upper() not in READS:
            raise NotARead(f"a reader doesn't send {call.command[0]!s}")
    return calls


async def _alone(call: Call[T]) -> T:
    return await call


def look(client: BlockingClient, description: Description[T]) -> T:
    """`run` for readers: what isn't a read is not sent."""
    coroutine = _alone(description) if isinstance(description, Call) else description
    return run(client, cast(Description[T], _Looking(coroutine)))


def client_of(target: ServerAddress, replica: bool = False) -> BlockingClient:
    """This process' client."""
    key = (os.getpid(), target, replica)
    if key not in _CLIENTS:
        _CLIENTS[key] = connect(target, "spark", replica=replica)
    return _CLIENTS[key]


@contextmanager
def unswept() -> Iterator[None]:
    """Python doesn't look for cycles meanwhile.

    A reply's rows are thousands of lists and tuples at once, without any cycle; for every few of
    them it would go through all that a process with Spark has loaded, again and again.
    """
    swept = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if swept:
            gc.enable()


def patiently(ask: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
    """Ask again while the server is away: a failover, a slot on its way, a closed socket.

    For exchanges that are the same when they are sent again; some 6 s, then it is `Unreachable`.
    """
    for n in range(TRIES):
        try:
            return ask()
        except Unreachable:
            if n == TRIES - 1:
                raise
            sleep(0.2 * 2**n)
    raise AssertionError
