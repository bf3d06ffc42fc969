"""What a change does, step by step: the part that differs from one kind of change to another.

The kinds: `EntrySteps` and its own kinds, `EditSteps`, `UndoSteps`, `ImportSteps`, `ConsumerSteps`,
`PruneSteps`, `DestroySteps` and `SettingsSteps`. `runner.ChangeRun` runs each of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer_recovery import Recovered, recover

from . import audit_log
from .audit_log import Author
from .outcome import ChangeOutcome
from .step_size import Stride


class ChangeSteps(ABC):
    """The steps of one kind of change: what they count, check again and write, and their inverse.

    `ChangeRun` calls `prepare`, records the operation in the audit log, calls `begun`, then `step`
    until it returns None, then `end`. Each may be called again after a lost reply, and then sends
    what it sent before.
    """

    author: Author
    """who makes the change; set by its run"""
    stride: Stride | None = None
    """adapts how many entries a step handles; None: the steps decide"""
    recovers: Sequence[Queue[Any]] = ()
    """queues in which abandoned moves are finished before the change begins"""
    subject = ""
    """the operation that the change is about, which `recovers` leaves as it is"""
    continues = False
    """whether the audit log has the operation already, from an earlier run; set by `prepare`"""

    def __init__(
        self, queue: Queue[Any], verb: str, matched: int, what: str = "", **logged: Any
    ) -> None:
        """``what`` and ``logged``: the object in words and more fields, for the audit log."""
        self.queue = queue
        self.verb = verb
        self.outcome = ChangeOutcome(audit_log.new_id(verb), matched)
        self.recovered: list[Recovered] = []
        """unfinished moves of others that this change finished"""
        self.what = what
        self.logged = logged

    @property
    def op(self) -> str:
        """The operation's id."""
        assert self.outcome.op is not None
        return self.outcome.op

    async def prepare(self) -> None:
        """Check everything that can be refused, before the operation is in the audit log."""
        for queue in self.recovers:
            self.recovered += await recover(queue, but=[self.op, self.subject])

    async def begun(self) -> None:
        """Called once the audit log has the operation, before the first step."""
        return

    @abstractmethod
    async def step(self, size: int) -> int | None:
        """Carry out one step of at most ``size`` entries and add its results to the outcome.
        Returns how many entries it dealt with; None: nothing is left."""

    async def end(self) -> dict[str, str | int] | None:
        """Finish what remains. Returns fields for the operation's end in the audit log; None: the
        operation has not ended, or has no entry any more."""
        return {}

    async def reached(self) -> int:
        """After an interruption: entries done by the audit log, also in a step without a reply."""
        operation = await audit_log.read(self.queue, self.op)
        return operation.done if operation else 0
