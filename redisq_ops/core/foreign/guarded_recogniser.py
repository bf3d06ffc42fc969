"""How a kind that another package brings takes part in a scan, without breaking it."""

from __future__ import annotations

import signal
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar

from ..engine.queue_classes import plug_in_class
from ..model.errors import RedisqError, Refused
from ..redis.key_scan import Lane
from .plug_ins import plug_ins, refused
from .recogniser import Find, KeyLook, Recogniser, recognisers_in

T = TypeVar("T")
LONGEST_S = 5
"""seconds of processor time that a recogniser may use at once"""


class Guarded(Recogniser):
    """The recognisers of a kind of another package; their first error removes all of them."""

    lanes: ClassVar[tuple[Lane, ...]] = ()

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.problem: str | None = None
        """why the kind isn't looked for"""
        self._own: list[Recogniser] = []
        self._own = self._told(lambda: _recognisers_of(kind), [])

    def wanted(self) -> tuple[Lane, ...]:
        return tuple(lane for one in self._own for lane in one.wanted())

    async def by_name(self, look: KeyLook) -> bool:
        return any(await self._asked(lambda one: one.by_name(look)))

    async def by_content(self, look: KeyLook) -> bool:
        return any(await self._asked(lambda one: one.by_content(look)))

    async def finds(self) -> list[Find]:
        found = await self._asked(lambda one: one.finds())
        return self._told(lambda: [self._checked(find) for find in chain.from_iterable(found)], [])

    def _checked(self, found: Any) -> Find:
        if isinstance(found, Find) and found.kind == self._kind:
            return found
        raise TypeError(f"its recogniser finds {found!r}, and no queue of kind {self._kind}")

    def owns(self, key: bytes) -> bool:
        return self._told(lambda: any(one.owns(key) for one in self._own), False)

    def unread(self) -> Mapping[str, Collection[bytes]]:
        return self._told(lambda: dict(ChainMap(*(dict(one.unread()) for one in self._own))), {})

    async def _asked(self, ask: Callable[[Recogniser], Coroutine[Any, Any, T]]) -> list[T]:
        try:
            return [await _Watched(ask(one)) for one in self._own]
        except RedisqError:  # the key or the server is at fault
            raise
        except (Exception, SystemExit) as error:
            self._fails(error)
            return []

    def _told(self, tell: Callable[[], T], instead: T) -> T:
        try:
            with _watched():
                return tell()
        except (Exception, SystemExit) as error:
            self._fails(error)
            return instead

    def _fails(self, error: BaseException) -> None:
        self._own = []
        if not isinstance(error, Refused):
            error = refused(plug_ins()[self._kind], f"{type(error).__name__}: {error}")
        self.problem = str(error)


class _Watched(Generic[T]):
    """A coroutine, each step of which is `_watched`."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        replies = None
        try:
            while True:
                try:
                    with _watched():
                        calls = self._coroutine.send(replies)
                except StopIteration as stop:
                    value: T = stop.value
                    return value
                replies = yield calls
        finally:
            self._coroutine.close()


@contextmanager
def _watched() -> Iterator[None]:
    """Sends what is printed to stderr, as a program may read stdout. In the main thread, raises
    TimeoutError after `LONGEST_S` of processor time."""
    with redirect_stdout(sys.stderr):
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGVTALRM, _too_slow)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)


def _too_slow(*_: Any) -> None:
    raise TimeoutError(f"its recogniser used the processor for {LONGEST_S} s")


def _recognisers_of(kind: str) -> list[Recogniser]:
    made = plug_in_class(kind)
    return [] if made is None else [each() for each in recognisers_in(f"{made.package}.recogniser")]
