"""The marked rows of all views and queues, also of the queues that are not open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Union

from redisq_ops.ops.inspect.snapshot import View

if TYPE_CHECKING:
    from redisq_ops.core.engine.optional_features import HasRequests
    from redisq_ops.core.model.entry import Entry, Request, State
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


def marks_in(view: QueueView, queue: str | None) -> list[Mark]:
    """The marks of a view as it is now; ``queue``: the open one."""
    of = None if view.of_all_queues else queue
    return [Mark(of, view.name_, one) for one in sorted(view.table.marks)]


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
            yield from marks_in(view, queue)
        for (name, view_name), marks in self._away.items():
            yield from (Mark(name, view_name, one) for one in sorted(marks))

    def take_away(
        self, marks: Iterable[Mark], queue: str | None, views: Sequence[QueueView]
    ) -> None:
        """Take these marks away, wherever they are by now; ``queue``: the open one."""
        self.set(set(self.all(queue, views)) - set(marks), queue, views)

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
    deployment: Deployment, marks: Sequence[Mark], states: Mapping[View, State | None]
) -> dict[Mark, Found]:
    """What the server has of the first `READ` marks. ``states``: of the entries that a view lists;
    None: it lists requests. Reads only: once for the marks of a view, all of them together."""
    from redisq_ops.core.engine.optional_features import HasRequests
    from redisq_ops.core.redis.operation import apart, together

    parts: defaultdict[tuple[str, View], list[Mark]] = defaultdict(list)
    for mark in marks[:READ]:
        parts[mark.queue or "", mark.view].append(mark)

    async def look(name: str, view: View, some: Sequence[Mark]) -> Sequence[Found]:
        queue, ids = await deployment.queue(name), [mark.identity for mark in some]
        if state := states[view]:
            entries: Sequence[Found] = await queue.glance_many.op(ids, state)
            return entries
        if not isinstance(queue, HasRequests):
            return [None] * len(ids)
        return await together(apart(_request(queue, id)) for id in ids)

    found = await together(apart(look(*part, some)) for part, some in parts.items())
    looked: dict[Mark, Found] = {}
    for some, each in zip(parts.values(), found, strict=True):
        known = [each] * len(some) if isinstance(each, Exception) else each
        looked |= zip(some, known, strict=True)
    return looked


async def _request(queue: HasRequests[Any], id: str) -> Found:
    found: Request | None = await queue.request.op(id)
    return found
