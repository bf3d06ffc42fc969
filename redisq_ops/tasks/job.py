"""A submitted job, and how its result is awaited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from redisq_ops.core.engine.wait import async_wait, wait
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
        limit = _Limit(timeout)
        for job in self._line():
            queue = job.task.owner.queue(job.queue)
            with limit.named(job):
                value = job._value(next(iter(wait(queue, [job.id], limit.left()))))
        return cast(R, value)

    async def aresult(self, timeout: Span | None = None) -> R:
        """As `result`, for asyncio."""
        limit = _Limit(timeout)
        for job in self._line():
            queue = job.task.owner.aqueue(job.queue)
            with limit.named(job):
                async for outcome in async_wait(queue, [job.id], limit.left()):
                    value = job._value(outcome)
        return cast(R, value)

    def _line(self) -> list[Job[Any]]:
        """The jobs that it follows, the first one first, and itself."""
        return [*(self.after._line() if self.after else ()), self]

    def state(self) -> str | None:
        """waiting | pending | delayed | done | dead | trash; None: the queue doesn't have it."""
        (outcome,) = self.task.owner.queue(self.queue).outcomes([self.id])
        return outcome.state

    def _value(self, outcome: EntryOutcome) -> R:
        if outcome.state == "dead":
            raise JobFailed(self.id, outcome.reason, outcome.error)
        if outcome.result is None:
            why = "it was purged" if outcome.state == "trash" else "or its result is kept no longer"
            raise JobGone(f"queue {self.queue} has no job {self.id}, {why}")
        try:
            return cast(R, self.task.signature.result(outcome.result))
        except ValueError as error:
            what = f"job {self.id} returned something else than {self.task.name} declares"
            raise Unreadable(f"{what}: {error}") from None


class _Limit:
    """The time that is left for several waits."""

    def __init__(self, timeout: Span | None) -> None:
        self._seconds = None if timeout is None else seconds(timeout, "timeout")
        self._began = monotonic()

    def left(self) -> float | None:
        if self._seconds is None:
            return None
        return max(0.0, self._began + self._seconds - monotonic())

    @contextmanager
    def named(self, job: Job[Any]) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise TimeoutError(f"job {job.id} is not done after {self._seconds:g} s") from None
