"""One description of an operation, three ways to run it.

An operation is described free of I/O: a frozen `Call` (what goes out, how the reply is read) or,
where a second round trip depends on the first, an ``async def`` that awaits Calls. The same
description then runs

* blocking, on a blocking client:      ``queue.counts()``
* awaited, on an asyncio client:       ``await queue.counts()``
* beside others in one round trip:     ``run(client, together([a.counts.op(), b.counts.op()]))``

on one server, Sentinel or Cluster. `operation` makes a method of the first two from one
definition, typed by the client the queue was given; ``.op(...)`` is the description itself.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

import redis
import redis.asyncio as aredis
import redis.exceptions as rx

from .errors import CHANGING, RedisqError, Unreachable, Unreadable, WrongKind, translate
from .nodes import Asked, aby_node, by_node
from .quoting import bytes_of

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
T_co = TypeVar("T_co", covariant=True)

Arg = bytes | str | int | float
BlockingClient = redis.Redis | redis.RedisCluster
AsyncClient = aredis.Redis | aredis.RedisCluster
Client = BlockingClient | AsyncClient
C_co = TypeVar("C_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One command and the way to read its reply.

    ``key`` routes it on a cluster. ``source`` is the Lua text of an EVALSHA, sent only when the
    server answers NOSCRIPT (nothing had run then, so sending it again is safe).
    """

    command: tuple[Arg, ...]
    read: Callable[[Any], T]
    key: str | bytes | None = None
    source: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """for redis-py's own reading of the reply"""
    absent: str | None = None
    """an error that begins so means "nothing there" and reads as None"""
    follows: Callable[[], Call[Any] | None] | None = field(default=None, compare=False)
    """makes the call that comes next, or nothing: it is sent while the server is at this one, where
    a blocking client talks to one server, else it isn't asked for. So it must be safe to send
    again, as it is where its reply is lost; and what it does is done, whoever asks for it or not"""
    apart: bool = False
    """of a description run by `apart`: a lost node of a cluster is its own failure"""

    def __await__(self) -> Generator[Round, Replies, T]:
        (reply,) = yield (self,)
        return self.result(reply)

    def result(self, reply: Any) -> T:
        """The value of a raw reply; an error reply is raised in our words."""
        if isinstance(reply, Exception):
            if self.absent is not None and str(reply).startswith(self.absent):
                return self.read(None)
            error = translate(reply)
            if isinstance(error, WrongKind) and self.source is None and self.key:
                cause, error = error.__cause__, WrongKind(f"{error}: {self._place}")
                error.__cause__ = cause  # (a script says it itself, if it knows)
            error.add_note(f"in {self.command[0]!s} {self.key or ''!s}")
            raise error
        try:
            return self.read(reply)
        except ValueError as spoilt:
            if isinstance(spoilt, RedisqError):
                raise
            raise Unreadable(f"what stands in key {self._place} can't be read") from spoilt

    @property
    def _place(self) -> str:
        key = self.key or ""
        return key if isinstance(key, str) else key.decode(errors="replace")

    def spelled_out(self) -> tuple[Arg, ...]:
        """The same call with its script's text in place of the digest."""
        assert self.source is not None
        return ("EVAL", self.source, *self.outgoing[2:])

    @property
    def outgoing(self) -> tuple[Arg, ...]:
        """The command as it is sent: names that are no UTF-8 are their bytes again, and numbers are
        text. hiredis would make it of them, and a Ctrl+C just then kills the interpreter."""
        return tuple([word if type(word) is bytes else _sent(word) for word in self.command])

    @property
    def route(self) -> str | bytes | None:
        """The key by which a cluster client finds the node."""
        return bytes_of(self.key) if isinstance(self.key, str) else self.key


def _sent(word: Arg) -> Arg:
    if isinstance(word, str):
        return word if word.isascii() else bytes_of(word)
    return str(word) if isinstance(word, (int, float)) else word


Round = tuple[Call[Any], ...]
Replies = Sequence[Any]
Description = Call[T] | Coroutine[Any, Any, T]


class _Ask:
    """Awaitable form of a whole round, for `together`."""

    def __init__(self, calls: Round) -> None:
        self.calls = calls

    def __await__(self) -> Generator[Round, Replies, Replies]:
        return (yield self.calls)


async def _value(call: Call[T]) -> T:
    return await call


async def together(descriptions: Iterable[Description[T]]) -> list[T]:
    """Run descriptions side by side: round k of all of them is one exchange with the server."""
    coroutines = [_value(d) if isinstance(d, Call) else d for d in descriptions]
    results: list[Any] = [None] * len(coroutines)
    waiting: list[tuple[int, Round]] = []
    try:
        for index, coroutine in enumerate(coroutines):
            _advance(coroutine, None, index, results, waiting)
        while waiting:
            now, waiting = waiting, []
            replies = await _Ask(tuple(call for _, calls in now for call in calls))
            start = 0
            for index, calls in now:
                part = replies[start : start + len(calls)]
                start += len(calls)
                _advance(coroutines[index], part, index, results, waiting)
    finally:
        for coroutine in coroutines:
            coroutine.close()
    return results


async def both(one: Description[A], two: Description[B]) -> tuple[A, B]:
    """`together` for two descriptions of different kinds."""
    first, second = await together(cast("list[Description[Any]]", [one, two]))
    return first, second


def _advance(
    coroutine: Coroutine[Any, Any, Any],
    replies: Replies | None,
    index: int,
    results: list[Any],
    waiting: list[tuple[int, Round]],
) -> None:
    try:
        waiting.append((index, _checked(coroutine.send(replies))))
    except StopIteration as stop:
        results[index] = stop.value


async def attempt(description: Description[T]) -> T | Exception:
    """The value, or the error as a value: one broken queue must not hide the other 199."""
    try:
        return await description
    except Unreachable:  # then it is the server, not this queue
        raise
    except Exception as error:
        return error


async def apart(description: Description[T]) -> T | Exception:
    """As `attempt`, and where a cluster lost a node that is the error of what needs that node.

    For what only reads: the others go on, although part of the round wasn't heard. Gathered with
    descriptions that aren't apart, a round with a lost node fails as a whole all the same.
    """
    return await _Apart(description)


class _Apart(Generic[T]):
    def __init__(self, description: Description[T]) -> None:
        self._description = description

    def __await__(self) -> Generator[Round, Replies, T | Exception]:
        whole = self._description
        coroutine = _value(whole) if isinstance(whole, Call) else whole
        replies: Replies | None = None
        try:
            while True:
                try:
                    calls = _checked(coroutine.send(replies))
                except StopIteration as stop:
                    return cast(T, stop.value)
                except Exception as error:
                    return error
                # What is thrown in here is the server's trouble, and goes on to who runs this.
                replies = yield tuple(replace(call, apart=True) for call in calls)
        finally:
            coroutine.close()


def _checked(asked: Any) -> Round:
    if isinstance(asked, tuple) and all(isinstance(call, Call) for call in asked):
        return asked
    raise TypeError("an operation may await Calls and other operations only")


def run(client: BlockingClient, description: Description[T]) -> T:
    """Run a description on a blocking client."""
    if isinstance(description, Call):
        try:
            return description.result(_exchange(client, (description,))[0])
        except (rx.RedisError, rx.RedisClusterException) as error:
            raise translate(error) from error
        except BaseException as error:
            _interrupted(client, error)
            raise
    line: _Line | None = None
    try:
        calls = _checked(description.send(None))
        while True:
            try:
                alone = len(calls) == 1 and calls[0].follows is not None
                if alone and isinstance(client, redis.Redis):
                    line = line or _Line(client)
                    replies: Replies = line.exchange(calls)
                else:
                    replies = _exchange(client, calls)
            except BaseException as error:
                _interrupted(client, error)
                # Thrown in at the await, so that `finally` and `except` in an operation work.
                calls = _checked(description.throw(_outward(error)))
            else:
                calls = _checked(description.send(replies))
    except StopIteration as stop:
        return cast(T, stop.value)
    finally:
        description.close()
        if line is not None:
            line.close()


async def arun(client: AsyncClient, description: Description[T]) -> T:
    """Run a description on an asyncio client."""
    if isinstance(description, Call):
        try:
            return description.result((await _aexchange(client, (description,)))[0])
        except (rx.RedisError, rx.RedisClusterException) as error:
            raise translate(error) from error
    try:
        calls = _checked(description.send(None))
        while True:
            try:
                replies = await _aexchange(client, calls)
            except BaseException as error:
                calls = _checked(description.throw(_outward(error)))
            else:
                calls = _checked(description.send(replies))
    except StopIteration as stop:
        return cast(T, stop.value)
    finally:
        description.close()


def _interrupted(client: BlockingClient, error: BaseException) -> None:
    """After Ctrl+C hang up: a reply may be on its way, or a greeting half said, and redis-py would
    take that for the reply to whatever comes next."""
    if isinstance(error, Exception):
        return
    lines: Any = client  # partly untyped in redis-py
    if isinstance(client, redis.RedisCluster):
        lines.disconnect_connection_pools()
    else:
        lines.connection_pool.disconnect()


def _outward(error: BaseException) -> BaseException:
    return translate(error) if isinstance(error, Exception) else error


def _missing(calls: Round, replies: Replies) -> list[int]:
    return [
        i
        for i, reply in enumerate(replies)
        if isinstance(reply, rx.NoScriptError) and calls[i].source is not None
    ]


def _exchange(client: BlockingClient, calls: Round) -> list[Any]:
    replies = _send(client, calls, [call.outgoing for call in calls])
    if again := _missing(calls, replies):
        subset = tuple(calls[i] for i in again)
        told = _send(client, subset, [call.spelled_out() for call in subset])
        for i, reply in zip(again, told, strict=True):
            replies[i] = reply
    return replies


class _Line:
    """A connection kept while one description runs, for calls that tell what follows them.

    What follows is sent while the server is at the call before it, so that the server needn't wait
    for us. Two are on their way at a time, never more: others may have to wait for both.
    """

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._connection: Any = None
        self._ahead: Call[Any] | None = None
        """sent, and its reply not read"""

    def exchange(self, calls: Round) -> Replies:
        try:
            reply = self._reply(calls[0])
            if isinstance(reply, rx.NoScriptError):
                self._drop()
        except (rx.ConnectionError, rx.TimeoutError):
            return _exchange(self._client, calls)  # from the beginning, with redis-py's retries
        return _exchange(self._client, calls) if isinstance(reply, rx.NoScriptError) else [reply]

    def _reply(self, call: Call[Any]) -> Any:
        if self._connection is None:
            pool: Any = self._client.connection_pool
            self._connection = pool.get_connection()
        try:
            if self._ahead is not call:
                self._drop()
                self._send(call)
            elif not self._connection.is_connected:  # or what follows would open it anew
                raise rx.ConnectionError("closed while a reply was on its way")
            self._ahead = None
            following = call.follows() if call.follows is not None else None
            if following is not None:
                self._send(following)
                self._ahead = following
            return self._read()
        except BaseException:
            self._abandon()
            raise

    def _send(self, call: Call[Any]) -> None:
        connection = self._connection
        # A PING of redis-py's own would get the reply of what is on its way.
        connection.send_packed_command(connection.pack_command(*call.outgoing), check_health=False)

    def _read(self) -> Any:
        try:
            return self._connection.read_response(disable_decoding=True)
        except rx.ResponseError as error:
            return error

    def _drop(self) -> None:
        """Read the reply that nobody asked for: it would be taken for the next one's."""
        if self._ahead is not None:
            self._ahead = None
            try:
                self._read()
            except BaseException:
                self._abandon()
                raise

    def _abandon(self) -> None:
        """A reply may be on its way that nobody will read."""
        self._ahead = None
        if self._connection is not None:
            self._connection.disconnect()
            self._release()

    def close(self) -> None:
        with suppress(rx.ConnectionError, rx.TimeoutError):
            self._drop()
        self._release()

    def _release(self) -> None:
        if self._connection is not None:
            self._client.connection_pool.release(self._connection)
            self._connection = None


def _heard(replies: Iterable[Any]) -> list[Any]:
    """A round's replies; a node that was lost or lost its slots on the way is the round's failure.

    The cluster pipelines put it among the replies instead, where half a round would be kept.
    """
    heard = list(replies)
    for reply in heard:
        if isinstance(reply, (rx.ConnectionError, rx.TimeoutError, *CHANGING)):
            raise reply
    return heard


def _apart(calls: Round, commands: list[tuple[Arg, ...]]) -> list[Asked] | None:
    """The round for `nodes`, where every call of it is one of `apart`."""
    if not all(call.apart for call in calls):
        return None
    return [
        Asked(command, call.route, {"NEVER_DECODE": True, **call.options})
        for call, command in zip(calls, commands, strict=True)
    ]


def _send(client: Any, calls: Round, commands: list[tuple[Arg, ...]]) -> list[Any]:
    cluster = isinstance(client, redis.RedisCluster)
    if cluster and (asked := _apart(calls, commands)):
        return by_node(client, asked)
    if len(commands) == 1:
        try:
            return [client.execute_command(*commands[0], NEVER_DECODE=True, **calls[0].options)]
        except rx.ResponseError as error:
            return [error]
    pipe = client.pipeline() if cluster else client.pipeline(transaction=False)
    for call, command in zip(calls, commands, strict=True):
        options: dict[str, Any] = {"NEVER_DECODE": True, **call.options}
        if cluster and call.key is not None:
            # Left to itself the cluster pipeline asks COMMAND GETKEYS once per EVALSHA.
            options["target_nodes"] = client.get_node_from_key(call.route)
        pipe.execute_command(*command, **options)
    return _heard(pipe.execute(raise_on_error=False))


async def _aexchange(client: AsyncClient, calls: Round) -> list[Any]:
    replies = await _asend(client, calls, [call.outgoing for call in calls])
    if again := _missing(calls, replies):
        subset = tuple(calls[i] for i in again)
        told = await _asend(client, subset, [call.spelled_out() for call in subset])
        for i, reply in zip(again, told, strict=True):
            replies[i] = reply
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        # Python 3.11 loses a cancel that lands while redis-py is sending under a time-out.
        raise asyncio.CancelledError
    return replies


async def _asend(client: Any, calls: Round, commands: list[tuple[Arg, ...]]) -> list[Any]:
    cluster = isinstance(client, aredis.RedisCluster)
    if cluster and (asked := _apart(calls, commands)):
        await client.initialize()
        return await aby_node(client, asked)
    if len(commands) == 1:
        try:
            only: dict[str, Any] = {"NEVER_DECODE": True, **calls[0].options}
            return [await client.execute_command(*commands[0], **only)]
        except rx.ResponseError as error:
            return [error]
    if cluster:
        await client.initialize()  # learns the slots, once
    pipe = client.pipeline() if cluster else client.pipeline(transaction=False)
    for call, command in zip(calls, commands, strict=True):
        options: dict[str, Any] = {"NEVER_DECODE": True, **call.options}
        if cluster and call.key is not None:
            options["target_nodes"] = client.get_node_from_key(call.route)
        pipe.execute_command(*command, **options)
    return _heard(await pipe.execute(raise_on_error=False))


class Bound(Generic[C_co]):
    """Something that holds the client its operations run on (``None``: descriptions only)."""

    def __init__(self, client: C_co) -> None:
        if hasattr(client, "command_stack"):
            raise TypeError("a pipeline can't be a queue's client: use together() to gather calls")
        self._client = client

    @property
    def client(self) -> C_co:
        return self._client


class Blocking(Generic[P, T_co]):
    """A bound operation on a blocking client."""

    __slots__ = ("_client", "op")

    def __init__(self, client: BlockingClient, op: Callable[P, Description[T_co]]) -> None:
        self._client = client
        self.op = op

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        return run(self._client, self.op(*args, **kwargs))


class Awaited(Generic[P, T_co]):
    """A bound operation on an asyncio client."""

    __slots__ = ("_client", "op")

    def __init__(self, client: AsyncClient, op: Callable[P, Description[T_co]]) -> None:
        self._client = client
        self.op = op

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        return await arun(self._client, self.op(*args, **kwargs))


class Described(Generic[P, T_co]):
    """A bound operation without a client: only its description."""

    __slots__ = ("op",)

    def __init__(self, op: Callable[P, Description[T_co]]) -> None:
        self.op = op


class operation(Generic[P, T_co]):
    """Make a method that returns a description run itself on the object's client."""

    def __init__(self, function: Callable[Concatenate[Any, P], Description[T_co]]) -> None:
        self._function = function
        self.__isabstractmethod__ = getattr(function, "__isabstractmethod__", False)
        functools.update_wrapper(cast(Any, self), function)

    @overload
    def __get__(
        self, instance: None, owner: type
    ) -> Callable[Concatenate[Any, P], Description[T_co]]: ...
    @overload
    def __get__(self, instance: Bound[BlockingClient], owner: type) -> Blocking[P, T_co]: ...
    @overload
    def __get__(self, instance: Bound[AsyncClient], owner: type) -> Awaited[P, T_co]: ...
    @overload
    def __get__(self, instance: Bound[Any], owner: type) -> Described[P, T_co]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._function  # help() and inspect.signature look here
        op = functools.partial(self._function, instance)
        client = instance.client
        if client is None:
            return Described(op)
        if isinstance(client, (aredis.Redis, aredis.RedisCluster)):
            return Awaited(client, op)
        return Blocking(client, op)
