"""One Redis client per process and server, and a runner that sends read commands only.

Spark forks and reuses its Python workers, so a client is created on first use and kept by process
id.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from weakref import WeakSet

from redisq_ops.core.model.errors import LoginRefused, Unreachable
from redisq_ops.core.model.keys import PREFIX
from redisq_ops.core.redis.client import ServerAddress, connect
from redisq_ops.core.redis.operation import BlockingClient, Call, Description, run
from redisq_ops.ops.deployment import Deployment

T = TypeVar("T")

READ_COMMANDS = frozenset(
    {
        "DBSIZE", "EXISTS", "GET", "GETRANGE", "HEXISTS", "HGET", "HGETALL", "HLEN", "HMGET",
        "HSCAN", "HSTRLEN", "HVALS", "LINDEX", "LLEN", "LPOS", "LRANGE", "MEMORY", "MGET",
        "PEXPIRETIME", "PTTL", "SCAN", "SCARD", "SISMEMBER", "SMEMBERS", "SMISMEMBER",
        "SRANDMEMBER", "SSCAN", "STRLEN", "TIME",
        "TYPE", "XINFO", "XLEN", "XPENDING", "XRANGE", "XREVRANGE", "ZCARD", "ZCOUNT", "ZMSCORE",
        "ZRANGE", "ZRANK", "ZREVRANK", "ZSCAN", "ZSCORE",
    }
)  # fmt: skip
"""the commands that readers may send; MEMORY, XINFO and XPENDING only in forms that read"""
AWAY_S = 60.0
"""how long a server may be away before a task fails: a failover or a restart is shorter"""
FIRST_AWAY_S = 6.5
"""the same for a client without any answer so far: its address may be wrong"""
_LONGEST_PAUSE_S = 5.0
_clients: dict[tuple[int, ServerAddress, bool], BlockingClient] = {}
_answered: WeakSet[BlockingClient] = WeakSet()
"""clients that a server has answered"""
logger = logging.getLogger("redisq_ops.pipeline")


class WriteInReader(AssertionError):
    """A reader was about to send a command that is not in `READ_COMMANDS`."""


class _ReadOnlyCalls:
    """Wraps a coroutine of calls: checks each command before it is sent."""

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner

    def send(self, value: Any) -> Any:
        return _checked_reads(self._inner.send(value))

    def throw(self, error: BaseException) -> Any:
        return _checked_reads(self._inner.throw(error))

    def close(self) -> None:
        self._inner.close()


def _checked_reads(calls: Any) -> Any:
    for name in {call.command[0] for call in calls if isinstance(call, Call)}:
        if str(name).upper() not in READ_COMMANDS:
            raise WriteInReader(f"readers may not send {name!s}")
    return calls


async def _await_call(call: Call[T]) -> T:
    return await call


def run_read_only(client: BlockingClient, description: Description[T]) -> T:
    """`run` for readers; raises `WriteInReader` instead of sending any other command."""
    coroutine = _await_call(description) if isinstance(description, Call) else description
    # Of a coroutine's methods, `run` needs only those of `_ReadOnlyCalls`.
    return run(client, cast(Description[T], _ReadOnlyCalls(coroutine)))


def process_client(target: ServerAddress, replica: bool = False) -> BlockingClient:
    """This process's client of a server; with ``replica`` it reads from replicas."""
    key = (os.getpid(), target, replica)
    if key not in _clients:
        _clients[key] = connect(target, "spark", replica=replica)
    return _clients[key]


@dataclass(frozen=True, slots=True)
class Server:
    """The server and key prefix that tasks write to.

    Serialised with a task, so no plan or log contains it; its text form shows no password.
    """

    target: ServerAddress
    prefix: str = PREFIX

    @property
    def client(self) -> BlockingClient:
        """This process's client."""
        return process_client(self.target)

    def deployment(self) -> Deployment:
        return Deployment(self.client, prefix=self.prefix)


def run_retrying(
    client: BlockingClient,
    make: Callable[[], Description[T]],
    max_away_s: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    runner: Callable[[BlockingClient, Description[T]], T] = run,
) -> T:
    """Run an idempotent operation, made anew by ``make`` for each attempt.

    ``max_away_s``: by default `AWAY_S`; `FIRST_AWAY_S` for a client without any answer so far.
    """
    if max_away_s is None:
        max_away_s = AWAY_S if client in _answered else FIRST_AWAY_S
    found = retry_unreachable(lambda: runner(client, make()), sleep, max_away_s)
    _answered.add(client)
    return found


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause garbage collection for the block.

    A reply of thousands of rows allocates many objects but no cycles; the collector would again
    and again scan all objects of a process with Spark.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def retry_unreachable(
    operation: Callable[[], T],
    sleep: Callable[[float], None] = time.sleep,
    max_away_s: float = AWAY_S,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Repeat an idempotent operation while the server is unreachable, with growing pauses.

    Covers a failover, a moving slot, a closed socket. Logs once that it waits; raises `Unreachable`
    when the server has been away for ``max_away_s`` seconds, at once if it refuses the login. A
    server that hangs counts as away from the moment of the call.
    """
    pause, waited, since = 0.2, 0.0, clock()
    while True:
        try:
            return operation()
        except LoginRefused:
            raise
        except Unreachable as error:
            if max(waited, clock() - since) + pause > max_away_s:
                raise
            if not waited:
                logger.warning("%s; trying again for up to %.0f s", error, max_away_s)
        sleep(pause)
        waited += pause
        pause = min(2 * pause, _LONGEST_PAUSE_S)
