"""Finishes transfers between two queues that were interrupted, as part of a worker's upkeep."""

from __future__ import annotations

from ..engine.queue import Queue
from ..engine.transfer_recovery import recover
from ..redis.operation import BlockingClient, attempt
from .queue_source import log

_MOST = 3
"""transfers at a time: the worker takes no entries meanwhile"""


class TransferRecoverer:
    """Finishes interrupted transfers. It logs once about one that it can't finish, for example
    without rights in the other queue, and leaves it to other workers."""

    def __init__(self) -> None:
        self._logged: set[str] = set()

    async def look(self, queue: Queue[BlockingClient]) -> None:
        found = await attempt(recover(queue, most=_MOST))
        if isinstance(found, Exception):
            self._log_once(f"queue {queue.name}", f"can't look for unfinished moves: {found}")
            return
        for one in found:
            if one.problem is None:
                log.warning("%s", one)
            else:
                self._log_once(one.op, str(one))

    def _log_once(self, about: str, text: str) -> None:
        if about not in self._logged:
            self._logged.add(about)
            log.warning("%s", text)
