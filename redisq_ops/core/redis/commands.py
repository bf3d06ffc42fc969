"""Descriptions of commands, without I/O: calls, and how to run several side by side."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, cast, overload

from ..model.errors import (
    CORRUPT,
    Forbidden,
    RedisqError,
    Unreachable,
    Unreadable,
    WrongKind,
)
from ..model.quoting import bytes_of
from .acl_denial import READS
from .server_errors import translate

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

Arg = bytes | str | int | float


_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class Call(NamedTuple, Generic[T]):
    """One command, and how to read its reply.

    ``key`` routes it on a cluster. ``source`` is the Lua text of an EVALSHA, sent only when the
    server answers NOSCRIPT (nothing had run then, so sending it again is safe).
    """

    # A tuple: a reader of many entries makes one per entry and more, and a frozen dataclass takes
    # four times as long to make.
    command: tuple[Arg, ...]
    read: Callable[[Any], T]
    key: str | bytes | None = None
    source: str | None = None
    options: Mapping[str, Any] = _NO_OPTIONS
    """options for redis-py's own parser of the reply"""
    absent: str | None = None
    """an error that begins with this text says that the key is absent; then ``read`` gets None"""
    apart: bool = False
    """set by `apart`: the loss of a cluster node is this description's own failure"""
    ready: int = 0
    """how many words at the beginning of the command are sent as they are"""
    cut: bool = False
    """too long elements of the reply arrive cut (`cut_replies`); they must only be shown"""

    def __await__(self) -> Generator[Round, Replies, T]:
        (reply,) = yield (self,)
        return self.result(reply)

    def result(self, reply: Any) -> T:
        """The value of a raw reply; an error reply is raised as a `RedisqError`."""
        if isinstance(reply, Exception):
            if self.absent is not None and str(reply).startswith(self.absent):
                return self.read(None)
            raise self._error(reply)
        try:
            return self.read(reply)
        except CORRUPT as corrupt:
            if isinstance(corrupt, RedisqError):
                raise
            raise Unreadable(f"key {self._place} holds a corrupt value") from corrupt

    def _error(self, reply: Exception) -> Exception:
        """What is raised. A frame of its traceback that named it would keep it, and the round, in
        memory until the garbage collector comes."""
        error = translate(reply)
        if isinstance(error, WrongKind) and self.source is None and self.key:
            cause, error = error.__cause__, WrongKind(f"{error}: {self._place}")
            error.__cause__ = cause  # a script names the key itself
        if isinstance(error, Forbidden) and error.denial and error.denial.kind == "key":
            reads = self.source is None and str(self.command[0]).lower() in READS
            error.tell(names=self._keys, reads=reads)
        error.add_note(f"in {self.command[0]!s} {self.key or ''!s}")
        return error

    @property
    def _keys(self) -> tuple[str, ...]:
        """The keys of a script; of another command the first one."""
        if self.source is None:
            return (self._place,) if self.key else ()
        names = self.command[3 : 3 + int(self.command[2])]
        return tuple(n.decode(errors="replace") if isinstance(n, bytes) else str(n) for n in names)

    @property
    def _place(self) -> str:
        key = self.key or ""
        return key if isinstance(key, str) else key.decode(errors="replace")

    def set_apart(self) -> Call[T]:
        """The same call as a part of `apart`."""
        return self._replace(apart=True)

    def shortened(self) -> Call[T]:
        """The same call as a part of `shortened`; a script's reply stays whole."""
        return self if self.cut or self.source is not None else self._replace(cut=True)

    def spelled_out(self) -> tuple[Arg, ...]:
        """The same call with its script's text in place of the digest."""
        assert self.source is not None
        return ("EVAL", self.source, *self.outgoing[2:])

    @property
    def outgoing(self) -> tuple[Arg, ...]:
        """The command as it is sent: names as their bytes, numbers as text.

        hiredis would convert numbers itself, and Ctrl+C during that kills the interpreter.
        """
        ready, command = self.ready, self.command
        if ready == len(command):
            return command
        return (
            *command[:ready],
            *[
                word
                if type(word) is bytes or (type(word) is str and word.isascii())
                else _sent(word)
                for word in command[ready:]
            ],
        )

    @property
    def route(self) -> str | bytes | None:
        """The key by which a cluster client finds the node."""
        return bytes_of(self.key) if isinstance(self.key, str) else self.key


def _sent(word: Arg) -> Arg:
    if isinstance(word, str):
        return bytes_of(word)
    return str(word) if isinstance(word, (int, float)) else word


Round = tuple[Call[Any], ...]
Replies = Sequence[Any]
Description = Call[T] | Coroutine[Any, Any, T]


class RoundTrip:
    """Awaitable form of a whole round."""

    def __init__(self, calls: Round) -> None:
        self.calls = calls

    def __await__(self) -> Generator[Round, Replies, Replies]:
        return (yield self.calls)


def has_errors(replies: Replies) -> bool:
    """Whether a reply is an error. Asks by type, since most rounds of many replies have none."""
    return any(issubclass(kind, Exception) for kind in {*map(type, replies)})


def coroutine_of(description: Description[T]) -> Coroutine[Any, Any, T]:
    return _value(description) if isinstance(description, Call) else description


async def _value(call: Call[T]) -> T:
    return await call


@overload
async def together(one: Iterable[Description[T]], /) -> list[T]: ...
@overload
async def together(one: Description[A], two: Description[T], /) -> tuple[A, T]: ...
@overload
async def together(
    one: Description[A], two: Description[B], three: Description[T], /
) -> tuple[A, B, T]: ...
@overload
async def together(
    one: Description[A], two: Description[B], three: Description[C], four: Description[T], /
) -> tuple[A, B, C, T]: ...
@overload
async def together(
    one: Description[A],
    two: Description[B],
    three: Description[C],
    four: Description[D],
    five: Description[T],
    /,
) -> tuple[A, B, C, D, T]: ...
async def together(first: Any, /, *others: Description[Any]) -> Any:
    """Run descriptions side by side: round k of all of them is one round trip.

    Takes many descriptions of one type, and returns a list; or as arguments two to five of
    different types, and returns a tuple.
    """
    several: list[Description[Any]] = [first, *others] if others else list(first)
    results: list[Any] = [None] * len(several)
    waiting: list[tuple[int, Round]] = []
    try:
        for index, one in enumerate(several):
            if isinstance(one, Call):  # most are, and need no coroutine
                waiting.append((index, (one,)))
            else:
                _advance(one, None, index, results, waiting)
        while waiting:
            now, waiting = waiting, []
            replies = await RoundTrip(tuple([call for _, calls in now for call in calls]))
            start = 0
            for index, calls in now:
                one = several[index]
                if isinstance(one, Call):
                    results[index] = one.result(replies[start])
                    start += 1
                    continue
                part = replies[start : start + len(calls)]
                start += len(calls)
                _advance(one, part, index, results, waiting)
    finally:
        for one in several:
            if not isinstance(one, Call):
                one.close()
    return tuple(results) if others else results


async def attempts(calls: Sequence[Call[T]]) -> list[T | Exception]:
    """`attempt` for each of many calls, without a coroutine for each."""
    replies = await RoundTrip(tuple(calls)) if calls else ()
    found: list[T | Exception] = []
    for call, reply in zip(calls, replies, strict=True):
        try:
            found.append(call.result(reply))
        except Unreachable:
            raise
        except Exception as error:
            found.append(error)
    return found


async def attempt_reads(calls: Sequence[Call[T]]) -> list[T | Exception]:
    """`attempt_read` for each of many calls."""
    found = await attempts(calls)
    for each in found:
        if isinstance(each, Forbidden):
            raise each
    return found


async def in_batches(descriptions: Iterable[Description[T]], size: int = 100) -> list[T]:
    """`together` for many descriptions, ``size`` of them at a time."""
    left, found = iter(descriptions), list[T]()
    while some := list(islice(left, size)):
        found += await together(some)
    return found


def _advance(
    coroutine: Coroutine[Any, Any, Any],
    replies: Replies | None,
    index: int,
    results: list[Any],
    waiting: list[tuple[int, Round]],
) -> None:
    try:
        waiting.append((index, checked(coroutine.send(replies))))
    except StopIteration as stop:
        results[index] = stop.value


async def attempt(description: Description[T]) -> T | Exception:
    """The result, or the error as a value: one broken queue doesn't hide the others."""
    try:
        return await description
    except Unreachable:  # the server is down, not only this queue
        raise
    except Exception as error:
        return error


async def attempt_read(description: Description[T]) -> T | Exception:
    """As `attempt`, but a missing right is raised, because it says nothing about the data."""
    found = await attempt(description)
    if isinstance(found, Forbidden):
        raise found
    return found


class _Driven(Generic[T]):
    """A description whose rounds are sent in another way: by `_sent`."""

    def __init__(self, description: Description[T]) -> None:
        self._description = description

    def _sent(self, calls: Round) -> Generator[Round, Replies, Replies]:
        return (yield calls)

    def __await__(self) -> Generator[Round, Replies, T]:
        coroutine = coroutine_of(self._description)
        advance: Callable[[], Any] = partial(coroutine.send, None)
        try:
            while True:
                try:
                    calls = checked(advance())
                except StopIteration as stop:
                    return cast(T, stop.value)  # untyped in typeshed
                try:
                    advance = partial(coroutine.send, (yield from self._sent(calls)))
                except GeneratorExit:
                    raise
                except BaseException as error:  # the description's own `except` and `finally`
                    advance = partial(coroutine.throw, error)
        finally:
            coroutine.close()


async def apart(description: Description[T]) -> T | Exception:
    """As `attempt`; also the loss of a cluster node is an error only of calls that need that node.

    For reads only: the others continue, although part of the round got no reply. Together with
    descriptions that aren't `apart`, a round with a lost node fails as a whole.
    """
    return await _Apart(description)


class _Apart(Generic[T]):
    def __init__(self, description: Description[T]) -> None:
        self._description = description

    def __await__(self) -> Generator[Round, Replies, T | Exception]:
        coroutine = coroutine_of(self._description)
        replies: Replies | None = None
        try:
            while True:
                try:
                    calls = checked(coroutine.send(replies))
                except StopIteration as stop:
                    return cast(T, stop.value)  # untyped in typeshed
                except Exception as error:
                    return error
                # An exception raised here concerns the server, and goes to the caller.
                replies = yield tuple([call.set_apart() for call in calls])
        finally:
            coroutine.close()


async def shortened(description: Description[T]) -> T:
    """The same reads; elements of replies that are too long arrive cut, as with `Call.cut`."""
    return await _Shortened(description)


class _Shortened(_Driven[T]):
    def _sent(self, calls: Round) -> Generator[Round, Replies, Replies]:
        return (yield tuple([call.shortened() for call in calls]))


class TimedRounds(_Driven[T]):
    """A description whose rounds are timed: `longest_s` are the seconds of the longest one."""

    def __init__(self, description: Description[T], clock: Callable[[], float]) -> None:
        super().__init__(description)
        self._clock = clock
        self.longest_s = 0.0

    def _sent(self, calls: Round) -> Generator[Round, Replies, Replies]:
        began = self._clock()
        try:
            return (yield calls)
        finally:
            self.longest_s = max(self.longest_s, self._clock() - began)


_CALLS = {Call}


def checked(asked: Any) -> Round:
    """The round that a description asks for; raises TypeError where it awaits anything else."""
    if type(asked) is tuple and {*map(type, asked)} <= _CALLS:
        return asked
    raise TypeError("an operation may await Calls and other operations only")
