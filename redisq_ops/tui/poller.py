"""The dashboard's only loop that waits for a server: read, post, sleep, read again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from textual.message import Message

from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport
from redisq_ops.tui.host import FIRST

if TYPE_CHECKING:
    from redisq_ops.ops.change.limits import Guard
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.ops.inspect.server_state import ServerHistory
    from redisq_ops.ops.inspect.snapshot_reader import KeptReads
    from redisq_ops.ops.redaction import Redaction


@dataclass(frozen=True, slots=True)
class Connected:
    """A server: its name without secrets, its queues, the limits for changes, and the redaction.

    None as guard or redaction: nothing is limited, everything is shown.
    """

    label: str
    deployment: Deployment
    read_only: bool = False
    guard: Guard | None = None
    redaction: Redaction | None = None
    word: str = ""
    """the context's name in the header"""
    color: str = ""
    options: tuple[str, ...] = ()
    """the command-line options with which `redisq` connects to the same server"""
    context: str = FIRST
    """name of its context; `FIRST`: it has none"""


class SnapshotSource(Protocol):
    """Provides snapshots."""

    connected: Connected | None
    """set by the first read"""
    warning: str | None
    """what is dangerous about this server"""

    async def look(self, viewport: Viewport) -> Snapshot:
        """Read one snapshot. Any exception means that there is none now."""

    async def close(self) -> None: ...


class Live:
    """Snapshots of a real server. The first read calls ``ready``, which may take long, and then
    ``connect``."""

    def __init__(
        self, connect: Callable[[], Connected], ready: Callable[[], object] | None = None
    ) -> None:
        self._connect = connect
        self._ready = ready
        self.connected: Connected | None = None
        self.warning: str | None = None
        self._kept: KeptReads | None = None
        self._server: ServerHistory | None = None
        self._looking = asyncio.Lock()

    async def look(self, viewport: Viewport) -> Snapshot:
        if self._ready is not None:
            await asyncio.to_thread(self._ready)
            self._ready = None
        if self.connected is None:
            self.connected = self._connect()
        from redisq_ops.core.redis.operation import arun, together
        from redisq_ops.ops.inspect.overview import eviction_policy
        from redisq_ops.ops.inspect.server_state import ServerHistory, server_state
        from redisq_ops.ops.inspect.snapshot_reader import KeptReads, fetch
        from redisq_ops.ops.redaction import NO_REDACTION

        deployment = self.connected.deployment
        redaction = self.connected.redaction or NO_REDACTION
        if self._kept is None:
            self._kept = KeptReads(deployment)
        self._server = history = self._server or ServerHistory()
        async with self._looking:  # the kept reads belong to one read at a time
            read = fetch(deployment, viewport, redaction, self._kept)
            if not history.due:
                snapshot = await arun(deployment.client, read)
            else:
                checks = together(server_state(), eviction_policy())
                snapshot, (state, policy) = await arun(deployment.client, together(read, checks))
                history.record(state, (queue.name for queue in snapshot.queues))
                self.warning = policy and (
                    f"this server's maxmemory-policy is {policy}: once memory is full it deletes "
                    "what queues keep; set it to noeviction"
                )
            return replace(snapshot, server=history.sign)

    async def close(self) -> None:
        if self.connected is not None:
            await self.connected.deployment.client.aclose()


@dataclass(eq=False)
class SnapshotFetched(Message):
    """A new snapshot, of the server of ``source``."""

    snapshot: Snapshot
    source: SnapshotSource

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotFetched)


@dataclass(eq=False)
class Missed(Message):
    """A failed read of the server of ``source``, and the error."""

    error: Exception
    source: SnapshotSource

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Missed)


class Poller:
    """Reads a snapshot every ``interval`` seconds, and at once when woken; never two at a time.
    After a read that took longer than ``interval`` it waits as long as that read took. As long as
    something was never read, it doesn't wait.

    Each read asks ``viewport`` what to read, so the latest viewport wins and none is queued.
    """

    def __init__(
        self,
        source: SnapshotSource,
        viewport: Callable[[], Viewport],
        post: Callable[[Message], object],
        interval: float = 1.0,
    ) -> None:
        self._source = source
        self._viewport = viewport
        self._post = post
        self.interval = interval
        self.frozen = False
        """looks only when it is woken"""
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """Read again now, because the view or the data has changed."""
        self._awake.set()

    async def run(self) -> None:
        try:
            while True:
                began = time.monotonic()
                self._awake.clear()
                incomplete = False
                try:
                    snapshot = await self._source.look(self._viewport())
                except Exception as error:
                    # On any error the dashboard goes on: its last snapshot is better than nothing.
                    self._post(Missed(error, self._source))
                else:
                    incomplete = snapshot.incomplete
                    self._post(SnapshotFetched(snapshot, self._source))
                took = time.monotonic() - began
                # A slow server or link is not kept busy more than half of the time.
                rest = max(0.01, self.interval - took if took < self.interval else took)
                if incomplete:
                    rest = 0.01
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._awake.wait(), None if self.frozen else rest)
        finally:
            await self._source.close()
