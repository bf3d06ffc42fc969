"""What became of a request's sub-requests, read by pages in constant memory; or of an entry."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.entry_results import EntryResults
from redisq_ops.core.model.entry import Request
from redisq_ops.core.model.errors import NotFound
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.queues.request.outcomes import SubRequestOutcome, outcomes
from redisq_ops.core.queues.request.records import found

PAGE = 250


class Results:
    """The outcomes of a request in order of number. Call `page` until it returns an empty list."""

    def __init__(self, queue: RequestQueue[Any], id: str) -> None:
        self.queue = queue
        self.id = id
        self._next = 1

    async def request(self) -> Request:
        """The request's record; `NotFound` if there is none."""
        return found(await self.queue.request.op(self.id), self.id, self.queue.name)

    async def page(self) -> list[SubRequestOutcome]:
        """The next outcomes, 250 at most."""
        page = await outcomes(self.queue, self.id, self._next, PAGE)
        self._next += len(page)
        return page


async def of_entry(queue: EntryResults[Any] | RequestQueue[Any], id: str) -> SubRequestOutcome:
    """What became of a sub-request, or of an entry as if it were a request's only one."""
    (end,) = await queue.outcomes.op([id])
    if end.state is None:
        raise absent(queue.name, id)
    number = int(id.partition("/")[2] or 1)
    return SubRequestOutcome(number, end.state, end.result, end.reason, end.error)


def absent(queue: str, id: str) -> NotFound:
    """Of an entry that a queue with results doesn't have."""
    return NotFound(
        f"{queue}/{id} isn't there: it never was, or it is done and had no result to keep"
    )
