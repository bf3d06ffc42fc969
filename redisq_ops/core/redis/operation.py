"""One description of an operation, three ways to run it.

An operation is described without I/O: a frozen `Call` (a command, and how to read its reply) or,
where a second round trip depends on the first, an ``async def`` that awaits Calls. The same
description runs

* blocking, on a blocking client:      ``queue.counts()``
* awaited, on an asyncio client:       ``await queue.counts()``
* with others in one round trip:       ``run(client, together([a.counts.op(), b.counts.op()]))``

on one server, Sentinel or Cluster. `operation` makes the method for the first two from one
definition, typed by the queue's client; ``.op(...)`` returns the description.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    overload,
)

import redis
import redis.asyncio as aredis
import redis.exceptions as rx

from ..model.errors import BadInput, Forbidden
from ..model.validation import validated
from .commands import (
    Arg,
    Call,
    Description,
    Replies,
    Round,
    TimedRounds,
    apart,
    attempt,
    attempt_read,
    attempt_reads,
    attempts,
    checked,
    coroutine_of,
    has_errors,
    in_batches,
    shortened,
    together,
)
from .server_errors import translate
from .transport import AsyncClient, BlockingClient, PinnedConnection, aexchange, exchange

__all__ = [
    "Arg",
    "AsyncClient",
    "BlockingClient",
    "Bound",
    "C_co",
    "Call",
    "Client",
    "Description",
    "PinnedConnection",
    "Replies",
    "Round",
    "TimedRounds",
    "apart",
    "arun",
    "attempt",
    "attempt_read",
    "attempt_reads",
    "attempts",
    "coroutine_of",
    "exchange",
    "in_batches",
    "mode",
    "operation",
    "run",
    "shortened",
    "together",
    "user",
]

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
C_co = TypeVar("C_co", covariant=True)

Client = BlockingClient | AsyncClient


class Connection(Protocol):
    """Sends rounds for a client."""

    def exchange(self, calls: Round) -> list[Any]: ...


def run(
    client: BlockingClient, description: Description[T], connection: Connection | None = None
) -> T:
    """Run a description on a blocking client; ``connection``: how it sends its rounds."""
    try:
        return _run(client, description, connection)
    except Forbidden as error:
        error.tell(user(client))
        raise


def _run(client: BlockingClient, description: Description[T], connection: Connection | None) -> T:
    if isinstance(description, Call):
        try:
            calls: Round = (description,)
            replies = connection.exchange(calls) if connection else exchange(client, calls)
            result: T = description.result(_signed(client, replies)[0])
            return result
        except (rx.RedisError, rx.RedisClusterException) as error:
            raise translate(error) from error
        except BaseException as error:
            _interrupted(client, error)
            raise
    try:
        calls = checked(description.send(None))
        while True:
            try:
                replies = connection.exchange(calls) if connection else exchange(client, calls)
            except BaseException as error:
                _interrupted(client, error)
                # Raised at the await, so that `finally` and `except` in an operation work.
                calls = checked(description.throw(_outward(error)))
            else:
                calls = checked(description.send(_signed(client, replies)))
    except StopIteration as stop:
        return cast(T, stop.value)  # untyped in typeshed
    finally:
        description.close()


async def arun(client: AsyncClient, description: Description[T]) -> T:
    """Run a description on an asyncio client."""
    try:
        return await _arun(client, description)
    except Forbidden as error:
        error.tell(user(client))
        raise


async def _arun(client: AsyncClient, description: Description[T]) -> T:
    if isinstance(description, Call):
        try:
            replies = await aexchange(client, (description,))
            result: T = description.result(_signed(client, replies)[0])
            return result
        except (rx.RedisError, rx.RedisClusterException) as error:
            raise translate(error) from error
    try:
        calls = checked(description.send(None))
        while True:
            try:
                replies = await aexchange(client, calls)
            except BaseException as error:
                calls = checked(description.throw(_outward(error)))
            else:
                calls = checked(description.send(_signed(client, replies)))
    except StopIteration as stop:
        return cast(T, stop.value)  # untyped in typeshed
    finally:
        description.close()


def _signed(client: Client, replies: list[Any]) -> list[Any]:
    """The replies. Those that refuse for lack of a right say to whom: some become values, and few
    servers name the user."""
    for i, reply in enumerate(replies if has_errors(replies) else ()):
        if isinstance(reply, rx.ResponseError) and isinstance(error := translate(reply), Forbidden):
            error.tell(user(client))
            replies[i] = error
    return replies


def user(client: Client) -> str:
    """The user name with which a client logs in; empty: unknown."""
    for holder in ("connection_pool", "nodes_manager"):
        known = getattr(getattr(client, holder, None), "connection_kwargs", None)
        if known is not None:
            return str(known.get("username") or "default")
    return ""


def _interrupted(client: BlockingClient, error: BaseException) -> None:
    """After Ctrl+C close the connections: redis-py would take a reply that is still on its way for
    the reply to the next command."""
    if isinstance(error, Exception):
        return
    lines: Any = client  # partly untyped in redis-py
    if isinstance(client, redis.RedisCluster):
        lines.disconnect_connection_pools()
    else:
        lines.connection_pool.disconnect()


def _outward(error: BaseException) -> BaseException:
    return translate(error) if isinstance(error, Exception) else error


def checked_client(client: T) -> T:
    """Return ``client``; raises `BadInput` or TypeError unless operations can run on it."""
    if hasattr(client, "command_stack"):
        raise TypeError("a pipeline can't be a queue's client: use together() to gather calls")
    if client is not None and not hasattr(client, "execute_command"):
        raise BadInput(
            f"a queue needs a client, not {type(client).__name__}: make one with connect(URL), "
            "or aconnect(URL) for asyncio"
        )
    return client


def mode(client: object) -> str:
    """How operations run on this client: blocking | async | no client."""
    if client is None:
        return "no client"
    return "async" if isinstance(client, (aredis.Redis, aredis.RedisCluster)) else "blocking"


class Bound(Generic[C_co]):
    """An object whose operations run on its client; with None they only make descriptions."""

    def __init__(self, client: C_co) -> None:
        self._client = checked_client(client)
        self._mode = mode(client)

    @property
    def client(self) -> C_co:
        """The client that runs the operations."""
        return self._client

    @property
    def on_cluster(self) -> bool:
        """Whether its keys may be on several servers."""
        return isinstance(self._client, (redis.RedisCluster, aredis.RedisCluster))


def _documentation(bound: BoundOperation[..., Any]) -> str | None:
    """The docstring of the method, or of the method it overrides."""
    method = bound._method
    methods = (vars(cls).get(method.func.__name__) for cls in type(method.args[0]).__mro__)
    doc = next((doc for each in methods if (doc := getattr(each, "__doc__", None))), None)
    return None if doc is None else inspect.cleandoc(doc)


class BoundOperation(Generic[P, T_co]):
    # An operation of one object. `help`, `inspect` and `repr` show the method it stands for; so its
    # subclasses, each of which has a ``__doc__`` of its own, have no docstring here.

    __slots__ = ("_client", "op")
    __doc__: Any = property(_documentation)

    def __init__(self, op: Callable[P, Description[T_co]], client: Any) -> None:
        self.op = op
        """makes the description, without running it"""
        self._client = client

    @property
    def _method(self) -> functools.partial[Any]:
        return cast("functools.partial[Any]", self.op)  # `operation` makes no others

    @property
    def __name__(self) -> str:
        return str(self._method.func.__name__)

    @property
    def __signature__(self) -> inspect.Signature:
        signature = _signature(self._method.func)
        return signature.replace(parameters=[*signature.parameters.values()][1:])

    def __repr__(self) -> str:
        return f"<{self.__name__}{self.__signature__} of {self._method.args[0]!r}>"

    def __get__(self, instance: object, owner: type) -> Self:
        """Makes help() treat the operation as a method: it shows its name and signature."""
        return self


class BlockingOperation(BoundOperation[P, T_co]):
    __slots__ = ()
    __doc__: Any = property(_documentation)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        return run(self._client, self.op(*args, **kwargs))


class AsyncOperation(BoundOperation[P, T_co]):
    __slots__ = ()
    __doc__: Any = property(_documentation)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co:
        return await arun(self._client, self.op(*args, **kwargs))


class DescribedOperation(BoundOperation[P, T_co]):
    __slots__ = ()
    __doc__: Any = property(_documentation)

    if not TYPE_CHECKING:  # for a checker it is no function

        def __call__(self, *args, **kwargs):
            raise BadInput("no client was given: make one with connect() or aconnect()")


class operation(Generic[P, T_co]):
    """Make a method that returns a description run itself on the object's client.

    On a blocking client ``queue.take(…)`` returns the result, on an asyncio client it returns an
    awaitable of it, and ``queue.take.op(…)`` always returns the description.
    """

    def __init__(self, function: Callable[Concatenate[Any, P], Description[T_co]]) -> None:
        self._function = validated(function)
        self._shown: Callable[..., Any] | None = None
        self.__isabstractmethod__ = getattr(function, "__isabstractmethod__", False)
        functools.update_wrapper(cast(Any, self), function)  # typed for functions only

    @overload
    def __get__(
        self, instance: None, owner: type
    ) -> Callable[Concatenate[Any, P], Description[T_co]]: ...
    @overload
    def __get__(
        self, instance: Bound[BlockingClient], owner: type
    ) -> BlockingOperation[P, T_co]: ...
    @overload
    def __get__(self, instance: Bound[AsyncClient], owner: type) -> AsyncOperation[P, T_co]: ...
    @overload
    def __get__(self, instance: Bound[Any], owner: type) -> DescribedOperation[P, T_co]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._of_class()
        op = functools.partial(self._function, instance)
        if instance._mode == "no client":
            return DescribedOperation(op, None)
        kind = AsyncOperation if instance._mode == "async" else BlockingOperation
        return kind(op, instance.client)

    def _of_class(self) -> Callable[..., Any]:
        """The function as a user of the class sees it: `help` shows what a call returns."""
        if self._shown is None:
            function = self._function

            @functools.wraps(function)
            def shown(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs)

            self._shown = shown
            vars(shown)["__signature__"] = _signature(function)
        return self._shown


class _Annotation(str):
    """An annotation as it is written in the source, shown without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


_DESCRIPTION = re.compile(r"(?:Call|Description)\[(.*)\]", re.DOTALL)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """A function's signature, with the type of its result in place of a description of it."""
    signature = inspect.signature(function)
    parameters = [
        each.replace(annotation=_Annotation(each.annotation))
        if isinstance(each.annotation, str)
        else each
        for each in signature.parameters.values()
    ]
    returns = signature.return_annotation
    if isinstance(returns, str):
        found = _DESCRIPTION.fullmatch(returns)
        returns = _Annotation(found[1] if found else returns)
    return signature.replace(parameters=parameters, return_annotation=returns)
