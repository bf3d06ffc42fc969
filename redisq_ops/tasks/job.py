"""A submitted job, or many as one request, and how results are awaited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from redisq_ops.core.model.clock import Seconds, countdown
from redisq_ops.core.model.entry import LEASES_LOST, EntryOutcome, Failure, Request
from redisq_ops.core.model.errors import NotFound, RedisqError

if TYPE_CHECKING:
    from .task import Task

R = TypeVar("R")


class JobFailed(RedisqError):
    """The job is dead. ``type``, ``message`` and ``traceback`` are those of the error in the
    worker, as text; ``reason``: failed | lost | rejected."""

    def __init__(self, job: str, reason: str | None, error: Failure | None) -> None:
        self.job, self.reason = job, reason
        said = error or Failure("")
        self.type, self.message, self.traceback = said.type, said.message, said.traceback
        why = LEASES_LOST if reason == "lost" else f"reason: {reason or 'unknown'}"
        super().__init__(f"job {job} is dead: {said.line or why}")


class JobGone(NotFound):
    """The queue doesn't have the job: it was removed, or its result is kept no longer."""


@dataclass(frozen=True, slots=True)
class Job(Generic[R]):
    """A call of a task: its id, and its result once it is done."""

    id: str
    queue: str
    task: Task[Any, R]
    created: bool = True
    """False: a job with the same ``unique`` key was there, and this is that one"""
    then: tuple[Job[Any], ...] = ()
    """the jobs that follow it, one after the other"""
    after: Job[Any] | None = None
    """the job that it follows"""

    def result(self, timeout: Seconds | None = None) -> R:
        """What the task returned; waits for it, and before for the jobs that it follows.

        ``timeout``: seconds or a timedelta; None: no end. A result is kept for 24 hours (the
        queue's setting ``keep_ms``). Raises `JobFailed` for a dead job, with the error of the
        worker; `JobGone`; TimeoutError; `BadInput` in an async task, whose worker would stop.
        """
        left = countdown(timeout)
        if self.after is not None:
            self.after.result(left())
        end = self.task.owner.queues.ended(self.queue, self.id, left())
        return self.task.value(self.id, end)

    async def aresult(self, timeout: Seconds | None = None) -> R:
        """As `result`, for asyncio."""
        left = countdown(timeout)
        if self.after is not None:
            await self.after.aresult(left())
        end = await self.task.owner.queues.aended(self.queue, self.id, left())
        return self.task.value(self.id, end)

    def state(self) -> str | None:
        """waiting | pending | delayed | done | dead | trash; None: the queue doesn't have it."""
        (outcome,) = self.task.owner.queues.queue(self.queue).outcomes([self.id])
        return cast(EntryOutcome, outcome).state


@dataclass(frozen=True, slots=True)
class Batch(Generic[R]):
    """The calls of a `Task.map`: a request, whose id is ``id``."""

    id: str
    task: Task[Any, R]
    then: tuple[Job[Any], ...] = ()
    """the jobs that follow it, one after the other"""

    def progress(self) -> Request:
        """How many are waiting, pending, done and dead, of ``total``."""
        queue = self.task.owner.queues.queue(self.task.owner.map_name)
        request: Request | None = queue.request(self.id)
        if request is None:
            raise JobGone(f"queue {queue.name} has no request {self.id}, or no longer")
        return request

    def results(self, timeout: Seconds | None = None, *, errors: bool = False) -> list[R]:
        """What the calls returned, in their order; waits for all of them.

        ``errors``: an exception stands in the place of each dead one; else the first is raised.
        ``timeout``, and what is raised: as for `Job.result`. All results together have at most
        64 MiB; one that was dropped for that is a `JobGone`.
        """
        queues, name = self.task.owner.queues, self.task.owner.map_name
        queues.ended(name, self.id, timeout)
        found: list[Any] = []
        for part in queues.queue(name).results(self.id):
            try:
                found.append(self.task.value(f"{self.id}/{part.number}", part))
            except Exception as error:
                if not errors:
                    raise
                found.append(error)
        return found
