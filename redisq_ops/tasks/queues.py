"""The queues in which jobs wait: delay sets, and those of clients and of `Task.map`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import cache
from threading import RLock
from typing import Any, TypeAlias

from redisq_ops import DelaySet, aconnect, async_wait, connect, wait
from redisq_ops.core.model.clock import Clock, Seconds
from redisq_ops.core.redis.client import aconnect_beside
from redisq_ops.core.redis.operation import AsyncClient, BlockingClient

Opener: TypeAlias = Callable[[str], Any]
"""a queue by its name"""


class JobQueues:
    """The queues of a program's tasks, on a client that is made when it is first needed: a blocking
    one, and one for each event loop. ``kinds``: theirs, by name, in the order in which workers ask
    them. In tests a stage stands for it, see `redisq_ops.testing.tasks`."""

    def __init__(self, kinds: Mapping[str, Any], url: str | None, prefix: str | None) -> None:
        self._kinds, self._url, self._prefix = kinds, url, prefix
        self._opening = RLock()
        self._given: BlockingClient | None = None
        self._options: dict[str, Any] = {}
        self._open: Opener | None = None
        self._aopen: dict[asyncio.AbstractEventLoop, tuple[Opener, AsyncGenerator[None]]] = {}

    def use(self, client: BlockingClient, prefix: str | None, clock: Clock | None = None) -> None:
        """Use this client, and in event loops its server, from now on."""
        self._given, self._options = client, {"prefix": prefix, "clock": clock}
        self._open, self._aopen = self._opener(client), {}

    def _opener(self, client: Any) -> Opener:
        @cache
        def opened(name: str) -> Any:
            return self._kinds.get(name, DelaySet)(client, name, **self._options)

        return opened

    def all(self) -> list[Any]:
        """The queues of these tasks."""
        return [*map(self.queue, self._kinds)]

    def queue(self, name: str) -> Any:
        """A queue of this program by its name; of other `Tasks` it is a delay set."""
        with self._opening:
            if self._open is None:
                self._open = self._opener(connect(self._url, prefix=self._prefix, role="tasks"))
            return self._open(name)

    async def aqueue(self, name: str) -> Any:
        """The same on a client of the running event loop, which is closed when the loop ends."""
        loop, there = asyncio.get_running_loop(), self._aopen
        if loop not in there:
            for each in list(there):  # other threads have loops, too
                if each.is_closed():  # it ended without its generators
                    there.pop(each, None)
            if self._given is None:
                client = aconnect(self._url, prefix=self._prefix, role="tasks")
            else:
                client = aconnect_beside(self._given, "tasks")
            closing = _closing(client, loop, there)
            there[loop] = self._opener(client), closing
            await anext(closing)
        opened, _ = there[loop]
        return opened(name)

    def close(self) -> None:
        """Close the blocking connections; the next use opens new ones."""
        if self._open is not None:
            self._open(next(iter(self._kinds))).client.close()

    def ended(self, queue: str, id: str, timeout: Seconds | None) -> Any:
        """Wait for the end of a job, and return its `EntryOutcome`, or of a whole batch."""
        found, (request, _, part) = self.queue(queue), id.partition("/")
        end = next(iter(wait(found, [request], timeout)))
        return found.outcomes([id])[0] if part else end

    async def aended(self, queue: str, id: str, timeout: Seconds | None) -> Any:
        """As `ended`, for asyncio."""
        found, (request, _, part) = await self.aqueue(queue), id.partition("/")
        end = await anext(async_wait(found, [request], timeout))
        return (await found.outcomes([id]))[0] if part else end


async def _closing(
    client: AsyncClient, loop: asyncio.AbstractEventLoop, there: dict[Any, Any]
) -> AsyncGenerator[None]:
    """Closes a client when its event loop ends, which then ends its generators."""
    try:
        yield
    finally:
        there.pop(loop, None)
        await client.aclose()
