"""Many calls of one task as one request: progress, and results in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from redisq_ops.core.engine.wait import wait
from redisq_ops.core.model.entry import EntryOutcome, Request

from .backoff import Span
from .errors import JobGone
from .job import Limit, value_of

if TYPE_CHECKING:
    from .task import Task

R = TypeVar("R")


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
        limit, queue = Limit(timeout), self.task.owner.maps()
        with limit.named(self.id):
            next(iter(wait(queue, [self.id], limit.left())))
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
