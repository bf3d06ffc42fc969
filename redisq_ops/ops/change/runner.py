"""The one runner of all changes: the audit log before the first step, steps, rate, the end.

What a change does is in its steps (`steps.ChangeSteps`); nothing here depends on their kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, final

from redisq_ops.core.model.errors import Forbidden
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.redis.operation import TimedRounds, attempt

from . import audit_log
from .audit_log import Author
from .outcome import ChangeOutcome
from .steps import ChangeSteps

S_co = TypeVar("S_co", bound=ChangeSteps, covariant=True)


class Run(Protocol):
    """What is run step by step: a `ChangeRun`, or a `WatchedReplay` that drives one."""

    outcome: ChangeOutcome

    @property
    def begun(self) -> bool: ...
    @property
    def progress(self) -> tuple[int, int]: ...
    @property
    def pause(self) -> float: ...
    def limit_rate(self, rate: float | None) -> None: ...
    async def step(self) -> bool: ...
    async def reached(self) -> int: ...


async def take_all(
    run: Run, progress: Callable[[int, int], None] = lambda handled, matched: None
) -> ChangeOutcome:
    """Take all steps, each as soon as the rate allows it."""
    while await run.step():
        pause = run.pause
        progress(*run.progress)
        if pause > 0:  # a sleep of nothing takes a tenth of a step's time
            time.sleep(pause)
    return run.outcome


@final
class ChangeRun(Generic[S_co]):
    """One change that is carried out. Call `step` until it returns False; sleep `pause` between.

    The operation is in the audit log before its first step. Each step is one script, so a kill
    between any two leaves whole entries, each in one state.
    """

    at_most: int | None = None
    """entries of the next step at most; None: as many as the server can take"""

    def __init__(
        self,
        steps: S_co,
        author: Author,
        *,
        rate: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        steps.author = author
        self.steps = steps
        self.rate = rate
        """entries per second at most; None: no limit"""
        self.outcome = steps.outcome
        self.handled = 0
        """entries that this run dealt with, whatever became of them"""
        self._clock = clock
        self._began: float | None = None

    @property
    def op(self) -> str:
        """The operation's id."""
        return self.steps.op

    @property
    def begun(self) -> bool:
        """Whether the audit log is known to have the operation."""
        return self._began is not None

    @property
    def progress(self) -> tuple[int, int]:
        """(entries that this run and others dealt with, entries of the change)"""
        return self.outcome.handled, self.outcome.matched

    @property
    def pause(self) -> float:
        """Seconds to wait before the next step, to keep to the rate."""
        if not self.rate or self._began is None:
            return 0.0
        return max(0.0, self._began + self.handled / self.rate - self._clock())

    def limit_rate(self, rate: float | None) -> None:
        """Keep to a rate, or to the change's own rate if that is lower."""
        if rate is not None:
            self.rate = rate if self.rate is None else min(rate, self.rate)

    async def open(self) -> None:
        """Record the operation in the audit log, or read how far it was carried out before."""
        if self.begun:
            return
        began, steps = self._clock(), self.steps
        await steps.prepare()
        if not steps.continues:
            await audit_log.begin(
                steps.queue,
                steps.op,
                steps.verb,
                steps.author,
                steps.what,
                now_ms=await steps.queue.now.op(),
                matched=self.outcome.matched,
                **steps.logged,
            )
        await steps.begun()
        self._began = began

    async def step(self) -> bool:
        """Take one step; False when nothing is left to do."""
        await self.open()
        steps, stride, size = self.steps, self.steps.stride, self._step_size()
        if stride is not None and not self.handled:
            await stride.measure(steps.queue, self._clock)
        began, rounds = self._clock(), TimedRounds(steps.step(size), self._clock)
        try:
            handled = await rounds
        except Forbidden:
            if not (self.handled or steps.continues):
                await attempt(audit_log.retract(steps.queue, steps.op))
            raise
        if handled is None:
            if (fields := await steps.end()) is not None:
                await audit_log.note(steps.queue, steps.op, **fields, ended=1)
            return False
        if stride is not None:
            stride.learn(handled, self._clock() - began, size, rounds.longest_s)
        self.handled += handled
        return True

    def _step_size(self) -> int:
        """Entries of the next step at most."""
        size = MAX_BATCH if self.steps.stride is None else self.steps.stride.size
        if self.at_most is not None:
            size = min(size, self.at_most)
        return min(size, max(1, int(self.rate))) if self.rate else size

    async def reached(self) -> int:
        """After an interruption: entries done by the audit log, also in a step without a reply."""
        return await self.steps.reached()
