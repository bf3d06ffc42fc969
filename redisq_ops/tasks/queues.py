"""The queues in which jobs wait: delay sets, and those of clients and of `Task.map`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from threading import RLock
from typing import Any, TypeAlias

from redisq_ops import DelaySet, aconnect, connect
from redisq_ops.core.engine.wait import async_end_of, end_of
from redisq_ops.core.model.clock import Clock, Seconds
from redisq_ops.core.redis.client import aconnect_beside
from redisq_ops.core.redis.loop_clients import LoopClients
from redisq_ops.core.redis.operation import BlockingClient

Opener: TypeAlias = Callable[[str], Any]
"""a queue by its name"""


class JobQueues:
    """The queues of a program's tasks, on a client that is made when it is first needed: a blocking
    one, and one for each event loop. ``kinds``: theirs, by name, in the order in which workers ask
    them. In tests a stage stands for it, see `redisq_ops.testing.tasks`."""

    def __init__(self, kinds: Mapping[str, Any], url: str | None, prefix: str | None) -> None:
        self._kinds = kinds
        self._options: dict[str, Any] = {}
        self._opening = RLock()
        self._connect = partial(connect, url, prefix=prefix, role="tasks")
        self._open: Opener | None = None
        self._in_loops = LoopClients(
            partial(aconnect, url, prefix=prefix, role="tasks"), self._opener
        )

    def use(self, client: BlockingClient, prefix: str | None, clock: Clock | None = None) -> None:
        """Use this client, and in event loops its server, from now on."""
        self._options = {"prefix": prefix, "clock": clock}
        self._open = self._opener(client)
        self._in_loops = LoopClients(partial(aconnect_beside, client, "tasks"), self._opener)

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
                self._open = self._opener(self._connect())
            return self._open(name)

    async def aqueue(self, name: str) -> Any:
        """The same on a client of the running event loop, which is closed when the loop ends."""
        return (await self._in_loops.here())(name)

    def close(self) -> None:
        """Close the blocking connections; the next use opens new ones."""
        if self._open is not None:
            self._open(next(iter(self._kinds))).client.close()

    def ended(self, queue: str, id: str, timeout: Seconds | None) -> Any:
        """Wait for the end of a job, and return its `EntryOutcome`, or of a whole batch."""
        return end_of(self.queue(queue), id, timeout)

    async def aended(self, queue: str, id: str, timeout: Seconds | None) -> Any:
        """As `ended`, for asyncio."""
        return await async_end_of(await self.aqueue(queue), id, timeout)
