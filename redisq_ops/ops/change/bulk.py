"""Bulk moves: what was chosen, a verb, and bounded steps that look at every entry again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, starmap
from typing import Any, NamedTuple, Protocol

from redisq_ops.core.engine.optional_features import HasConsumerGroups
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import BadInput, Refused, Superseded
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.model.settings import LEASE_MS, MAX_BATCH
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import Description

from ..filter.scan import Selection
from ..hint import hint
from .audit_log import Author
from .runner import ChangeRun


class ChangeScope(Protocol):
    """What a bulk change is about: a `Selection`, or a plan."""

    @property
    def queue(self) -> Queue[Any]: ...
    @property
    def state(self) -> State: ...
    @property
    def filter(self) -> object: ...
    @property
    def high_water_ms(self) -> int: ...
    @property
    def count(self) -> int: ...


def allowed(queue: Queue[Any], verb: Verb, state: State) -> None:
    """Refuse a verb that isn't for this state, or that this kind of queue can't do."""
    sources, _ = VERBS[verb]
    if state not in sources:
        raise BadInput(f"{verb} is for {' or '.join(sources)} entries, not {state}")
    can = queue.actions.get(verb, ())
    if state not in can:
        of = f"{state} entries" if can else "entries"
        does = "purge --hard" if verb == "hard" else verb
        how = ""
        if isinstance(queue, HasConsumerGroups):
            claim = hint("consumers", "claim", queue.name, "CONSUMER", to="NAME")
            remove = hint("consumers", "remove", queue.name, "CONSUMER")
            how = f" ({claim} does)" if verb == "claim" else (
                f"; what is possible there: {claim}, {remove}"
            )  # fmt: skip
        raise Refused(f"queue {queue.name} is a {queue.kind} queue: it can't {does} {of}{how}")


LEAST_S = 0.000_01
"""of the server's time an entry takes at least, whatever was measured from here: 10 to 18 µs"""


class Stride:
    """How many entries the next step handles: adapted so that a call keeps the server busy for
    about half a millisecond, and never planned above one."""

    def __init__(self, size: int = 50) -> None:
        self.size = size
        self.round_trip_s = 0.0
        """seconds of a call that does nothing: a distant server is not a slow one"""

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        """A step handled ``done`` of ``asked``; of `size`, if not said: a rate may want fewer."""
        if done < (asked or self.size) // 2 or seconds <= self.round_trip_s:
            return  # that tells nothing of how long such a step takes
        # The round trip took longer than usual when it was measured: a step seems to take nothing.
        busy = max(seconds - self.round_trip_s, done * LEAST_S)
        aim = int(0.0005 * done / busy)
        # Half way to the aim: one slow call must not stall a long run, nor one fast call rush it.
        self.size = max(10, min(MAX_BATCH, (self.size + aim) // 2))


class Pick(NamedTuple):
    """One entry that was chosen."""

    id: str
    at_ms: int | None = None
    """what tells it from a later entry of that id that has no record, waiting or delayed"""


@dataclass(frozen=True, slots=True)
class EntryAction:
    """What is done to each entry."""

    queue: Queue[Any]
    verb: Verb
    state: State
    high_water_ms: int
    consumer: str
    argument: int
    """lease (ms) of a claim, ready time (ms) of a reschedule"""
    hand: str = field(default="", kw_only=True)
    """who carries it out, where several may send the same step"""

    def move(
        self, op: str, seq: int, picks: list[Pick], span: tuple[int, int]
    ) -> Description[list[str]]:
        """One step of it, by identity."""
        moved: Description[list[str]] = self.queue.move.op(
            op, seq, [pick.id for pick in picks], source=self.state, target=VERBS[self.verb][1],
            high_water_ms=self.high_water_ms, consumer=self.consumer, lease_ms=self.argument,
            times={pick.id: pick.at_ms for pick in picks if pick.at_ms is not None},
            span=f"{span[0]}-{span[1]}" + (f"-{self.hand}" if self.hand else ""),
        )  # fmt: skip
        return moved


class StepSource(Protocol):
    """The steps of a bulk change."""

    steps: int
    """the number of the latest step"""

    async def step(self, op: str, size: int) -> Counter[str]:
        """Carry out one step of at most ``size`` entries. Returns how many entries had which
        result; empty when none are left. A step whose reply was lost is sent again unchanged."""


class ListedSteps:
    """Steps over entries that were chosen by id, in their order."""

    def __init__(self, order: EntryAction, picks: Iterator[Pick]) -> None:
        self.order = order
        self.at = 0
        """entries dealt with so far"""
        self.steps = 0
        self.moved: list[str] = []
        """the ids that the latest step moved"""
        self._picks = picks
        self._batch: list[Pick] = []

    async def step(self, op: str, size: int) -> Counter[str]:
        self.moved = []
        # Kept until its reply comes: a step that is tried again has the same entries.
        self._batch = self._batch or list(islice(self._picks, size))
        if not self._batch:
            return Counter()
        return Counter(await self._sent(op))

    async def _sent(self, op: str) -> list[str]:
        batch, end = self._batch, self.at + len(self._batch)
        words = await self.order.move(op, self.steps + 1, batch, (self.at, end))
        if len(words) != len(batch):  # the reply of another step that had this number before
            raise Superseded(f"{op} was undone, or another process continues it")
        self._batch, self.at, self.steps = [], end, self.steps + 1
        self.moved = [pick.id for pick, word in zip(batch, words, strict=True) if word == "moved"]
        return words


class Bulk(ChangeRun):
    """A change of many entries, by their ids. Each is looked at again in the step that moves it."""

    first = 50
    """how many entries the first step handles at most"""
    held: int | None = None
    """the next step handles no more entries than this; None: as many as the server can take"""

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
        self._allowed(selection, verb)
        checked_consumer(consumer)
        if verb == "reschedule" and at_ms is None:
            raise BadInput("reschedule needs a time (--at or --in)")
        corrupt = len(selection.corrupt) if isinstance(selection, Selection) else 0
        super().__init__(
            selection.queue, verb, author, selection.count + corrupt, rate=rate, clock=clock
        )
        self.outcome.skip("corrupt", corrupt)
        self.selection = selection
        self.halted = ""
        """why it stopped before its end, if it did"""
        argument = lease_ms if at_ms is None else at_ms
        self.order = self._ordered(
            EntryAction(
                selection.queue, verb, selection.state, selection.high_water_ms, consumer, argument
            )
        )
        self._handled = 0
        self._source: StepSource = self._steps()
        self._stride = Stride(min(self.first, int(rate) or 1) if rate else self.first)

    @property
    def handled(self) -> int:
        return self._handled

    @property
    def moved(self) -> Sequence[str]:
        """The ids that the latest step moved, where it was about listed entries."""
        return self._source.moved if isinstance(self._source, ListedSteps) else ()

    @property
    def number(self) -> int:
        """The number of the latest step."""
        return self._source.steps

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

    def _steps(self) -> StepSource:
        assert isinstance(self.selection, Selection)
        return ListedSteps(self.order, starmap(Pick, self.selection.identities()))

    def _size(self) -> int:
        limits = [self._stride.size, *([] if self.held is None else [self.held])]
        return min(*limits, max(1, int(self.rate))) if self.rate else min(limits)

    def log_entry(self) -> tuple[str, dict[str, Any]]:
        target = VERBS[self.order.verb][1]
        more = {"source": self.order.state, "target": target, **self.destination}
        return str(self.selection.filter), more

    async def open(self) -> None:
        """Write down what is about to be done, or read how far it was done before."""
        await self._open()

    async def _open(self) -> None:
        new = self._began is None
        await super()._open()
        if new:
            asked = self._clock()
            await self.queue.now.op()
            self._stride.round_trip_s = self._clock() - asked

    async def _advance(self) -> bool:
        started = self._clock()
        asked = self._size()
        words = await self._source.step(self.op, asked)
        if not words:
            return False
        handled = words.total()
        self._stride.learn(handled, self._clock() - started, asked)
        self._handled += handled
        self._count(words)
        return True

    def _count(self, words: Counter[str]) -> None:
        for word, n in words.items():
            if word == "moved":
                self.outcome.done += n
            else:
                self.outcome.skip(word, n)
