"""The end of a queue: its keys, its audit log and its registry entry are removed."""

from __future__ import annotations

from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered, find, forget
from redisq_ops.core.engine.transfer_recovery import finish, opened, recover
from redisq_ops.core.model.entry import Counts
from redisq_ops.core.model.errors import NotFound, Refused, WrongKind
from redisq_ops.core.model.keys import registry_key
from redisq_ops.core.redis import acl_rights
from redisq_ops.ops.hint import hint

from . import audit_log
from .preview import Preview
from .steps import ChangeSteps

STEP = 100
"""keys removed by one step"""


async def destroyable(queue: Queue[Any], hard: bool) -> Counts:
    """The entries that would be lost with the queue; refuses if there are any, unless ``hard``.

    Another program's queue is never destroyed, whatever else of it may be changed.
    """
    if not queue.destroyable:
        raise WrongKind(
            f"queue {queue.name} is kept by another program ({queue.kind}): it can't be removed "
            "from here"
        )
    counts: Counts = await queue.counts.op()
    if (held := contents(counts)) and not hard:
        raise Refused(
            f"queue {queue.name} is not empty ({held}): drain it and purge the rest, or remove "
            f"all: {hint('queue', 'rm', queue.name, hard=None)}"
        )
    return counts


def destroy_preview(queue: Queue[Any], counts: Counts, hard: bool) -> Preview:
    """What removing a queue will do; ``counts`` as of `destroyable`."""
    left = contents(counts)
    lines = (left or "nothing in it", "its history, results and audit log go too; there is no undo")
    held = counts.waiting + counts.pending + counts.delayed + counts.dead + counts.trash
    facts = {"verb": "rm", "queue": queue.name, "matched": 1, "hard": hard, "entries": held}
    return Preview(f"remove queue {queue.name}", lines, queue.name if left else None, facts)


def contents(counts: Counts) -> str:
    """``3 waiting, 1,200 dead``; empty for a queue with nothing in it."""
    left = {
        "waiting": counts.waiting,
        "pending": counts.pending,
        "delayed": counts.delayed,
        "dead": counts.dead,
        "in the trash": counts.trash,
    }
    return ", ".join(f"{n:,} {state}" for state, n in left.items() if n)


class DestroySteps(ChangeSteps):
    """Remove a queue; ``done`` counts keys. There is no undo.

    Without ``hard`` only an empty queue: nothing waiting, pending, delayed, dead or in the trash.
    The audit log is the first to go, this operation's entry with it; after a kill, destroying the
    queue again removes the rest.
    """

    def __init__(self, queue: Queue[Any], *, hard: bool = False) -> None:
        super().__init__(queue, "rm", 0, f"queue {queue.name}")
        self._hard = hard
        self._registered: Registered | None = None
        self._origins = set[str]()
        self._log_removed = False

    async def prepare(self) -> None:
        queue = self.queue
        # Its entry is removed last, when nothing else is left.
        await acl_rights.to_replace_fields(registry_key(queue.prefix))
        if queue.transferable:
            self._origins = await _ended_moves(queue)
        await destroyable(queue, self._hard)
        self._registered = await find(queue.name, queue.prefix)
        if self._registered is None:
            raise NotFound(f"no queue {queue.name!r} here")

    async def begun(self) -> None:
        why = self.author.reason
        await self.queue.configure.op(self.op, 1, {"closed": why, "paused": why})

    async def step(self, size: int) -> int | None:
        first = not self._log_removed
        if first:
            gone, self._log_removed = await audit_log.forget(self.queue), True
        else:
            gone = await self.queue.destroy_step.op(STEP)
        self.outcome.done += gone
        self.outcome.matched = self.outcome.done
        return gone if first or gone else None

    async def end(self) -> None:
        queue = self.queue
        assert self._registered is not None
        await forget(self._registered, queue.prefix)
        for origin in self._origins:  # entries on their way to a queue that is no more come back
            if (source := await opened(queue, origin)) is not None:
                await recover(source, idle_ms=0)

    async def reached(self) -> int:
        """Keys that were removed, as far as replies came; the audit log is gone."""
        return self.outcome.done


async def _ended_moves(queue: Queue[Any]) -> set[str]:
    """Finish the unfinished moves out of a queue. Returns the queues whose moves into this one are
    unfinished: their entries come back once this queue is gone."""
    origins: dict[str, str] = {}
    for op in await queue.unfinished_transfers.op():
        operation = await audit_log.read(queue, op)
        if operation is not None and operation.origin:
            origins[op] = operation.origin
    for one in await recover(
        queue, idle_ms=0, most=len(await queue.unfinished_transfers.op()), but=origins
    ):
        if one.problem is not None:
            raise Refused(f"{one}: its entries are between two queues; undo it first")
    for op in origins:  # or its record of their entries would stay for good
        await finish(queue, op)
    return set(origins.values())
