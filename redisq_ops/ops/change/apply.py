"""Carry out a plan: exactly its entries, each checked again, from where an earlier run stopped.

All steps of a plan belong to one operation. Its entry in the audit log says how far it came: each
step writes its number and its span of entries. So a later run continues a killed one, two runs at
once share the work, and a run that starts after the end learns that the plan is done.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import NotFound, Superseded

from . import audit_log
from .audit_log import Operation
from .entry_steps import EntryAction, ListedSteps
from .plan import PlanFile, checked_age
from .plan_header import PlanHeader
from .scope import ChangeScope

ReportResult = Callable[[str, str], None]
"""gets the id of each entry, and moved or why it was not"""


class PlanSteps(ListedSteps):
    """Steps over the entries of a plan, from where the audit log says.

    ``outcome`` counts the whole plan, over all runs: ``done`` is from the audit log, ``earlier``
    counts the entries that other or earlier runs skipped. ``most``: stop after this many entries.
    ``report`` gets the result of each entry. Of an earlier run's entries it gets those after
    ``last``, the last one that the earlier run reported: reports of all entries would grow with the
    square of the runs.
    The action's ``hand`` (hex) identifies whose runs these are. Entries that another hand moved,
    even in a step that both sent, are reported as ``earlier``. Empty: hands are not distinguished,
    as in moves to another queue.
    """

    def __init__(
        self,
        action: EntryAction,
        scope: ChangeScope,
        plan: PlanFile,
        *,
        most: int | None = None,
        report: ReportResult | None = None,
        last: str | None = None,
    ) -> None:
        header = plan.header
        self.plan = plan
        super().__init__(action, scope, plan.picks())
        self.outcome.op = header.op
        self.recovers = (self.queue,)
        self.stride.largest = min(self.stride.largest, header.step)
        self.stride.size = min(self.stride.size, header.step)
        self._most, self._report = most, report
        self._last = last
        """the last entry that an earlier run reported, until it is passed"""
        self._over = False
        """whether all entries of the plan were dealt with, by whichever runs"""
        self._ends = False
        """whether this run came to the end of the plan"""

    @property
    def left(self) -> int:
        """Entries of the plan not looked at yet, as far as this run knows."""
        return self.plan.count - self.at

    @property
    def ahead(self) -> int:
        most = self.left if self._most is None else min(self.left, self._most)
        return 0 if self._over else most

    async def prepare(self) -> None:
        header, author = self.plan.header, self.author
        self.author = replace(author, why=author.why or header.why)
        if (header.who, header.whence) != (author.who, author.whence):
            self.what = f"{header.filter} (planned by {header.who}@{header.whence})"
        await super().prepare()
        self._before = await recorded(self.queue, header)
        self.continues = self._before is not None

    async def begun(self) -> None:
        if (before := self._before) is not None and before.ended:
            self._catch_up(before)
        elif before is not None:
            with suppress(Superseded):  # another run carries it out too
                await self._again(before.steps, before.span)
            await self._reread()
        await super().begun()

    async def step(self, size: int) -> int | None:
        """Take one step; None when all entries are dealt with, or ``most`` of them."""
        if self._most is not None:
            size = min(size, self._most)
        if self._over or not size:
            return None
        try:
            handled = await super().step(size)
        except Superseded:
            await self._reread()
            return None if self._over else 0
        self._ends = handled is None
        if handled is not None:
            self._report_results()
        if self._most is not None:
            self._most -= handled or 0
        return handled

    async def end(self) -> dict[str, str | int] | None:
        return {} if self._ends else None

    async def finish(self) -> None:
        """Read from the audit log what was done, if anything was begun."""
        if self.at or await audit_log.read(self.queue, self.op) is not None:
            await self._reread()

    def _report_results(self) -> None:
        self._last = None
        if self._report is not None:
            for pick, result in self.results:
                self._report(pick.id, "earlier" if result == "theirs" else result)

    async def _again(self, steps: int, span: tuple[int, int]) -> None:
        """Send the last step once more. Shards that a kill left without it carry it out now; the
        others repeat their reply."""
        self._go_to(steps - 1, span[0])
        if span[1] > span[0]:
            await super().step(span[1] - span[0])
            self._report_results()

    async def _reread(self) -> None:
        operation = await recorded(self.queue, self.plan.header)
        if operation is None:
            gone = f"was queue {self.queue.name} removed?"
            raise NotFound(f"{self.op} is no longer in the audit log: {gone}")
        self._catch_up(operation)

    def _catch_up(self, operation: Operation) -> None:
        """Take over how far the operation came, by this run and others."""
        end = operation.span[1]
        self._go_to(operation.steps, end)
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

    def _go_to(self, steps: int, at: int) -> None:
        """Continue after step ``steps``, at the ``at``-th entry; another run dealt with the entries
        in between."""
        passed = at - self.at
        if passed < 0:
            self._batch, self._picks = [], self.plan.picks(at)
        else:
            unanswered, self._batch = self._batch[:passed], self._batch[passed:]
            for pick in chain(unanswered, islice(self._picks, passed - len(unanswered))):
                if self._last is None and self._report is not None:
                    self._report(pick.id, "earlier")
                elif pick.id == self._last:
                    self._last = None
        self.number, self.at = steps, at


async def recorded(queue: Queue[Any], header: PlanHeader) -> Operation | None:
    """How far a plan was carried out; None: not at all. Refuses a plan that was undone, or that is
    older than the audit log."""
    operation = await audit_log.read(queue, header.op)
    if operation is not None and operation.taken_back:
        raise Superseded(f"this plan was applied and undone ({header.op}): plan again")
    if operation is None:
        checked_age(header, await queue.now.op())
    return operation
