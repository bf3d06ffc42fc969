"""Unfinished moves between two queues: who began them and when, and the command that ends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer_recovery import IDLE_MS
from redisq_ops.core.redis.operation import together

from ..hint import hint
from ..terminal import age
from . import audit_log
from .audit_log import Operation


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A move that may hold entries: they left one queue, and may not be in the other one yet."""

    operation: Operation
    idle_ms: int
    """since its last step"""

    @property
    def abandoned(self) -> bool:
        """Whether no process seems to carry it out any more."""
        return self.idle_ms >= IDLE_MS

    @property
    def command(self) -> str:
        """The command that ends it."""
        return hint("undo", self.operation.id)

    def sentence(self, when: Callable[[int], str]) -> str:
        """In words; ``when`` shows a time (ms)."""
        op = self.operation
        what = "undo of a move" if op.taken_back else "move"
        text = f"{op.id} isn't finished: {what} of {op.source} entries from {op.queue} to {op.into}"
        text += f", begun {when(op.started_ms)} by {op.by}"
        if not self.abandoned:
            return f"{text}, under way (last step {age(max(0, self.idle_ms))} ago)"
        return (
            f"{text}, and nobody is at it: up to 100 entries on their way stay in the trash; the"
            f" upkeep of a worker of either queue finishes it, or the next move; {self.command}"
            " takes it back"
        )


async def unfinished(queue: Queue[Any]) -> list[Unfinished]:
    """The moves out of a queue that are not finished, the longest idle first; two round trips where
    there are none. Reads only."""
    listed, now = await together(queue.unfinished_transfers.op(), queue.now.op())
    found = await together(audit_log.read(queue, op) for op in listed)
    return [
        Unfinished(operation, now - at)
        for operation, at in zip(found, listed.values(), strict=True)
        if operation is not None and not operation.origin
    ]
