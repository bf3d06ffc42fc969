"""All tasks of a program: their queues, and the handler with which a worker runs them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import tzinfo
from functools import cache, partial
from threading import RLock
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.wait import wait
from redisq_ops.core.model.clock import Clock
from redisq_ops.core.model.entry import Delivery, EntryOutcome, Settlement, task_of
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import PREFIX, checked_name
from redisq_ops.core.model.settings import MAX_RESULT
from redisq_ops.core.queues.delay import DelaySet, Periodic
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import aconnect, connect
from redisq_ops.core.redis.operation import AsyncClient, BlockingClient
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Handler, Work
from redisq_ops.core.worker.retry import Random, Reject, Retry, failed

from .backoff import seconds
from .codec import Call, Raw, encoded, read_call
from .context import RUNNING, Running
from .task import Task

P = ParamSpec("P")
R = TypeVar("R")
Hook = Callable[..., None]

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_CRON = "~cron"
"""the end of the names of periodic entries that code declares"""
log = logging.getLogger("redisq_ops.tasks")


class _Declaring(Protocol):
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...


class Tasks:
    """The tasks of a program, and the queue in which their calls wait: a delay set.

    ``levels``: priorities, the first is served first; ``default`` is the queue ``name`` itself,
    another level the queue ``name.level``. ``url`` and ``prefix``: by default those of the command
    line (context, ``REDIS_URL``, configuration file), when something is submitted first.

        jobs = Tasks("jobs")

        @jobs.task(retries=5, backoff=exponential(5, 600), timeout=30)
        def thumbnail(path: str, width: int = 200) -> Size: ...
    """

    def __init__(
        self,
        name: str = "jobs",
        *,
        url: str | None = None,
        prefix: str | None = None,
        levels: Sequence[str] = (DEFAULT,),
    ) -> None:
        self.name, self.url, self.prefix = checked_name(name, "queue name"), url, prefix
        if isinstance(levels, str) or DEFAULT not in levels or len({*levels}) < len(levels):
            raise BadInput(f"levels {levels!r}: a list of different names, 'default' among them")
        self._levels = {
            level: name if level == DEFAULT else checked_name(f"{name}.{level}", "queue name")
            for level in levels
        }
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._crons: dict[str, Periodic] = {}
        self._hooks: dict[str, list[Hook]] = {"before": [], "after": [], "failed": []}
        self.stage: Any = None
        """what stands for queues in tests, see `redisq_ops.testing.tasks`"""
        self._opening = RLock()
        self._open: Callable[[str], DelaySet[BlockingClient]] | None = None
        self._aopen: WeakKeyDictionary[Any, Callable[[str], DelaySet[AsyncClient]]]
        self._aopen = WeakKeyDictionary()

    # --- declaring -------------------------------------------------------------------------------

    def task(self, name: str | None = None, **options: Any) -> _Declaring:
        """Declare a task; options as for `Task`. ``name``: by default the function's.

        The name is what is stored: renaming a function renames its task, unless it is given here.
        """
        if callable(name):
            raise BadInput("write @jobs.task(), with parentheses")

        def declared(function: Callable[..., Any]) -> Task[Any, Any]:
            task = Task[Any, Any](self, function, name, **options)
            if not _NAME.fullmatch(task.name):
                raise BadInput(f"task {task.name!r}: a name is letters, digits, _ . - (at most 64)")
            if task.name in self._tasks:
                raise BadInput(f"task {task.name} of {self.name} is declared twice")
            self._tasks[task.name] = task
            return task

        return declared

    def cron(
        self,
        expression: str,
        *,
        zone: str | tzinfo = "UTC",
        missed: Literal["one", "all", "none"] = "one",
        overlap: bool = False,
        **kwargs: Any,
    ) -> Callable[[Task[P, R]], Task[P, R]]:
        """Run a task on a schedule, with these arguments; options as for `Periodic`.

        Each worker that starts writes the schedules of its code, and removes those that this code
        no longer has: declare all tasks of a queue in one `Tasks`.

            @jobs.cron("0 6 * * mon-fri", zone="Europe/Berlin")
            @jobs.task()
            def report() -> None: ...
        """

        def scheduled(task: Task[P, R]) -> Task[P, R]:
            if not isinstance(task, Task):
                raise BadInput("write @jobs.cron(…) above @jobs.task(…)")
            if task.name in self._crons:
                raise BadInput(f"task {task.name} has a schedule already")
            payload = encoded(Call(task.name, Raw(task.signature.encode((), kwargs))))
            self._crons[task.name] = Periodic(
                f"{task.name}{_CRON}", expression, payload, str(zone), missed, overlap
            ).checked()
            return task

        return scheduled

    def hook(self, when: Literal["before", "after", "failed"]) -> Callable[[Hook], Hook]:
        """Call a function around each attempt: ``before(job)``, ``after(job, result)``,
        ``failed(job, error)``; ``job`` is a `Running`.

        What ``before`` raises fails the attempt; what the others raise is logged.
        """
        if when not in self._hooks:
            raise BadInput(f"hook {when!r}: one of before, after, failed")

        def hooked(function: Hook) -> Hook:
            self._hooks[when].append(function)
            return function

        return hooked

    # --- queues ----------------------------------------------------------------------------------

    def level(self, name: str | None) -> str:
        """The queue of a priority; raises `BadInput` for one that isn't declared."""
        if (queue := self._levels.get(name or DEFAULT)) is None:
            known = ", ".join(self._levels)
            raise BadInput(f"priority {name!r}: {self.name} has {known} (see `levels` of Tasks)")
        return queue

    def connect(
        self, client: BlockingClient, prefix: str = PREFIX, clock: Clock | None = None
    ) -> list[Queue[BlockingClient]]:
        """Use this client, and a clock for tests, from now on; returns the queues, the first
        priority first, that of `Task.map` last."""
        self._open = cache(partial(DelaySet, client, prefix=prefix, clock=clock))
        return [*map(self._open, self._levels.values()), self.maps()]

    def queue(self, name: str) -> DelaySet[BlockingClient]:
        """One of the queues, on a blocking client."""
        if self.stage is not None:
            return cast(DelaySet[BlockingClient], self.stage)
        with self._opening:
            if self._open is None:
                address, prefix = self._configured()
                self.connect(connect(address, "tasks"), prefix)
            assert self._open is not None
            return self._open(name)

    def close(self) -> None:
        """Close the blocking connections; the next use opens new ones."""
        if self._open is not None:
            self._open(self.name).client.close()

    def maps(self) -> RequestQueue[BlockingClient]:
        """The queue of `Task.map`."""
        if self.stage is not None:
            raise BadInput("map needs a server: see redisq_ops.testing.fixtures")
        first = self.queue(self.name)
        name = f"{self.name}.map"
        return RequestQueue(first.client, name, prefix=first.prefix, clock=first.clock)

    def ended(self, queue: str, id: str, timeout_s: float | None) -> EntryOutcome:
        """Wait for the end of a job."""
        if self.stage is not None:
            return cast(EntryOutcome, self.stage.ended(id))
        return next(iter(wait(self.queue(queue), [id], timeout_s)))

    def aqueue(self, name: str) -> DelaySet[AsyncClient]:
        """One of the queues, on a client of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._aopen:
            address, prefix = self._configured()
            client = aconnect(address, "tasks")
            self._aopen[loop] = cache(partial(DelaySet, client, prefix=prefix))
        return self._aopen[loop](name)

    def _configured(self) -> tuple[Any, str]:
        from redisq_ops.ops.config.config import load

        config = load({"url": self.url, "prefix": self.prefix})
        return config.server_address(), config.prefix

    def declare_schedules(self) -> None:
        """Write the schedules of this code, and remove those that it no longer has."""
        queue = self.queue(self.name)
        if queue.exists():
            for there in queue.periodics():
                if there.name.endswith(_CRON) and there.name not in self._crons:
                    queue.remove_periodic(there.name)
        for periodic in self._crons.values():
            queue.set_periodic(periodic)

    # --- working ---------------------------------------------------------------------------------

    def handler(self, concurrency: int = 1) -> Handler:
        """What a worker runs: async if one of the tasks is; the others run in threads then."""
        tasks = self._tasks.values()
        is_async = any(task.is_async for task in tasks)
        call: Callable[[Work], Any] = self._call
        if is_async:
            call = partial(self._acall, ThreadPoolExecutor(concurrency, "redisq-task"))
        limit = self._timeout_s if any(task.timeout_s is not None for task in tasks) else None
        names = frozenset(self._tasks)
        return Handler(call, is_async, None, limit, self._failed, returns=True, tasks=names)

    def worker(self, **options: Any) -> Worker:
        """A `Worker` of these tasks, which declared their schedules; options as for `Worker`."""
        queues = [*map(self.queue, self._levels.values()), self.maps()]
        self.declare_schedules()
        handler = self.handler(options.get("concurrency", 1))
        return Worker(queues, handler, in_order=True, **options)

    def _timeout_s(self, work: Work) -> float | None:
        task = self._tasks.get(work.task or "")
        return None if task is None else task.timeout_s

    def _call(self, work: Work) -> bytes:
        with self._attempt(work) as (running, task, call, kwargs):
            result = task.function(**kwargs)
            data = _encoded(task, result)
            self._follow(call, data)
        self._tell("after", running, result)
        return data

    async def _acall(self, threads: ThreadPoolExecutor, work: Work) -> bytes:
        loop = asyncio.get_running_loop()
        with self._attempt(work) as (running, task, call, kwargs):
            if task.is_async:
                result = await task.function(**kwargs)
            else:
                run = partial(copy_context().run, task.function, **kwargs)
                result = await loop.run_in_executor(threads, run)
            data = _encoded(task, result)
            if call.then:
                await loop.run_in_executor(threads, self._follow, call, data)
        self._tell("after", running, result)
        return data

    @contextmanager
    def _attempt(
        self, work: Work
    ) -> Iterator[tuple[Running, Task[Any, Any], Call, dict[str, Any]]]:
        """One attempt: the job that runs, its task, its call and arguments. Raises a `Reject` for
        what this code doesn't know."""
        try:
            call = read_call(work.payload)
        except ValueError as error:
            raise UnknownTask(f"the payload calls no task: {error}") from None
        task = self._tasks.get(call.task)
        if task is None:
            raise UnknownTask(
                f"this worker's code has no task {call.task!r} in {self.name} (it has "
                f"{', '.join(self._tasks)}); start workers that have it, then replay"
            )
        try:
            kwargs = task.signature.decode(call.kwargs)
        except ValueError as error:
            raise UnfitArguments(
                f"task {task.name}, in this worker's code: {error}; start workers whose code fits, "
                "or edit the payload, then replay"
            ) from None
        running = Running(work.id, task.name, work.queue, work.attempt, work)
        token = RUNNING.set(running)
        try:
            for hook in self._hooks["before"]:
                hook(running)
            yield running, task, call, kwargs
        except BaseException as error:
            self._tell("failed", running, error)
            raise
        finally:
            RUNNING.reset(token)

    def _tell(self, when: str, *args: Any) -> None:
        for hook in self._hooks[when]:
            try:
                hook(*args)
            except Exception:
                log.exception("hook %s of %s failed", hook, self.name)

    def _follow(self, call: Call, result: bytes) -> None:
        """Submit the call that follows, under the id that it got when the chain was submitted: if
        this attempt is repeated, it is there."""
        for step in call.then[:1]:
            kwargs = step.kwargs | ({} if step.into is None else {step.into: Raw(result)})
            payload = encoded(Call(step.task, Raw(encoded(kwargs)), call.then[1:]))
            self.queue(step.queue).schedule([(step.id, payload)])

    def _failed(self, delivery: Delivery, error: BaseException, random: Random) -> Settlement:
        """The retry policy of the task."""
        plain = failed(delivery, error, random)
        task = self._tasks.get(task_of(delivery.id) or "")
        if task is None or plain.outcome != "fail":
            return plain
        if task.retries is not None and delivery.failures >= task.retries:
            return plain._replace(outcome="give_up", delay_ms=0)
        if task.backoff is None or (isinstance(error, Retry) and error.after is not None):
            return plain
        wait = seconds(task.backoff(delivery.failures + 1), "a wait of backoff")
        return plain._replace(delay_ms=int(wait * 1000 * (0.9 + 0.2 * random())))


class UnknownTask(Reject):
    """The code of this worker has no such task."""


class UnfitArguments(Reject):
    """The arguments don't fit the task in the code of this worker."""


class UnfitResult(Reject):
    """What the task returned can't be kept."""


def _encoded(task: Task[Any, Any], result: Any) -> bytes:
    try:
        data = encoded(result)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise UnfitResult(f"task {task.name} returned {type(result).__name__}: {error}") from None
    if len(data) > MAX_RESULT:
        raise UnfitResult(f"task {task.name} returned over {MAX_RESULT:,} bytes")
    return data
