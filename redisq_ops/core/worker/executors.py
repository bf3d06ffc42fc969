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
from .handler import Handler, Work, perform, succeeded
from .retry import Random, timed_out

Post = Callable[[tuple[Work, Settlement | None]], None]


def idle(work: Work) -> bool:
    """Whether the handler need not run any more."""
    return work.lost or work.settlement is not None


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

    def __init__(self, size: int, handler: Handler, post: Post, random: Random) -> None:
        self._handler, self._post, self._random = handler, post, random
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
            if idle(work):
                self._post((work, None))
            else:
                work.started = monotonic()
                self._post((work, perform(self._handler, work, self._random)))

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        until = monotonic() + 0.2
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))


class TaskSlots(Slots):
    """One task per slot, all in one event loop in a thread of its own."""

    def __init__(self, size: int, handler: Handler, post: Post, random: Random) -> None:
        self._handler, self._post, self._random = handler, post, random
        self._ready = Event()
        self._thread = Thread(target=self._run, args=(size,), name="redisq-tasks", daemon=True)
        self._thread.start()
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
        tasks = [asyncio.create_task(self._serve()) for _ in range(size)]
        self._ready.set()
        await self._closing.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start(self, works: Sequence[Work]) -> None:
        self._loop.call_soon_threadsafe(self._put, works)

    def _put(self, works: Sequence[Work]) -> None:
        for work in works:
            self._jobs.put_nowait(work)

    async def _serve(self) -> None:
        while not self._closing.is_set():
            # A coroutine per entry would take as long as a short handler.
            work = await self._jobs.get() if self._jobs.empty() else self._jobs.get_nowait()
            if idle(work):
                self._post((work, None))
            else:
                work.started = monotonic()
                self._post((work, await self._perform(work)))

    async def _perform(self, work: Work) -> Settlement:
        limit = None
        try:
            if work.timeout_s is None:
                return succeeded(work.delivery, await self._handler.call(work))
            async with asyncio.timeout(work.timeout_s) as limit:
                return succeeded(work.delivery, await self._handler.call(work))
        except BaseException as error:
            if isinstance(error, TimeoutError) and limit is not None and limit.expired():
                assert work.timeout_s is not None
                error = timed_out(work.timeout_s)
            if isinstance(error, asyncio.CancelledError) and self._closing.is_set():
                raise
            return self._handler.failed(work.delivery, error, self._random)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(1.0)


def slots(size: int, handler: Handler, post: Post, random: Random) -> Slots:
    """The slots for a handler: tasks if it is ``async``, which apply time-outs; else threads."""
    kind = TaskSlots if handler.is_async else Threads
    return kind(size, handler, post, random)
