"""What workers do about moves between two queues that nobody goes on with."""

from __future__ import annotations

from ..engine.queue import Queue
from ..engine.transfer_recovery import recover
from ..redis.operation import BlockingClient, attempt
from .queue_source import log

_MOST = 3
"""moves a turn: the worker takes nothing meanwhile"""


class TransferRecoverer:
    """Finishes such moves; one that this worker can't finish, as without the rights in the other
    queue, is logged once and left to others."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    async def look(self, queue: Queue[BlockingClient]) -> None:
        found = await attempt(recover(queue, most=_MOST))
        if isinstance(found, Exception):
            self._tell(f"queue {queue.name}", f"can't look for unfinished moves: {found}")
            return
        for one in found:
            if one.problem is None:
                log.warning("%s", one)
            else:
                self._tell(one.op, str(one))

    def _tell(self, about: str, text: str) -> None:
        if about not in self._told:
            self._told.add(about)
            log.warning("%s", text)
