"""Sends a round of calls: one exchange with a server, or with each node of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from math import inf
from typing import Any, cast

import redis
import redis.asyncio as aredis
import redis.exceptions as rx
from hiredis import pack_command

from .cluster_nodes import NodeCommand, aby_node, by_node
from .commands import Arg, Call, Replies, Round, has_errors
from .cut_replies import NONE_ARRIVED, cutting
from .server_errors import CHANGING

BlockingClient = redis.Redis | redis.RedisCluster
AsyncClient = aredis.Redis | aredis.RedisCluster


def _missing(calls: Round, replies: Replies) -> list[int]:
    if not has_errors(replies):
        return []
    return [
        i
        for i, reply in enumerate(replies)
        if isinstance(reply, rx.NoScriptError) and calls[i].source is not None
    ]


_SHORT = frozenset(
    {
        "EXISTS",
        "HLEN",
        "HSTRLEN",
        "LLEN",
        "LPOS",
        "MEMORY",
        "SCARD",
        "SMISMEMBER",
        "STRLEN",
        "TIME",
        "TYPE",
        "XLEN",
        "ZCARD",
        "ZCOUNT",
        "ZRANK",
        "ZSCORE",
    }
)
"""commands whose replies are short, so that it doesn't matter whether these are cut"""


def _parts(calls: Round) -> list[tuple[list[int], AbstractContextManager[None]]]:
    """Which calls are sent together: first those that need their replies whole."""
    cut = [i for i, call in enumerate(calls) if call.cut or call.command[0] in _SHORT]
    whole = [i for i in range(len(calls)) if i not in {*cut}]
    return [(whole, nullcontext()), (cut, cutting())] if whole else [(cut, cutting())]


def exchange(client: BlockingClient, calls: Round) -> list[Any]:
    """The replies of a round, with errors as values. An unknown script is sent in full.

    The errors have no tracebacks: these would keep the frames here, and the round, in memory.
    """
    return _divided(calls, lambda part: _exchange(client, part))


def _divided(calls: Round, send: Callable[[Round], list[Any]]) -> list[Any]:
    if not any(call.cut for call in calls):
        return send(calls)
    replies: list[Any] = [None] * len(calls)
    for part, way in _parts(calls):
        with way:
            for i, reply in zip(part, send(tuple(calls[i] for i in part)), strict=True):
                replies[i] = reply
    return replies


def _exchange(client: BlockingClient, calls: Round) -> list[Any]:
    return _completed(client, calls, _send(client, calls, [call.outgoing for call in calls]))


def _completed(client: BlockingClient, calls: Round, replies: list[Any]) -> list[Any]:
    """The replies, with those of scripts that the server didn't know."""
    if again := _missing(calls, replies):
        subset = tuple(calls[i] for i in again)
        sent = _send(client, subset, [call.spelled_out() for call in subset])
        for i, reply in zip(again, sent, strict=True):
            replies[i] = reply
    return replies


class PinnedConnection:
    """One connection of a client of one server, for many rounds; one thread uses it at a time.

    It saves what redis-py does for each command: to find a free connection, to ask whether it was
    closed meanwhile, to prepare for sending again. If it is lost, the client sends the round again.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._connection: Any = None

    def exchange(self, calls: Round) -> list[Any]:
        return _divided(calls, self._exchange)

    def _exchange(self, calls: Round) -> list[Any]:
        try:
            replies = self._replies(calls)
        except (rx.ConnectionError, rx.TimeoutError):
            return _exchange(self._client, calls)  # again, with redis-py's retries
        return _completed(self._client, calls, replies)

    def _replies(self, calls: Round) -> list[Any]:
        if self._connection is None:
            pool: Any = self._client.connection_pool
            self._connection = pool.get_connection()
        try:
            self._send(calls)
            return [self._read(call) for call in calls]
        except BaseException:
            self._abandon()
            raise

    def _send(self, calls: Round) -> None:
        connection = self._connection
        packed = [part for call in calls for part in connection.pack_command(*call.outgoing)]
        # The replies show whether the connection is alive: a PING by redis-py would only take time.
        connection.send_packed_command(
            packed if len(packed) == 1 else [b"".join(packed)], check_health=False
        )

    def _read(self, call: Call[Any]) -> Any:
        client: Any = self._client
        try:
            return client.parse_response(
                self._connection, call.command[0], NEVER_DECODE=True, **call.options
            )
        except rx.ResponseError as error:
            return error.with_traceback(None)

    def _abandon(self) -> None:
        """Close the connection: a reply that nobody reads may be on its way."""
        if self._connection is not None:
            self._connection.disconnect()
            self.close()

    def close(self) -> None:
        """Give the connection back to the client."""
        if self._connection is not None:
            self._client.connection_pool.release(self._connection)
            self._connection = None


def _complete(replies: Iterable[Any]) -> list[Any]:
    """A round's replies; raises the error of a node that was lost, or lost its slots, on the way.

    The cluster pipelines return that error as a reply: callers would keep half of a round.
    """
    received = list(replies)
    for reply in received if has_errors(received) else ():
        if isinstance(reply, (rx.ConnectionError, rx.TimeoutError, *CHANGING)):
            raise reply
    return received


def _apart(calls: Round, commands: list[tuple[Arg, ...]]) -> list[NodeCommand] | None:
    """The round for `cluster_nodes`, if every call of it is part of an `apart`; else None."""
    if not all(call.apart for call in calls):
        return None
    return [
        NodeCommand(command, call.route, {"NEVER_DECODE": True, **call.options})
        for call, command in zip(calls, commands, strict=True)
    ]


def _send(client: Any, calls: Round, commands: list[tuple[Arg, ...]]) -> list[Any]:
    cluster = hasattr(client, "nodes_manager")  # isinstance takes redis-py ten times as long
    if cluster and (asked := _apart(calls, commands)):
        return by_node(client, asked)
    if len(commands) == 1:
        try:
            return [client.execute_command(*commands[0], NEVER_DECODE=True, **calls[0].options)]
        except rx.ResponseError as error:
            return [error.with_traceback(None)]
    if isinstance(client, redis.Redis):
        return _complete(_send_round(client, calls, commands))
    return _complete(_pipeline(client, calls, commands).execute(raise_on_error=False))


def _send_round(client: Any, calls: Round, commands: list[tuple[Arg, ...]]) -> list[Any]:
    """A round on one connection of a client of one server; sent again as redis-py would.

    redis-py's pipeline takes twice the CPU time: it prepares every command and every reply.
    """
    pool, callbacks = client.connection_pool, client.response_callbacks
    # Looked up once a round: redis-py's names have no case, which takes longer than a reply.
    names = {call.command[0] for call in calls}
    parsers = {name: callbacks[name] for name in names if name in callbacks}
    connection: Any = pool.get_connection()

    def read(call: Call[Any], arrived: Callable[[], Any]) -> Any:
        """The reply to a call; the server's error is returned, not raised."""
        try:
            if (reply := arrived()) is NONE_ARRIVED:
                reply = connection.read_response(disable_decoding=True)
            name = call.command[0]
            return parsers[name](reply, **call.options) if name in parsers else reply
        except rx.ResponseError as error:
            return error.with_traceback(None)

    def exchanged() -> list[Any]:
        packed: list[bytes] = [pack_command(cast(Any, words)) for words in commands]
        connection.send_packed_command([b"".join(packed)])
        try:
            parser = connection._parser
            arrived = getattr(parser, "arrived", lambda: NONE_ARRIVED)
            return [read(call, arrived) for call in calls]
        except BaseException:
            connection.disconnect()  # replies may be on their way
            raise

    try:
        replies: list[Any] = connection.retry.call_with_retry(
            exchanged, lambda _: connection.disconnect()
        )
        return replies
    finally:
        pool.release(connection)


def _pipeline(client: Any, calls: Round, commands: list[tuple[Arg, ...]]) -> Any:
    pipe = client.pipeline()
    for call, command in zip(calls, commands, strict=True):
        options: dict[str, Any] = {"NEVER_DECODE": True, **call.options}
        if call.key is not None:
            # Left to itself the cluster pipeline asks COMMAND GETKEYS once per EVALSHA.
            options["target_nodes"] = client.get_node_from_key(call.route)
        pipe.execute_command(*command, **options)
    return pipe


async def aexchange(client: AsyncClient, calls: Round) -> list[Any]:
    """`exchange` for an asyncio client."""
    if not any(call.cut for call in calls):
        return await _aexchange(client, calls)
    replies: list[Any] = [None] * len(calls)
    for part, way in _parts(calls):
        with way:
            sent = await _aexchange(client, tuple(calls[i] for i in part))
        for i, reply in zip(part, sent, strict=True):
            replies[i] = reply
    return replies


async def _aexchange(client: AsyncClient, calls: Round) -> list[Any]:
    task = asyncio.current_task()
    cancels = (
        0 if task is None else task.cancelling()
    )  # more than 0 while a cancelled task cleans up
    replies = await _asend(client, calls, [call.outgoing for call in calls])
    if again := _missing(calls, replies):
        subset = tuple(calls[i] for i in again)
        sent = await _asend(client, subset, [call.spelled_out() for call in subset])
        for i, reply in zip(again, sent, strict=True):
            replies[i] = reply
    if task is not None and task.cancelling() > cancels:
        # Python 3.11 loses a cancel that lands while redis-py is sending under a time-out.
        raise asyncio.CancelledError
    return replies


async def _asend(client: Any, calls: Round, commands: list[tuple[Arg, ...]]) -> list[Any]:
    cluster = hasattr(client, "nodes_manager")
    if cluster and (asked := _apart(calls, commands)):
        await client.initialize()
        return await aby_node(client, asked)
    if len(commands) == 1:
        try:
            only: dict[str, Any] = {"NEVER_DECODE": True, **calls[0].options}
            return [await client.execute_command(*commands[0], **only)]
        except rx.ResponseError as error:
            return [error.with_traceback(None)]
    if isinstance(client, aredis.Redis):
        return _complete(await _asend_round(client, calls, commands))
    await client.initialize()  # learns the slots, once
    pipe = _pipeline(client, calls, commands)
    return _complete(await pipe.execute(raise_on_error=False))


async def _asend_round(client: Any, calls: Round, commands: list[tuple[Arg, ...]]) -> list[Any]:
    """A round on one connection of a client of one server; sent again as redis-py would.

    redis-py's pipeline takes twice the CPU time: it prepares every command, and sets a timer for
    every reply.
    """
    pool: Any = client.connection_pool
    connection: Any = await pool.get_connection()

    async def exchanged() -> list[Any]:
        packed: list[bytes] = [pack_command(cast(Any, words)) for words in commands]
        await connection.send_packed_command(b"".join(packed))
        try:
            return await _read_round(client, connection, calls)
        except BaseException:
            await connection.disconnect(nowait=True)  # replies may be on their way
            raise

    async def lost(_: Exception) -> None:
        await connection.disconnect()

    try:
        found: list[Any] = await connection.retry.call_with_retry(exchanged, lost)
        return found
    finally:
        await pool.release(connection)


async def _read_reply(connection: Any, call: Call[Any], parsers: Mapping[Any, Any]) -> Any:
    """The reply to a call; the server's error is returned, not raised."""
    try:
        reply = await connection.read_response(disable_decoding=True, timeout=inf)
        name = call.command[0]
        return parsers[name](reply, **call.options) if name in parsers else reply
    except rx.ResponseError as error:
        return error.with_traceback(None)


async def _read_round(client: Any, connection: Any, calls: Round) -> list[Any]:
    """The replies of a round. The time-out begins anew with each reply."""
    replies, parsers, loop = list[Any](), client.response_callbacks, asyncio.get_running_loop()
    patience: float | None = connection.socket_timeout
    began = loop.time()
    try:
        async with asyncio.timeout(patience) as limit:
            for call in calls:
                replies.append(await _read_reply(connection, call, parsers))
                if patience is not None and (now := loop.time()) - began > patience / 10:
                    began = now
                    limit.reschedule(now + patience)
    except TimeoutError as late:
        raise rx.TimeoutError("no reply in time") from late
    return replies
