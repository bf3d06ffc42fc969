"""A submitted job, and how its result is awaited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from redisq_ops.core.model.entry import EntryOutcome
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
        limit = Limit(timeout)
        for job in self._line():
            with limit.named(job.id):
                outcome = job.task.owner.ended(job.queue, job.id, limit.left())
            value = value_of(outcome, job.task)
        return cast(R, value)

    async def aresult(self, timeout: Span | None = None) -> R:
        """As `result`, for asyncio."""
        limit = Limit(timeout)
        for job in self._line():
            with limit.named(job.id):
                outcome = await job.task.owner.aended(job.queue, job.id, limit.left())
            value = value_of(outcome, job.task)
        return cast(R, value)

    def state(self) -> str | None:
        """waiting | pending | delayed | done | dead | trash; None: the queue doesn't have it."""
        return self.task.owner.outcome(self.queue, self.id).state

    def _line(self) -> list[Job[Any]]:
        """The jobs that it follows, the first one first, and itself."""
        return [*(self.after._line() if self.after else ()), self]


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


class Limit:
    """The time that is left for several waits."""

    def __init__(self, timeout: Span | None) -> None:
        self._seconds = None if timeout is None else seconds(timeout, "timeout")
        self._began = monotonic()

    def left(self) -> float | None:
        if self._seconds is None:
            return None
        return max(0.0, self._began + self._seconds - monotonic())

    @contextmanager
    def named(self, id: str) -> Iterator[None]:
        """Name the job, should the time be up."""
        try:
            yield
        except TimeoutError:
            after = "" if self._seconds is None else f" after {self._seconds:g} s"
            raise TimeoutError(f"job {id} is not done{after}") from None
