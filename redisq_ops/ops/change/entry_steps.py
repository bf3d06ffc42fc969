"""The steps of a change of entries: what is done to each entry, and how many go into a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import State
from redisq_ops.core.model.errors import Superseded
from redisq_ops.core.model.settings import MAX_BATCH
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import Description

LEAST_S = 0.000_01
"""of the server's time an entry takes at least, whatever was measured from here: 10 to 18 µs"""


class Stride:
    """How many entries the next step handles: adapted so that a call keeps the server busy for
    about half a millisecond, and never planned above one."""

    trips = 1
    """calls by which the round trip is measured"""

    def __init__(self, size: int = 50) -> None:
        self.size = size
        self.round_trip_s = 0.0
        """seconds of a call that does nothing: a distant server is not a slow one"""

    async def measure(self, queue: Queue[Any], clock: Callable[[], float]) -> None:
        """Measure the round trip, before the first step."""
        trips = []
        for _ in range(self.trips):
            asked = clock()
            await queue.now.op()
            trips.append(clock() - asked)
        self.round_trip_s = min(trips)

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        """A step handled ``done`` entries of ``asked``, or of `size`: a rate may want fewer."""
        if done < (asked or self.size) // 2 or seconds <= self.round_trip_s:
            return  # it doesn't show how long such a step takes
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
