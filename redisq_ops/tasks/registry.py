"""All tasks of a program: their declaration, and the worker that runs them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from redisq_ops import DelaySet, FairQueue, Periodic, RequestQueue, Worker
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.clock import Clock
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.model.validation import listed, validated
from redisq_ops.core.redis.operation import BlockingClient
from redisq_ops.core.worker.handler import Handler

from .codec import Call, packed
from .queues import JobQueues
from .runner import Runner
from .task import Task

P = ParamSpec("P")
R = TypeVar("R")
Hook = Callable[..., None]

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_CRON = "~cron"
"""the end of the names of periodic entries that code declares"""


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
    ``concurrency``: how many jobs a worker runs at a time unless it is told otherwise, in threads
    or, with async tasks, in an event loop. ``release``: of the code, for `redisq tasks`; by default
    the environment's ``REDISQ_RELEASE``.

        jobs = Tasks("jobs")

        @jobs.task(retries=5, backoff=exponential(5, 600), timeout=30)
        def thumbnail(path: str, width: int = 200) -> Size: ...
    """

    @validated
    def __init__(
        self,
        name: str = "jobs",
        *,
        url: str | None = None,
        prefix: str | None = None,
        levels: Sequence[str] = (DEFAULT,),
        concurrency: int = 8,
        release: str | None = None,
    ) -> None:
        self.name, self.url, self.prefix = checked_name(name, "queue name"), url, prefix
        given = listed(levels, "levels")
        if DEFAULT not in given or any(given.count(level) > 1 for level in given):
            raise BadInput(f"levels {levels!r}: a list of different names, 'default' among them")
        if taken := {"map", "fair"}.intersection(given):
            raise BadInput(f"level {min(taken)!r}: {name}.{min(taken)} is a queue of its own")
        self._levels = {
            level: name if level == DEFAULT else checked_name(f"{name}.{level}", "queue name")
            for level in given
        }
        self.concurrency = concurrency
        self.release = os.environ.get("REDISQ_RELEASE", "") if release is None else release
        self.map_name = f"{name}.map"
        """the queue of `Task.map`"""
        self.fair_name = f"{name}.fair"
        """the queue of jobs for clients"""
        kinds: dict[str, Any] = dict.fromkeys(self._levels.values(), DelaySet)
        kinds |= {self.fair_name: FairQueue, self.map_name: RequestQueue}
        self.queues = JobQueues(kinds, url, prefix)
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.hooks: dict[str, list[Hook]] = {"before": [], "after": [], "failed": []}
        self._crons: dict[str, Periodic] = {}

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
            if task.name in self.tasks:
                raise BadInput(f"task {task.name} of {self.name} is declared twice")
            self.tasks[task.name] = task
            return task

        return declared

    def cron(
        self,
        expression: str,
        *,
        zone: str = "UTC",
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
            payload = packed(Call(task.name, task.signature.encode((), kwargs)))
            self._crons[task.name] = Periodic(
                f"{task.name}{_CRON}", expression, payload, zone, missed, overlap
            ).checked()
            return task

        return scheduled

    @validated
    def hook(self, when: Literal["before", "after", "failed"]) -> Callable[[Hook], Hook]:
        """Call a function around each attempt: ``before(job)``, ``after(job, result)``,
        ``failed(job, error)``; ``job`` as `current_job` returns it.

        What ``before`` raises fails the attempt; what the others raise is logged. ``failed`` is
        also called for a job that this code can't run, without ``before``.
        """

        def hooked(function: Hook) -> Hook:
            if not callable(function):
                raise BadInput(f"write @jobs.hook({when!r}) above a function")
            self.hooks[when].append(function)
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
        self, client: BlockingClient, prefix: str | None = None, clock: Clock | None = None
    ) -> list[Queue[BlockingClient]]:
        """Use this client, its prefix unless one is given, and a clock for tests, from now on; what
        is awaited uses its server. ``client``: made by `connect`. Returns the queues: the first
        priority first, then those of clients and of `Task.map`."""
        self.queues.use(client, prefix, clock)
        return self.queues.all()

    def close(self) -> None:
        """Close the blocking connections, the next use opens new ones; those of an event loop close
        when it ends."""
        self.queues.close()

    def declare_schedules(self) -> None:
        """Write the schedules of this code, and remove those that it no longer has."""
        self.queues.queue(self.name).declare_periodics(list(self._crons.values()), _CRON)

    # --- working ---------------------------------------------------------------------------------

    @validated
    def handler(self, concurrency: int) -> Handler:
        """What a worker runs: async if one of the tasks is; the others run in threads then."""
        runner = Runner(self, concurrency)
        call = runner.acall if runner.is_async else runner.call
        return Handler(call, runner.is_async, returns=True, tasks=self.tasks, release=self.release)

    def worker(self, **options: Any) -> Worker:
        """A `Worker` of these tasks, which declared their schedules; options as for `Worker`."""
        self.declare_schedules()
        options = {"concurrency": self.concurrency} | options
        handler = self.handler(options["concurrency"])
        return Worker(self.queues.all(), handler, in_order=True, **options)
