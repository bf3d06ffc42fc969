"""The queues in which jobs wait: delay sets, and those of clients and of `Task.map`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from threading import RLock
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from redisq_ops import DelaySet, aconnect, async_wait, connect, wait
from redisq_ops.core.model.clock import Clock, Seconds
from redisq_ops.core.redis.operation import BlockingClient

Opener: TypeAlias = Callable[[str], Any]
"""a queue by its name"""


class JobQueues:
    """The queues of a program's tasks, on a client that is made when it is first needed: a blocking
    one, and one for each event loop. ``kinds``: theirs, by name, in the order in which workers ask
    them. In tests a stage stands for it, see `redisq_ops.testing.tasks`."""

    def __init__(self, kinds: Mapping[str, Any], url: str | None, prefix: str | None) -> None:
        self._kinds, self._url, self._prefix = kinds, url, prefix
        self._opening = RLock()
        self._open: Opener | None = None
        self._aopen: WeakKeyDictionary[asyncio.AbstractEventLoop, Opener] = WeakKeyDictionary()

    def use(self, client: BlockingClient, prefix: str | None, clock: Clock | None = None) -> None:
        """Use this client from now on."""
        self._open = self._opener(client, prefix=prefix, clock=clock)

    def _opener(self, client: Any, **options: Any) -> Opener:
        @cache
        def opened(name: str) -> Any:
            return self._kinds.get(name, DelaySet)(client, name, **options)

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

    def aqueue(self, name: str) -> Any:
        """The same on a client of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._aopen:
            self._aopen[loop] = self._opener(aconnect(self._url, prefix=self._prefix, role="tasks"))
        return self._aopen[loop](name)

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
        found, (request, _, part) = self.aqueue(queue), id.partition("/")
        end = await anext(async_wait(found, [request], timeout))
        return (await found.outcomes([id]))[0] if part else end
