"""Bulk moves: a selection, a verb, and bounded steps that look at every entry again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from redisq_ops.core.errors import BadInput
from redisq_ops.core.queue import VERBS, Verb
from redisq_ops.core.settings import LEASE_MS, MAX_BATCH

from . import journal
from .journal import Author
from .selection import Selection

PAST = {
    "requeue": "requeued",
    "claim": "claimed",
    "replay": "replayed",
    "purge": "purged",
    "hard": "removed for good",
    "restore": "restored",
    "reschedule": "rescheduled",
}
TYPED_ABOVE = 1000
"""more entries than this and a person types the number to confirm"""


class Stride:
    """How many entries the next step handles: adapted so that a call takes about half a
    millisecond, network included, and never planned above one."""

    def __init__(self, size: int = 50) -> None:
        self.size = size

    def learn(self, done: int, seconds: float) -> None:
        if not done or done < self.size // 2:
            return
        each = seconds / done
        aim = int(0.0005 / each) if each > 0 else MAX_BATCH
        # Half way to the aim: one slow call must not stall a long run, nor one fast call rush it.
        self.size = max(10, min(MAX_BATCH, (self.size + aim) // 2))


@dataclass(slots=True)
class Outcome:
    """What a bulk change did; `redisq` ends with it and the exit code follows from it."""

    op: str
    matched: int
    done: int = 0
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 all, or nothing matched; 3 some; 1 none of those that matched."""
        if self.done >= self.matched:
            return 0
        return 3 if self.done else 1


class Bulk:
    """One bulk change. Drive `step` until it says False; sleep `pause` between steps.

    The journal is written before the first step and holds how far it came; every step is one
    script, so a kill between any two leaves whole entries, each on one side.
    """

    def __init__(
        self,
        selection: Selection,
        verb: Verb,
        author: Author,
        *,
        rate: float | None = None,
        consumer: str = "operator",
        lease_ms: int = LEASE_MS,
        at_ms: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        sources, self.target = VERBS[verb]
        if selection.state not in sources:
            raise BadInput(f"{verb} is for {' or '.join(sources)} entries, not {selection.state}")
        if verb == "reschedule" and at_ms is None:
            raise BadInput("reschedule needs a time (--at or --in)")
        self.selection = selection
        self.verb = verb
        self.author = author
        self.rate = rate
        self.consumer = consumer
        self.argument = at_ms if at_ms is not None else lease_ms
        self.outcome = Outcome(journal.new_id(verb), selection.count)
        self._clock = clock
        self._stride = Stride(min(50, int(rate) or 1) if rate else 50)
        self._ids = self._each()
        self._steps = 0
        self._began = 0.0

    def _each(self) -> Iterator[str]:
        for page in self.selection.pages:
            yield from page.decode().split("\n")

    def _next(self) -> list[str]:
        size = self._stride.size
        if self.rate:
            size = min(size, max(1, int(self.rate)))
        batch = []
        for id in self._ids:
            batch.append(id)
            if len(batch) == size:
                break
        return batch

    async def step(self) -> bool:
        """Move some; False when all were dealt with."""
        queue, outcome = self.selection.queue, self.outcome
        if not self._steps:
            self._began = self._clock()
            await journal.begin(
                queue, outcome.op, self.verb, self.author, str(self.selection.filter),
                now_ms=await queue.now.op(), source=self.selection.state, target=self.target,
                matched=outcome.matched,
            )  # fmt: skip
        batch = self._next()
        if batch:
            self._steps += 1
            started = self._clock()
            said = await queue.move.op(
                outcome.op, self._steps, batch, source=self.selection.state, target=self.target,
                high_water_ms=self.selection.high_water_ms, consumer=self.consumer,
                lease_ms=self.argument,
            )  # fmt: skip
            self._stride.learn(len(batch), self._clock() - started)
            for word in said:
                if word == "moved":
                    outcome.done += 1
                else:
                    outcome.skipped[word] = outcome.skipped.get(word, 0) + 1
            return True
        await journal.note(queue, outcome.op, ended=1)
        return False

    @property
    def pause(self) -> float:
        """Seconds to wait before the next step, so that the rate is kept."""
        if not self.rate:
            return 0.0
        handled = self.outcome.done + sum(self.outcome.skipped.values())
        return max(0.0, self._began + handled / self.rate - self._clock())
