"""A deployment: all queues behind one client, and the addresses that name things in them.

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
from redisq_ops.core.model.keys import PREFIX, checked_name, checked_prefix
from redisq_ops.core.redis.operation import Description, apart, checked_client, together

from .hint import hint


@dataclass(frozen=True, slots=True)
class Address:
    """Where something is: a queue, and an id in it (of an entry or a request), or none."""

    queue: Queue[Any]
    id: str | None = None

    def __str__(self) -> str:
        return self.queue.name if self.id is None else f"{self.queue.name}/{self.id}"


class Deployment:
    """Queues by name. Holds no connection: its coroutines run like any operation."""

    def __init__(
        self, client: Any = None, *, prefix: str = PREFIX, clock: Clock | None = None
    ) -> None:
        self.client = checked_client(client)
        self.prefix = checked_prefix(prefix)
        self.clock = clock
        self.callers = CallerSlots()

    def open(self, entry: Registered) -> Queue[Any]:
        """The queue of a registry entry; refuses a kind or schema this release doesn't know, and a
        corrupt entry (`Unreadable`)."""
        if entry.problem is not None:
            raise Unreadable(entry.problem)
        return open_queue(
            self.client, entry, prefix=self.prefix, clock=self.clock, callers=self.callers
        )

    async def foreign(self, name: str) -> Queue[Any] | None:
        """Another program's queue by the name its kind gives it (``sidekiq:default``), if there."""
        reader = foreign_class(name.partition(":")[0])
        if reader is None:
            return None
        queue = reader(self.client, name, prefix=self.prefix, clock=self.clock)
        return queue if await queue.exists.op() else None

    async def queues(self) -> list[Queue[Any]]:
        """Every queue this release can open, by name; one round trip."""
        return (await self.registered())[0]

    async def registered(self) -> tuple[list[Queue[Any]], dict[str, Refused]]:
        """Every queue this release can open, by name, and why it can't open the others: one that
        is too new, or whose registry entry is corrupt, must not hide the rest. One round trip."""
        queues, refused = [], dict[str, Refused]()
        for entry in await all_queues(self.prefix):
            try:
                queues.append(self.open(entry))
            except Refused as refusal:
                refused[entry.name] = refusal
        return queues, refused

    async def apart(self) -> list[Queue[Any]]:
        """As `queues`, with each entry in one of them only: a whole deployment of another program
        is without those of its queues that are here by themselves."""
        queues = await self.queues()
        for whole in queues:
            if whole.whole:
                whole.leave_out([one for one in queues if whole.covers(one)])
        return queues

    async def queue(self, name: str) -> Queue[Any]:
        """A queue that exists: in the registry, or by what another program's keys say."""
        queue = await self.named(checked_name(name, "queue name"))
        if queue is None:
            raise NotFound(f"no queue {name!r} here ({hint('ls')} shows what there is)")
        return queue

    async def named(self, name: str) -> Queue[Any] | None:
        """The queue of that name, if there is one."""
        entry = await find(name, self.prefix)
        return await self.foreign(name) if entry is None else self.open(entry)

    async def resolve(self, text: str) -> Address:
        """What an address names. A bare id is looked for in all queues at once."""
        name, slash, rest = text.partition("/")
        for part in text.split("/"):
            checked_name(part, "name")
        queue = await self.named(name)
        if queue is not None:
            return Address(queue, rest or None)
        if slash and not rest.isdigit():
            raise NotFound(f"no queue {name!r} here ({hint('ls')} shows what there is)")
        hits = await self.find(text)
        if not hits:
            raise NotFound(f"nothing here is called {text!r}: no queue, request or entry")
        if len(hits) > 1:
            raise BadInput(f"{text!r} is in several queues: " + ", ".join(map(str, hits)))
        return hits[0]

    async def find(self, id: str) -> list[Address]:
        """Every queue's request or entry of that id, in one pipeline.

        What can't be read, for lack of rights or since it is corrupt, is nobody's here, if it is
        in another queue.
        """
        queues = await self.apart()
        with_requests = [queue for queue in queues if isinstance(queue, HasRequests)]
        looks: list[Description[Any]] = [queue.request.op(id) for queue in with_requests]
        looks += [queue.get.op(id) for queue in queues]
        found = await together(map(apart, looks))
        barred = [one for one in found if isinstance(one, (Forbidden, Unreadable, WrongKind))]
        for one in found:
            if isinstance(one, Unreachable):  # a second one may be there
                raise Unreachable(f"where {id!r} is can't be said, name its queue too: {one}")
            if isinstance(one, Exception) and one not in barred:
                raise one
        places = zip([*with_requests, *queues], found, strict=True)
        there = {queue for queue, one in places if one is not None and one not in barred}
        hits = [Address(queue, id) for queue in queues if queue in there]
        if barred and not hits:
            raise barred[0]
        return hits
