"""Where handlers run: in threads, or as tasks of one event loop.

`start` gives work to the slots; a slot posts ``(work, settlement)`` when the handler ended. The
settlement is None where the handler wasn't run, because the entry was lost or released before.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic

from ..model.entry import Settlement
from .handler import RUNNING, Handler, Work, perform, succeeded
from .retry import failed, timed_out

Post = Callable[[tuple[Work, Settlement | None]], None]


class Slots(ABC):
    """Places to run handlers."""

    @abstractmethod
    def start(self, works: Sequence[Work]) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """End all slots; a thread whose handler doesn't return is left running."""


class Threads(Slots):
    """One thread per slot. They are daemons: a handler that hangs doesn't keep the process
    alive."""

    def __init__(self, size: int, handler: Handler, post: Post) -> None:
        self._handler, self._post = handler, post
        self._jobs: SimpleQueue[Work | None] = SimpleQueue()
        self._threads = [
            Thread(target=self._serve, name=f"redisq-slot-{n}", daemon=True) for n in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def start(self, works: Sequence[Work]) -> None:
        for work in works:
            self._jobs.put(work)

    def _serve(self) -> None:
        while (work := self._jobs.get()) is not None:
            if work.over:
                self._post((work, None))
            else:
                work.started = monotonic()
                self._post((work, perform(self._handler, work)))

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        until = monotonic() + 0.2
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))


class TaskSlots(Slots):
    """One task per slot, all in the given event loop, or in one in a thread of its own.

    The given loop must run in another thread until `close` returns. If all its tasks are cancelled,
    as `asyncio.run` does it at its end, the entries of those that run are given back.
    """

    def __init__(
        self,
        size: int,
        handler: Handler,
        post: Post,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._handler, self._post = handler, post
        self._ready, self._over = Event(), Event()
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._main(size), loop)
        else:
            Thread(target=self._run, args=(size,), name="redisq-tasks", daemon=True).start()
        self._ready.wait()

    def _run(self, size: int) -> None:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            main = loop.create_task(self._main(size))
            while not main.done():
                # sys.exit() in a task that a handler began stops the loop; whoever awaits that
                # task gets the exception, too.
                with suppress(SystemExit, KeyboardInterrupt):
                    loop.run_until_complete(main)

    async def _main(self, size: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: asyncio.Queue[Work] = asyncio.Queue()
        self._closing = asyncio.Event()
        self._all = asyncio.current_task()
        tasks = [asyncio.create_task(self._serve()) for _ in range(size)]
        self._ready.set()
        try:
            await self._closing.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._over.set()

    def start(self, works: Sequence[Work]) -> None:
        self._loop.call_soon_threadsafe(self._put, works)

    def _put(self, works: Sequence[Work]) -> None:
        for work in works:
            self._jobs.put_nowait(work)

    async def _serve(self) -> None:
        while not (self._closing.is_set() or self._is_cut_off()):
            # A coroutine per entry would take as long as a short handler.
            work = await self._jobs.get() if self._jobs.empty() else self._jobs.get_nowait()
            if work.over:
                self._post((work, None))
            else:
                work.started = monotonic()
                self._post((work, await self._perform(work)))
                if work.in_thread is not None and work.goes_on:
                    await asyncio.wait([asyncio.wrap_future(work.in_thread)])
                    self._post((work, None))

    async def _perform(self, work: Work) -> Settlement:
        limit = None
        work.loop = self._loop
        RUNNING.set(work)  # in this slot's own context: it stays until the next one
        try:
            if work.timeout_s is None:
                return succeeded(work.delivery, await self._handler.call(work))
            async with asyncio.timeout(work.timeout_s) as limit:
                return succeeded(work.delivery, await self._handler.call(work))
        except BaseException as error:
            if isinstance(error, TimeoutError) and limit is not None and limit.expired():
                assert work.timeout_s is not None
                error = timed_out(work.timeout_s)
            if isinstance(error, asyncio.CancelledError):
                if self._closing.is_set():
                    raise
                if self._is_cut_off():
                    return Settlement(work.delivery, "release")
            work.error, work.ended = error, monotonic()
            return failed(work.delivery, error)

    def _is_cut_off(self) -> bool:
        """Whether all tasks of the given loop are being cancelled."""
        return self._all is not None and self._all.cancelling() > 0

    def close(self) -> None:
        with suppress(RuntimeError):  # the given loop is closed: its tasks are over
            self._loop.call_soon_threadsafe(self._closing.set)
            self._over.wait(1.0)


def slots(
    size: int,
    handler: Handler,
    post: Post,
    loop: asyncio.AbstractEventLoop | None = None,
) -> Slots:
    """The slots for a handler: tasks if it is ``async``, which apply time-outs; else threads.

    ``loop``: where tasks run; None: in a loop of their own.
    """
    if handler.is_async:
        return TaskSlots(size, handler, post, loop)
    return Threads(size, handler, post)
