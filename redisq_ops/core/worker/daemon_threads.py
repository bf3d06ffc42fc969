"""Threads for functions that may never return."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import ParamSpec, TypeVar
from weakref import finalize

P = ParamSpec("P")
R = TypeVar("R")
_Calls = SimpleQueue[Callable[[], None] | None]


class DaemonThreads(Executor):
    """An executor of at most ``size`` threads, which start when they are needed, and end when
    nobody has the executor any more. Unlike those of `ThreadPoolExecutor` they don't keep the
    process alive."""

    def __init__(self, size: int, name: str) -> None:
        self._calls = _Calls()
        self._names = iter([f"{name}-{n}" for n in range(size)])
        finalize(self, _end, self._calls, size)

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call the function in one of the threads."""
        if (name := next(self._names, None)) is not None:
            Thread(target=_serve, args=(self._calls,), name=name, daemon=True).start()
        future = Future[R]()
        self._calls.put(partial(_call, future, partial(function, *args, **kwargs)))
        return future


def _serve(calls: _Calls) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # it keeps arguments and the result


def _end(calls: _Calls, size: int) -> None:
    for _ in range(size):
        calls.put(None)


def _call(future: Future[R], function: Callable[[], R]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(function())
        except BaseException as error:  # sys.exit() in a function doesn't end the thread
            future.set_exception(error)
