"""The one runner of all changes: the audit log before the first step, steps, rate, the end.

A change of entries gives the runner its steps (`StepSource`): `Bulk` and its kinds, and `Edit`. The
others override `log_entry` and `_advance`: `Undo`, `Import`, `ConsumerChange`, `Prune`, `Destroy`,
and `SettingsChange` for settings, requests and clients.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer_recovery import Recovered
from redisq_ops.core.model.settings import MAX_BATCH

from . import audit_log
from .audit_log import Author
from .entry_steps import StepSource, Stride
from .outcome import ChangeOutcome


class Run(Protocol):
    """What is run step by step: a `ChangeRun`, or a `Ramp` that drives one."""

    outcome: ChangeOutcome

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
        progress(*run.progress)
        if (pause := run.pause) > 0:  # a sleep of nothing takes a tenth of a step's time
            time.sleep(pause)
    return run.outcome


class ChangeRun:
    """One change that is carried out. Call `step` until it returns False; sleep `pause` between.

    The operation is in the audit log before its first step. Each step is one script, so a kill
    between any two leaves whole entries, each in one state.
    """

    at_most: int | None = None
    """entries of the next step at most; None: as many as the server can take"""

    def __init__(
        self,
        queue: Queue[Any],
        verb: str,
        author: Author,
        matched: int,
        source: StepSource | None = None,
        *,
        what: str = "",
        logged: dict[str, Any] | None = None,
        rate: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``what`` and ``logged``: the object in words and more fields, for the audit log."""
        self.queue = queue
        self.verb = verb
        self.author = author
        self.rate = rate
        """entries per second at most; None: no limit"""
        self.outcome = ChangeOutcome(audit_log.new_id(verb), matched)
        self.recovered: list[Recovered] = []
        """unfinished moves of others that this run finished"""
        self.source = source
        self._handled = 0
        self._stride: Stride | None = None
        """adapts how many entries a step handles; None: as many as a step may"""
        self._log_entry = what, logged or {}
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
        return self.progress[0] if self.source is None else self._handled

    @property
    def progress(self) -> tuple[int, int]:
        """How many entries of the change were dealt with, by this run and others, and of how
        many."""
        return self.outcome.done + sum(self.outcome.skipped.values()), self.outcome.matched

    @property
    def pause(self) -> float:
        """Seconds to wait before the next step, to keep to the rate."""
        if not self.rate or self._began is None:
            return 0.0
        return max(0.0, self._began + self.handled / self.rate - self._clock())

    def limit_rate(self, rate: float | None) -> None:
        """Keep to a rate, where the change's own isn't slower."""
        if rate is not None:
            self.rate = rate if self.rate is None else min(rate, self.rate)

    async def step(self) -> bool:
        """Take one step; False when nothing is left to do."""
        await self._open()
        if await self._advance():
            return True
        await self._end()
        return False

    async def open(self) -> None:
        """Record the operation in the audit log, or read how far it was carried out before."""
        await self._open()

    async def reached(self) -> int:
        """After an interruption: entries done by the audit log, with a step that got no reply."""
        operation = await audit_log.read(self.queue, self.op)
        return operation.done if operation else 0

    # --- what some kinds of change do in their own way -------------------------------------------

    def log_entry(self) -> tuple[str, dict[str, Any]]:
        """What the audit log records before the first step: the object in words, and fields."""
        return self._log_entry

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

    async def _advance(self) -> bool:
        """One step; False when there is none left. A step whose reply was lost is sent again."""
        assert self.source is not None
        size = self._step_size()
        if self._stride is not None and not self._handled:
            await self._stride.measure(self.queue, self._clock)
        began = self._clock()
        results = await self.source.step(self.op, size)
        if not results:
            return False
        if self._stride is not None:
            self._stride.learn(results.total(), self._clock() - began, size)
        self._handled += results.total()
        self._count(results)
        return True

    def _step_size(self) -> int:
        """Entries of the next step at most."""
        size = MAX_BATCH if self._stride is None else self._stride.size
        if self.at_most is not None:
            size = min(size, self.at_most)
        return min(size, max(1, int(self.rate))) if self.rate else size

    def _count(self, results: Counter[str]) -> None:
        for result, n in results.items():
            if result == "moved":
                self.outcome.done += n
            else:
                self.outcome.skip(result, n)

    async def _end(self) -> None:
        await audit_log.note(self.queue, self.op, ended=1)
