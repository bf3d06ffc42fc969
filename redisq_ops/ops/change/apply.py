"""Carry out a plan: exactly its entries, each checked again, from where an earlier run stopped.

All steps of a plan belong to one operation. Its entry in the audit log says how far it came: each
step writes its number and its span of entries. So a killed apply is continued by another, two at
once share the work, and one that starts after the end learns that it is done.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.transfer_recovery import recover
from redisq_ops.core.model.errors import NotFound, Superseded

from . import audit_log
from .audit_log import Author, Operation
from .bulk import Bulk
from .entry_steps import EntryAction, ListedSteps
from .plan import PlanFile, PlanHeader, checked_age
from .selection import PlannedScope

ReportResult = Callable[[str, str], None]
"""gets the id of each entry, and moved or why it was not"""


class PlannedSteps(ListedSteps):
    """Steps over the entries of a plan, from where the audit log says."""

    def __init__(
        self,
        order: EntryAction,
        plan: PlanFile,
        report: ReportResult | None,
        last: str | None = None,
    ) -> None:
        super().__init__(order, plan.picks())
        self._plan = plan
        self._report = report
        self._last = last
        """the last entry that an earlier run reported, until it is passed"""

    async def _sent(self, op: str) -> list[str]:
        batch = self._batch
        results = await super()._sent(op)
        self._last = None
        if self._report is not None:
            for pick, result in zip(batch, results, strict=True):
                self._report(pick.id, "earlier" if result == "theirs" else result)
        return ["moved" if result == "theirs" else result for result in results]

    def go_to(self, steps: int, at: int) -> None:
        """Continue after step ``steps``, at the ``at``-th entry; another run dealt with the entries
        in between."""
        passed = at - self.at
        if passed < 0:
            self._batch, self._picks = [], self._plan.picks(at)
        else:
            unanswered, self._batch = self._batch[:passed], self._batch[passed:]
            for pick in chain(unanswered, islice(self._picks, passed - len(unanswered))):
                if self._last is None and self._report is not None:
                    self._report(pick.id, "earlier")
                elif pick.id == self._last:
                    self._last = None
        self.steps, self.at = steps, at

    async def again(self, op: str, steps: int, span: tuple[int, int]) -> Counter[str]:
        """Send the last step once more: shards that a kill left without it get it now, all others
        answer as they did."""
        self.go_to(steps - 1, span[0])
        return await self.step(op, span[1] - span[0]) if span[1] > span[0] else Counter()


class Apply(Bulk):
    """A plan that is carried out.

    ``outcome`` is of the whole plan, whichever runs carried it out: ``done`` by the audit log, and
    ``earlier`` the entries that other or earlier runs skipped. ``most``: stop after this many
    entries. ``report`` gets the result of each entry; of entries of an earlier run only those after
    ``last``, which that run reported last, so that reports don't grow with the square of the runs.
    ``hand``: identifies whose runs these are, in hex; entries that another hand moved, even in a
    step that both sent, are reported as ``earlier``. Empty: not distinguished, as for moves to
    another queue.
    """

    def __init__(
        self,
        plan: PlanFile,
        queue: Queue[Any],
        author: Author,
        *,
        rate: float | None = None,
        most: int | None = None,
        report: ReportResult | None = None,
        last: str | None = None,
        hand: str = "",
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        header = plan.header
        self.plan = plan
        self._report, self._last, self._hand = report, last, hand
        self._most = most
        self._over = False
        what = header.filter
        if (header.who, header.whence) != (author.who, author.whence):
            what += f" (planned by {header.who}@{header.whence})"
        chosen = PlannedScope(queue, header.state, what, header.high_water_ms, plan.count)
        super().__init__(
            chosen, header.verb, Author(author.who, author.whence, author.why or header.why),
            rate=rate, consumer=header.consumer, at_ms=header.argument, clock=clock,
        )  # fmt: skip
        self.outcome.op = header.op

    def _ordered(self, order: EntryAction) -> EntryAction:
        return replace(order, hand=self._hand)

    def _entry_steps(self) -> PlannedSteps:
        self._listed = PlannedSteps(self.order, self.plan, self._report, self._last)
        return self._listed

    @property
    def left(self) -> int:
        """Entries of the plan not looked at yet, as far as this run knows."""
        return self.plan.count - self._listed.at

    def _step_size(self) -> int:
        size = min(super()._step_size(), self.plan.header.step)
        return size if self._most is None else min(size, self._most - self.handled)

    async def _begin(self) -> None:
        self.recovered += await recover(self.order.queue, but=[self.op])
        operation = await recorded(self.order.queue, self.plan.header)
        if operation is None:
            await super()._begin()
        elif operation.ended:
            self._catch_up(operation)
            self._over = True
        else:
            with suppress(Superseded):  # another run carries it out too
                self._count(await self._listed.again(self.op, operation.steps, operation.span))
            await self._reread()

    async def step(self) -> bool:
        """Take one step; False when all entries are dealt with, or ``most`` of them."""
        await self._open()
        if self._over or (self._most is not None and self.handled >= self._most):
            return False
        try:
            return await super().step()
        except Superseded:
            await self._reread()
            return not self._over

    async def _reread(self) -> None:
        operation = await recorded(self.order.queue, self.plan.header)
        if operation is None:
            gone = f"was queue {self.order.queue.name} destroyed?"
            raise NotFound(f"{self.op} is no longer in the audit log: {gone}")
        self._catch_up(operation)

    def _catch_up(self, operation: Operation) -> None:
        """Take over how far the operation came, by this run and others."""
        end = operation.span[1]
        self._listed.go_to(operation.steps, end)
        self._over = operation.ended
        outcome = self.outcome
        outcome.done = operation.done
        outcome.skipped.pop("earlier", None)
        left_out = end - operation.done
        if (known := sum(outcome.skipped.values())) > left_out:
            # Results of a step that was sent again after its first reply was forgotten.
            outcome.skipped.clear()
            known = 0
        outcome.skip("earlier", left_out - known)

    async def finish(self) -> None:
        """Read from the audit log what was done, if anything was begun."""
        if self.handled or await audit_log.read(self.order.queue, self.plan.header.op) is not None:
            await self._reread()


async def recorded(queue: Queue[Any], header: PlanHeader) -> Operation | None:
    """How far a plan was carried out; None: not at all. Refuses a plan that was undone, or that is
    older than the audit log."""
    operation = await audit_log.read(queue, header.op)
    if operation is not None and operation.taken_back:
        raise Superseded(f"this plan was applied and undone ({header.op}): plan again")
    if operation is None:
        checked_age(header, await queue.now.op())
    return operation
