"""The marked rows of all views and queues, also of the queues that are not open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Union

from redisq_ops.ops.inspect.snapshot import View

if TYPE_CHECKING:
    from redisq_ops.core.model.entry import Entry, Request
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.tui.views import QueueView

Found = Union["Entry", "Request", Exception, None]
"""what a mark is of, or why that is not known; None: it is gone"""

READ: Final = 200
"""marked entries and requests that are looked up at once"""


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked row: its identity in a view of a queue; without a queue, of all queues."""

    queue: str | None
    view: View
    identity: str

    @property
    def address(self) -> str:
        """As commands write it, if it is an entry or request."""
        return f"{self.queue}/{self.identity}"

    @property
    def name(self) -> str:
        """Differs from that of every other mark."""
        return f"{self.view} {self.address}"


class Marks:
    """Keeps the marks of a queue's views while another queue is open."""

    def __init__(self) -> None:
        self._away: dict[tuple[str | None, View], frozenset[str]] = {}

    def put_away(self, queue: str | None, views: Sequence[QueueView]) -> None:
        """Called before the views show another queue."""
        for view in views:
            if view.table.marks:
                self._away[queue, view.name_] = view.table.marks

    def bring_back(self, queue: str | None, views: Sequence[QueueView]) -> None:
        """Mark the rows of the queue that the views show from now on."""
        for view in views:
            view.table.mark(self._away.pop((queue, view.name_), ()))

    def all(self, queue: str | None, views: Sequence[QueueView]) -> Iterator[Mark]:
        """Every mark; ``queue``: the open one."""
        for view in views:
            of = None if view.of_all_queues else queue
            yield from (Mark(of, view.name_, one) for one in sorted(view.table.marks))
        for (name, view_name), marks in self._away.items():
            yield from (Mark(name, view_name, one) for one in sorted(marks))

    def set(self, marks: Iterable[Mark], queue: str | None, views: Sequence[QueueView]) -> None:
        """Mark exactly these rows; ``queue``: the open one."""
        new: dict[tuple[str | None, View], set[str]] = defaultdict(set)
        for mark in marks:
            new[mark.queue, mark.view].add(mark.identity)
        for view in views:
            of = None if view.of_all_queues else queue
            view.table.mark(new.pop((of, view.name_), ()))
        self._away = {place: frozenset(rows) for place, rows in new.items()}


async def looked_up(
    deployment: Deployment, marks: Sequence[Mark], requests: Collection[View]
) -> dict[Mark, Found]:
    """What the server has of the first `READ` marks of entries, and of requests in the views
    ``requests``. Reads only, in two round trips."""
    from redisq_ops.core.engine.optional_features import HasRequests
    from redisq_ops.core.redis.operation import apart, together

    wanted = marks[:READ]
    names = list(dict.fromkeys(mark.queue or "" for mark in wanted))
    found = await together(apart(deployment.queue(name)) for name in names)
    queues = dict(zip(names, found, strict=True))

    async def look(mark: Mark) -> Entry | Request | None:
        queue = queues[mark.queue or ""]
        if isinstance(queue, Exception):
            raise queue
        if mark.view in requests:
            return await queue.request.op(mark.identity) if isinstance(queue, HasRequests) else None
        entry: Entry | None = await queue.get.op(mark.identity)
        return entry

    return dict(zip(wanted, await together(apart(look(mark)) for mark in wanted), strict=True))
