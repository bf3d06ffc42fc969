"""A deployment: all queues of one server and prefix, and the addresses of what is in them.

QUEUE                 mail
QUEUE/ENTRY           later/e1
QUEUE/REQUEST         mail/r1
QUEUE/REQUEST/N       mail/r1/17
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.idempotency import CallerSlots
from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import foreign_class, open_queue
from redisq_ops.core.engine.registration_marks import marked
from redisq_ops.core.engine.registry import Registered, all_queues, find
from redisq_ops.core.model.clock import Clock
from redisq_ops.core.model.errors import (
    BadInput,
    Forbidden,
    NotFound,
    Refused,
    Unreachable,
    Unreadable,
    WrongKind,
)
from redisq_ops.core.model.keys import PREFIX, checked_prefix, known_name
from redisq_ops.core.redis.operation import Description, apart, checked_client, together

from .hint import hint
from .queue_names import similar


@dataclass(frozen=True, slots=True)
class Address:
    """A queue, or an entry or request in it."""

    queue: Queue[Any]
    id: str | None = None

    def __str__(self) -> str:
        return self.queue.name if self.id is None else f"{self.queue.name}/{self.id}"


class Deployment:
    """Queues by name. Its coroutines are descriptions, run like any operation."""

    def __init__(
        self, client: Any = None, *, prefix: str = PREFIX, clock: Clock | None = None
    ) -> None:
        self.client = checked_client(client)
        self.prefix = checked_prefix(prefix)
        self.clock = clock
        self.callers = CallerSlots()

    def open(self, entry: Registered) -> Queue[Any]:
        """The queue of a registry entry.

        Raises `NotFound` for an unknown kind, `SchemaTooNew` for a newer schema, `Unreadable` for a
        corrupt entry.
        """
        if entry.problem is not None:
            raise Unreadable(entry.problem)
        return open_queue(
            self.client, entry, prefix=self.prefix, clock=self.clock, callers=self.callers
        )

    async def foreign(self, name: str) -> Queue[Any] | None:
        """Another program's queue, by the name that its kind gives it (``sidekiq:default``)."""
        reader = foreign_class(name.partition(":")[0])
        if reader is None:
            return None
        queue = reader(self.client, name, prefix=self.prefix, clock=self.clock)
        return queue if await queue.exists.op() else None

    async def queues(self) -> list[Queue[Any]]:
        """Every queue that this release can open, by name; one round trip."""
        return (await self.registered())[0]

    async def registered(self) -> tuple[list[Queue[Any]], dict[str, Refused]]:
        """Every queue that this release can open, and by name why it can't open the others: their
        schema is too new, or their registry entry is corrupt."""
        queues, refused = [], dict[str, Refused]()
        for entry in await all_queues(self.prefix):
            try:
                queues.append(self.open(entry))
            except Refused as refusal:
                refused[entry.name] = refusal
        return queues, refused

    async def disjoint_queues(self) -> list[Queue[Any]]:
        """As `queues`, but no entry is in two of them: a queue that stands for another program's
        whole deployment leaves out the queues that are registered separately."""
        queues = await self.queues()
        for whole in queues:
            if whole.whole:
                whole.leave_out([queue for queue in queues if whole.covers(queue)])
        return queues

    async def queue(self, name: str) -> Queue[Any]:
        """An existing queue, in the registry or by another program's keys; else `NotFound`."""
        name = known_name(name, "queue name")
        queue = await self.named(name)
        if queue is None:
            raise await self._missing(name)
        return queue

    async def _missing(self, name: str) -> NotFound:
        near = await self.similar(name)
        return NotFound(f"no queue {name!r} here{near} ({hint('ls')} shows what there is)")

    async def similar(self, name: str) -> str:
        """``; did you mean NAME?`` if a registered queue has a similar name, else ''."""
        return similar(name, (entry.name for entry in await all_queues(self.prefix)))

    async def named(self, name: str) -> Queue[Any] | None:
        """The queue of that name, also one that the registry has lost; None: there is none."""
        entry = await find(name, self.prefix) or await marked(name, self.prefix)
        return await self.foreign(name) if entry is None else self.open(entry)

    async def resolve(self, text: str, *, ids_only: bool = False) -> Address:
        """Find what an address names; a bare id is searched for in all queues at once.

        ``ids_only``: a text without a slash is an id, also where a queue has that name."""
        name, slash, rest = text.partition("/")
        name = known_name(name, "name")
        for part in rest.split("/") if slash else ():
            known_name(part, "name")
        queue = None if ids_only and not slash else await self.named(name)
        if queue is not None:
            return Address(queue, queue.typed_id(rest) or None)
        if slash and not rest.isdigit():
            raise await self._missing(name)
        hits = await self.find(text)
        if not hits:
            if ids_only:
                raise NotFound(f"no request or entry here is called {text!r}")
            near = await self.similar(name)
            raise NotFound(f"nothing here is called {text!r}: no queue, request or entry{near}")
        if len(hits) > 1:
            raise BadInput(f"{text!r} is in several queues: " + ", ".join(map(str, hits)))
        return hits[0]

    async def find(self, id: str) -> list[Address]:
        """The requests and entries of that id in all queues, in one pipeline.

        Queues that can't be read are ignored if another queue has the id.
        """
        queues = await self.disjoint_queues()
        with_requests = [queue for queue in queues if isinstance(queue, HasRequests)]
        reads: list[Description[Any]] = [queue.request.op(id) for queue in with_requests]
        reads += [queue.get.op(queue.typed_id(id)) for queue in queues]
        found = await together(map(apart, reads))
        unread = [one for one in found if isinstance(one, (Forbidden, Unreadable, WrongKind))]
        for one in found:
            if isinstance(one, Unreachable):  # the id may be there as well
                raise Unreachable(f"which queue has {id!r} is unknown, name the queue too: {one}")
            if isinstance(one, Exception) and one not in unread:
                raise one
        places = zip([*with_requests, *queues], found, strict=True)
        having = {queue for queue, one in places if one is not None and one not in unread}
        hits = [Address(queue, queue.typed_id(id)) for queue in queues if queue in having]
        if unread and not hits:
            raise unread[0]
        return hits
