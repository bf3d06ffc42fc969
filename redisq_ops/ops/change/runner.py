"""One runner for every kind of change: the audit log before the first step, steps, rate, the end.

A kind of change is a subclass that says what it writes down (`log_entry`) and takes one step
(`_advance`): `Bulk` and its kinds, `Edit`, `Undo`, `Import`, `ConsumerChange`, `Prune`, and
`SettingsChange` for settings, requests and clients.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer_recovery import Recovered
from redisq_ops.core.model.errors import NotFound, QueueClosed

from . import audit_log
from .audit_log import Author, ChangeOutcome


class ChangeRun:
    """One change that is carried out. Call `step` until it returns False; sleep `pause` between.

    The operation is in the audit log before its first step. Each step is one script, so a kill
    between any two leaves whole entries, each in one state.
    """

    def __init__(
        self,
        queue: Queue[Any],
        verb: str,
        author: Author,
        matched: int,
        *,
        rate: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.queue = queue
        self.verb = verb
        self.author = author
        self.rate = rate
        """entries per second at most; None: no limit"""
        self.outcome = ChangeOutcome(audit_log.new_id(verb), matched)
        self.recovered: list[Recovered] = []
        """unfinished moves of others that this run finished"""
        self._clock = clock
        self._began: float | None = None

    @property
    def op(self) -> str:
        """The operation's id."""
        assert self.outcome.op is not None
        return self.outcome.op

    @property
    def handled(self) -> int:
        """Entries that this run dealt with, whatever became of them."""
        return self.outcome.done + sum(self.outcome.skipped.values())

    @property
    def pause(self) -> float:
        """Seconds to wait before the next step, to keep to the rate."""
        if not self.rate or self._began is None:
            return 0.0
        return max(0.0, self._began + self.handled / self.rate - self._clock())

    async def step(self) -> bool:
        """Take one step; False when nothing is left to do."""
        await self._open()
        if await self._advance():
            return True
        await self._end()
        return False

    async def reached(self) -> int:
        """After an interruption: entries done by the audit log, with a step that got no reply."""
        operation = await audit_log.read(self.queue, self.op)
        return operation.done if operation else 0

    # --- what a kind of change has of its own ----------------------------------------------------

    def log_entry(self) -> tuple[str, dict[str, Any]]:
        """What the audit log says of it before it begins: the object in words, and more fields."""
        raise NotImplementedError

    async def _advance(self) -> bool:
        """One step; False when there is none left. A step whose reply was lost is sent again."""
        raise NotImplementedError

    async def _open(self) -> None:
        if self._began is None:
            began = self._clock()
            await self._begin()
            self._began = began

    async def _begin(self) -> None:
        what, more = self.log_entry()
        await audit_log.begin(
            self.queue, self.op, self.verb, self.author, what,
            now_ms=await self.queue.now.op(), matched=self.outcome.matched, **more,
        )  # fmt: skip

    async def _end(self) -> None:
        await audit_log.note(self.queue, self.op, ended=1)


class SettingsChange(ChangeRun):
    """A change of settings, of a request or of a client, in a few steps.

    Its inverse is in the audit log before the first step, as of the values read then: after a kill
    in between, an undo finds them so. A step that finds another value corrects the inverse.
    """

    def __init__(
        self,
        queue: Queue[Any],
        verb: str,
        author: Author,
        what: str,
        steps: Sequence[Callable[[str, int], Awaitable[bool]]],
        inverse: Callable[[], str],
        last: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """``steps`` get the operation's id and their number, and return whether they changed
        anything. ``last`` is what remains to do after them."""
        super().__init__(queue, verb, author, len(steps))
        self._what, self._steps, self._inverse, self._last = what, steps, inverse, last
        self._taken = 0
        self._recorded = ""

    async def all(self) -> ChangeOutcome:
        """Take all steps."""
        while await self.step():
            pass
        return self.outcome

    def log_entry(self) -> tuple[str, dict[str, Any]]:
        self._recorded = self._inverse()
        return self._what, {"inverse": self._recorded}

    async def _advance(self) -> bool:
        if self._taken == len(self._steps):
            return False
        try:
            changed = await self._steps[self._taken](self.op, self._taken + 1)
        except (QueueClosed, NotFound):
            if not self.outcome.done:  # what somebody else did must not be undone by this undo
                await audit_log.note(self.queue, self.op, inverse="", ended=1)
            raise
        self._taken += 1
        if changed:
            self.outcome.done += 1
        else:
            self.outcome.skip("same")
        inverse = self._inverse() if self.outcome.done else ""
        if inverse != self._recorded:
            self._recorded = inverse
            await audit_log.note(self.queue, self.op, inverse=inverse)
        return True

    async def _end(self) -> None:
        if self._last is not None:
            await self._last(self.op)
        await audit_log.note(self.queue, self.op, done=self.outcome.done, ended=1)
