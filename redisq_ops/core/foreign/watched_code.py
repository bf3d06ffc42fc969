"""Code of packages beside redisq-ops while it runs: its prints are no output, its loops end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Generic, TypeVar

from ..model.errors import RedisqError
from .plug_ins import package_of, refused

T = TypeVar("T")
LONGEST_S = 5
"""seconds of processor time that such code may use between two round trips"""


async def guarded(kind: str, code: Coroutine[Any, Any, T]) -> T:
    """Run a kind's code. That of another package is watched, and its unexpected errors name it."""
    package = package_of(kind)
    if package is None:
        return await code
    try:
        return await Watched(code)
    except Exception as error:
        if isinstance(error, RedisqError):
            raise
        raise refused(package, f"{type(error).__name__}: {error}") from error


class Watched(Generic[T]):
    """A coroutine, each step of which is `watched`."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        replies = None
        try:
            while True:
                try:
                    with watched():
                        calls = self._coroutine.send(replies)
                except StopIteration as stop:
                    value: T = stop.value
                    return value
                replies = yield calls
        finally:
            self._coroutine.close()


@contextmanager
def watched() -> Iterator[None]:
    """Sends what is printed to stderr, as a program may read stdout. In the main thread, raises
    TimeoutError after `LONGEST_S` of processor time."""
    with redirect_stdout(sys.stderr):
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGVTALRM, _too_slow)
        left, _ = signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)  # of watched code around it
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, left)
            signal.signal(signal.SIGVTALRM, before)


def _too_slow(*_: Any) -> None:
    raise TimeoutError(f"its code used the processor for {LONGEST_S} s")
