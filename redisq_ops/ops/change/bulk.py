"""A change of many entries of one queue, by a verb of the core's table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.model.states import VERBS, Verb

from ..filter.scan import Selection
from .allowed import allowed
from .audit_log import Author
from .entry_steps import EntryAction, ListedSteps, Pick, StepSource, Stride
from .runner import ChangeRun
from .selection import ChangeScope


class Bulk(ChangeRun):
    """A change of many entries, by their ids. Each is looked at again in the step that moves it."""

    first = 50
    """entries of the first step at most"""
    source: StepSource
    _stride: Stride

    def __init__(
        self,
        selection: ChangeScope,
        verb: Verb,
        author: Author,
        *,
        rate: float | None = None,
        consumer: str = "operator",
        lease_ms: int = LEASE_MS,
        at_ms: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        corrupt = len(selection.corrupt) if isinstance(selection, Selection) else 0
        super().__init__(
            selection.queue, verb, author, selection.count + corrupt, rate=rate, clock=clock
        )
        self._allowed(selection, verb)
        checked_consumer(consumer)
        if verb == "reschedule" and at_ms is None:
            raise BadInput("reschedule needs a time (--at or --in)")
        self.selection = selection
        self.halted = ""
        """why it stopped before its end, if it did"""
        argument = lease_ms if at_ms is None else at_ms
        self.order = self._ordered(
            EntryAction(
                selection.queue, verb, selection.state, selection.high_water_ms, consumer, argument
            )
        )
        self.source = self._entry_steps()
        self._stride = Stride(min(self.first, int(rate) or 1) if rate else self.first)
        moves = {"source": selection.state, "target": VERBS[verb][1], **self.destination}
        self._log_entry = str(selection.filter), moves
        if corrupt:
            self.outcome.skip("corrupt", corrupt)

    @property
    def moved(self) -> Sequence[str]:
        """The ids that the latest step moved, where it was about listed entries."""
        return self.source.moved if isinstance(self.source, ListedSteps) else ()

    @property
    def number(self) -> int:
        """The number of the latest step."""
        return self.source.steps

    # --- what some kinds have of their own -------------------------------------------------------

    def _allowed(self, selection: ChangeScope, verb: Verb) -> None:
        if verb == "move":
            raise BadInput("move needs a queue to move to (--to OTHER)")
        allowed(selection.queue, verb, selection.state)

    def _ordered(self, order: EntryAction) -> EntryAction:
        return order

    @property
    def destination(self) -> dict[str, Any]:
        """Of a move: the queue they go to, as the audit log and plan files have it."""
        return {}

    def _entry_steps(self) -> StepSource:
        assert isinstance(self.selection, Selection)
        return ListedSteps(self.order, starmap(Pick, self.selection.identities()))
