"""A submitted job, or many as one request, and how results are awaited."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from redisq_ops.core.engine.wait import async_wait, wait
from redisq_ops.core.model.entry import EntryOutcome, Request
from redisq_ops.core.model.errors import Unreadable

from .backoff import Span, seconds
from .errors import JobFailed, JobGone

if TYPE_CHECKING:
    from .task import Task

R = TypeVar("R")


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

    def result(self, timeout: Span | None = None) -> R:
        """What the task returned; waits for it, and before for the jobs that it follows.

        ``timeout``: seconds or a timedelta; None: no end. A result is kept for 24 hours (the
        queue's setting ``keep_ms``). Raises `JobFailed` for a dead job, with the error of the
        worker; `JobGone`; TimeoutError.
        """
        ends = ends_at(timeout)
        for job in self._line():
            value = value_of(job.task.owner.ended(job.queue, job.id, left(ends)), job.task)
        return cast(R, value)

    async def aresult(self, timeout: Span | None = None) -> R:
        """As `result`, for asyncio."""
        if self.task.owner.stage is not None:
            return self.result(timeout)
        ends = ends_at(timeout)
        for job in self._line():
            queue = job.task.owner.aqueue(job.queue)
            outcome = await anext(async_wait(queue, [job.id], left(ends)))
            value = value_of(outcome, job.task)
        return cast(R, value)

    def state(self) -> str | None:
        """waiting | pending | delayed | done | dead | trash; None: the queue doesn't have it."""
        (outcome,) = self.task.owner.queue(self.queue).outcomes([self.id])
        return outcome.state

    def _line(self) -> list[Job[Any]]:
        """The jobs that it follows, the first one first, and itself."""
        return [*(self.after._line() if self.after else ()), self]


@dataclass(frozen=True, slots=True)
class Batch(Generic[R]):
    """The calls of a `Task.map`: a request, whose id is ``id``."""

    id: str
    task: Task[Any, R]

    def progress(self) -> Request:
        """How many are waiting, pending, done and dead, of ``total``."""
        request = self.task.owner.maps().request(self.id)
        if request is None:
            raise JobGone(
                f"queue {self.task.owner.name}.map has no request {self.id}, or no longer"
            )
        return request

    def results(self, timeout: Span | None = None, *, errors: bool = False) -> list[R]:
        """What the calls returned, in their order; waits for all of them.

        ``errors``: an exception stands in the place of each dead one; else the first is raised.
        ``timeout``, and what is raised: as for `Job.result`. All results together have at most
        64 MiB; one that was dropped for that is a `JobGone`.
        """
        queue = self.task.owner.maps()
        next(iter(wait(queue, [self.id], left(ends_at(timeout)))))
        found: list[Any] = []
        for part in queue.results(self.id):
            id = f"{self.id}/{part.number}"
            outcome = EntryOutcome(id, part.state, part.result, part.reason, part.error)
            try:
                found.append(value_of(outcome, self.task))
            except Exception as error:
                if not errors:
                    raise
                found.append(error)
        return found


def value_of(outcome: EntryOutcome, task: Task[Any, Any]) -> Any:
    """The value of a job that has ended; raises as `Job.result` does."""
    if outcome.state == "dead":
        raise JobFailed(outcome.id, outcome.reason, outcome.error)
    if outcome.result is None:
        why = "was purged" if outcome.state == "trash" else "isn't kept, or no longer"
        raise JobGone(f"the result of job {outcome.id} {why}")
    try:
        return task.signature.result(outcome.result)
    except ValueError as error:
        what = f"job {outcome.id} returned something else than {task.name} declares"
        raise Unreadable(f"{what}: {error}") from None


def ends_at(timeout: Span | None) -> float | None:
    """When a time-out ends, in monotonic seconds."""
    return None if timeout is None else monotonic() + seconds(timeout, "timeout")


def left(ends: float | None) -> float | None:
    return None if ends is None else max(0.0, ends - monotonic())
