"""What a worker does every 30 s: read the server's clock, register, run each queue's upkeep, and
finish interrupted transfers between queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import Any

from ..engine.queue import Queue
from ..engine.registry import find, server_ms
from ..engine.transfer_recovery import recover
from ..engine.worker_register import WorkerRegistration
from ..model.errors import Unreadable
from ..redis.operation import BlockingClient, Description, attempt
from .queue_source import QueueRotation, log
from .retry import Random

UPKEEP_S = 30.0
_MUCH = 40
"""changes by one queue's upkeep after which there is more to do"""
_MOST_TRANSFERS = 3
"""transfers finished at a time: the worker takes no entries meanwhile"""


class Upkeep:
    """A worker's upkeep, as descriptions to send and replies to read.

    ``reports``: what the worker counted, for each upkeep. ``burst``: the first upkeep is complete,
    too, since the worker may end before the next one.
    """

    def __init__(
        self,
        registration: WorkerRegistration,
        sources: QueueRotation,
        *,
        reports: Callable[[], Sequence[Description[None]]],
        burst: bool,
        random: Random,
    ) -> None:
        self._registration, self._sources, self._reports = registration, sources, reports
        self._burst, self._random = burst, random
        self._recoverer = TransferRecoverer()
        self.due_at = 0.0
        self.clock_s = inf
        """the server's clock minus ours; only used to decide when to take; inf: not known yet"""

    def asks(self) -> list[Description[Any]]:
        """The upkeep that is due; the next one is in 30 s."""
        asks: list[Description[Any]] = [server_ms()]
        asks += [_tried(self._registration.beat(source.queue)) for source in self._sources]
        if self.due_at or self._burst:
            asks += [_upkeep_of(source.queue, self._recoverer) for source in self._sources]
        asks += map(_tried, self._reports())
        # The first upkeep is at a random time, so that workers started together spread theirs.
        self.due_at = monotonic() + UPKEEP_S * (1.0 if self.due_at else self._random())
        return asks

    def read(self, replies: Sequence[Any]) -> None:
        """Read the replies to `asks`."""
        self.read_clock(replies)
        if any(isinstance(went, int) and went >= _MUCH for went in replies[1:]):
            self.due_at = monotonic() + 1.0  # there is more to do

    def read_clock(self, replies: Sequence[Any]) -> None:
        """Read the reply to `server_ms`, the first one."""
        if not isinstance(replies[0], Exception):
            self.clock_s = replies[0] / 1000 - monotonic()

    def leave(self) -> list[Description[Any]]:
        """Take the worker out of the registers."""
        leaving = [self._registration.leave(source.queue) for source in self._sources]
        return [_tried(each) for each in (*leaving, *self._reports())]


class TransferRecoverer:
    """Finishes interrupted transfers. It logs once about one that it can't finish, for example
    without rights in the other queue, and leaves it to other workers."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    async def look(self, queue: Queue[BlockingClient]) -> None:
        found = await attempt(recover(queue, most=_MOST_TRANSFERS))
        if isinstance(found, Exception):
            self.log_once(f"queue {queue.name}", f"can't look for unfinished moves: {found}")
            return
        for one in found:
            if one.problem is None:
                log.warning("%s", one)
            else:
                self.log_once(one.op, str(one))

    def log_once(self, about: str, text: str) -> None:
        if about not in self._logged:
            self._logged.add(about)
            log.warning("%s", text)


async def _upkeep_of(queue: Queue[BlockingClient], recoverer: TransferRecoverer) -> int:
    """Run a queue's upkeep, unless it doesn't exist: no key is written before its registration."""
    if not queue.owner and await find(queue.name, queue.prefix) is None:
        queue._registered = False  # the registry has lost it: look, and write the entry again
        if await queue.exists.op():
            await queue._ensure_registered()
    if not await queue.exists.op():
        return 0
    went = await attempt(queue.upkeep.op())
    if isinstance(went, Unreadable):  # no reason to leave the other queues alone
        recoverer.log_once(f"upkeep of {queue.name}", f"queue {queue.name}: no upkeep: {went}")
        went = 0
    elif isinstance(went, Exception):
        raise went
    await recoverer.look(queue)
    return went


async def _tried(writing: Description[None]) -> None:
    """A worker that can't register or report, because the server is full, works all the same."""
    await attempt(writing)
