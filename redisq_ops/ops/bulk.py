"""Bulk moves: a selection, a verb, and bounded steps that look at every entry again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.errors import BadInput, Refused
from redisq_ops.core.queue import VERBS, Queue, Verb, checked_consumer
from redisq_ops.core.settings import LEASE_MS, MAX_BATCH
from redisq_ops.core.values import State

from . import journal
from .journal import Author, Outcome
from .selection import Selection
from .terminal import age, count

PAST = {
    "requeue": "requeued",
    "claim": "claimed",
    "replay": "replayed",
    "purge": "purged",
    "hard": "removed for good",
    "restore": "restored",
    "reschedule": "rescheduled",
}
MEANS = {
    "requeue": "they wait for the next worker; whoever holds one can't settle it any more",
    "claim": "their leases go to another consumer; who held them can't settle any more",
    "replay": "they wait for a worker again, attempts counted afresh",
    "purge": "they go to the trash",
    "hard": "they are removed for good: there is no undo",
    "restore": "they go back to where they were purged from",
    "reschedule": "they become ready at another time",
}
TYPED_ABOVE = 1000
"""more entries than this and a person types the number to confirm"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change will do, in words, before it is done; the same words on every face."""

    title: str
    lines: tuple[str, ...] = ()
    typed: str | None = None
    """what a person types to confirm; None: a plain yes will do"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """the same for programs"""

    def __str__(self) -> str:
        return "; ".join([self.title, *self.lines])


def planned(selection: Selection, verb: Verb, rate: float | None = None, means: str = "") -> Plan:
    """What a bulk change of a selection will do: to how many, which, and what that means."""
    n, queue, state = selection.count, selection.queue.name, selection.state
    ids = [entry.id for entry in selection.sample]
    does = "remove for good" if verb == "hard" else verb
    title = f"{does} {entries(n, state)} of {queue} (filter: {selection.filter})"
    lines = []
    if n:
        reasons = ", ".join(f"{count(k)} {reason}" for reason, k in selection.reasons.items())
        title += f": {reasons}" if reasons else ""
        lines = [", ".join(ids[:3]) + (", …" if n > 3 else ""), means or MEANS[verb]]
        if rate:
            lines.append(f"about {age(int(1000 * n / rate))} at {rate:g}/s")
    lines += [f"{e.id} is {e.state}, not {state}: left out" for e in selection.elsewhere[:3]]
    typed = None
    if n and verb == "hard":
        typed = queue
    elif n > TYPED_ABOVE:
        typed = str(n)
    facts = {
        "verb": verb, "queue": queue, "state": state, "filter": str(selection.filter),
        "matched": n, "reasons": selection.reasons, "sample": ids,
    }  # fmt: skip
    return Plan(title, tuple(lines), typed, facts)


def entries(n: int, state: State) -> str:
    """``1 dead entry``, ``1,234 waiting entries``, ``2 entries in the trash``."""
    noun = "entry" if n == 1 else "entries"
    return f"{count(n)} {noun} in the trash" if state == "trash" else f"{count(n)} {state} {noun}"


def allowed(queue: Queue[Any], verb: Verb, state: State) -> None:
    """Refuse a verb that isn't for this state, or that this kind of queue can't do."""
    sources, _ = VERBS[verb]
    if state not in sources:
        raise BadInput(f"{verb} is for {' or '.join(sources)} entries, not {state}")
    can = queue.actions.get(verb, ())
    if state not in can:
        of = f"{state} entries" if can else "entries"
        raise Refused(f"queue {queue.name} is a {queue.kind} queue: it can't {verb} {of}")


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
        allowed(selection.queue, verb, selection.state)
        checked_consumer(consumer)
        if verb == "reschedule" and at_ms is None:
            raise BadInput("reschedule needs a time (--at or --in)")
        self.selection = selection
        self.verb = verb
        self.target = VERBS[verb][1]
        self.author = author
        self.rate = rate
        self.consumer = consumer
        self.argument = at_ms if at_ms is not None else lease_ms
        self.outcome = Outcome(journal.new_id(verb), selection.count)
        self._clock = clock
        self._stride = Stride(min(50, int(rate) or 1) if rate else 50)
        self._ids = self._each()
        self._steps = 0
        self._batch: list[str] = []
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
        assert outcome.op is not None
        if not self._steps:
            self._began = self._clock()
            await journal.begin(
                queue, outcome.op, self.verb, self.author, str(self.selection.filter),
                now_ms=await queue.now.op(), source=self.selection.state, target=self.target,
                matched=outcome.matched,
            )  # fmt: skip
        # Kept until its reply is heard: a step tried again is the same step with the same entries.
        if not self._batch:
            self._batch = self._next()
            self._steps += bool(self._batch)
        if batch := self._batch:
            started = self._clock()
            said = await queue.move.op(
                outcome.op, self._steps, batch, source=self.selection.state, target=self.target,
                high_water_ms=self.selection.high_water_ms, consumer=self.consumer,
                lease_ms=self.argument,
            )  # fmt: skip
            self._batch = []
            self._stride.learn(len(batch), self._clock() - started)
            for word in said:
                if word == "moved":
                    outcome.done += 1
                else:
                    outcome.skip(word)
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

    async def reached(self) -> int:
        """How many were moved as the journal has it, also by a step whose reply was not heard."""
        assert self.outcome.op is not None
        operation = await journal.read(self.selection.queue, self.outcome.op)
        return operation.done if operation else 0
