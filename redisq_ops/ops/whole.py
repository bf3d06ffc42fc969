"""A whole large state, moved in the server's own order: nobody has to read a million ids first.

What is meant is every entry that has been in the state since before the moment of the look; the
server finds the next ones itself, and each is as safe as if it had been named.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from redisq_ops.core.io import Call, Description
from redisq_ops.core.queue import Queue
from redisq_ops.core.states import VERBS, Verb
from redisq_ops.core.values import Counts, Entry, State
from redisq_ops.core.values import Front as Moved

from .bulk import Bulk, Chosen, Order, Source, Stride
from .consequences import Consequences, weigh
from .journal import Author
from .selection import Filter

LARGE = 10_000
"""up to so many entries all of them are looked at, and the plan is exact"""
LOOKED = 1_000
LARGEST = 120
"""entries a step moves: so that taking it back, at 6 µs each, stays under a millisecond too"""
COST_US = 4.5
"""server time of one entry, µs, as `python -m benchmarks replay` measures it"""
MOVES: frozenset[Verb] = frozenset({"replay", "purge", "hard"})


@dataclass(frozen=True, slots=True)
class Whole:
    """All of a state, as it was at one moment, or with ``filter.max`` the first of it."""

    queue: Queue[Any]
    state: State
    filter: Filter
    high_water_ms: int
    """entries that came into the state after this moment are not meant"""
    count: int
    sample: list[Entry] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    elsewhere: list[Entry] = field(default_factory=list)
    remarks: tuple[str, ...] = ()


async def movable(queue: Queue[Any], state: State, verb: Verb, filter: Filter) -> bool:
    """Whether that is a whole state, one the server can move by itself, and a large one."""
    one = len(queue.all_keys) == 1  # of several shards each has its own first entries
    plain = filter == Filter(max=filter.max if one else None)
    if not plain or verb not in MOVES or state not in queue.fronts:
        return False
    counts: Counts = await queue.counts.op()
    return min(counts.of(state) or 0, filter.max or 2**53) > LARGE


async def whole(
    queue: Queue[Any],
    state: State,
    filter: Filter,
    progress: Callable[[int, int | None], None] | None = None,
    shown: Callable[[str], str] = str,
) -> tuple[Whole, Consequences]:
    """The number of a state, and what its first entries are like; as `weigh`, but for the scan."""
    first = replace(filter, window=LOOKED)
    selection, weight = await weigh(queue, state, first, progress, shown=shown)
    meant = selection.total if filter.max is None else min(selection.total, filter.max)
    weight.stands_for(meant, COST_US)
    chosen = Whole(queue, state, filter, selection.high_water_ms, meant, selection.sample)
    return chosen, weight


class Front:
    """A bulk change's steps over a whole state.

    While the server is at one, the next is made ready: as if nothing of it had to be left where it
    is, which hardly ever is so. Only one is on its way at a time: others' calls get their turn.
    """

    def __init__(self, order: Order, most: int | None = None) -> None:
        self.order = order
        self.steps = 0
        self._room = most
        self._left: tuple[int, ...] = (0,)
        self._size = 0
        self._ready: tuple[tuple[object, ...], Description[Moved]] | None = None
        """the step that was made ready, and what it is"""

    async def step(self, op: str, size: int) -> Counter[str]:
        # The size of a step whose reply was not heard is the step's.
        room = size if self._room is None else self._room
        self._size = self._size or min(size, LARGEST, room)
        if not self._size:
            return Counter()
        stuck = sum(self._left)
        front = await self._described(op, self.steps + 1, self._size)
        self.steps, self._size, self._left = self.steps + 1, 0, front.left
        if self._room is not None:
            self._room -= front.moved
        if front.over:
            return Counter()
        return Counter(moved=front.moved, changed=sum(front.left) - stuck)

    def _described(self, op: str, step: int, size: int) -> Description[Moved]:
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == self._which(step, size, self._left):
            return ready[1]
        return self._made(op, step, size, self._left)

    def _which(self, step: int, size: int, left: tuple[int, ...]) -> tuple[object, ...]:
        return step, size, left, self.order.queue.clock.stamp()  # a test's clock may have moved

    def _made(self, op: str, step: int, size: int, left: tuple[int, ...]) -> Description[Moved]:
        order = self.order
        made: Description[Moved] = order.queue.move_front.op(
            op, step, size, source=order.state, target=VERBS[order.verb][1],
            high_water_ms=order.high_water_ms, left=left,
        )  # fmt: skip
        if not isinstance(made, Call):  # of several shards
            return made

        def following() -> Call[Moved]:
            call = self._made(op, step + 1, size, left)
            assert isinstance(call, Call)
            self._ready = self._which(step + 1, size, left), call
            return call

        return replace(made, follows=following)


class EvenStride(Stride):
    """For steps that cost about the same again and again: what counts is the second quickest of
    the latest, since what else the machine does can only make them longer."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._each: deque[float] = deque(maxlen=5)

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        if done < (asked or self.size) // 2 or seconds <= self.way:  # nothing to be learnt from
            return
        self._each.append((seconds - self.way) / done)
        usual = sorted(self._each)[:2][-1]
        aim = max(10, min(LARGEST, round(0.0005 / usual)))
        if abs(aim - self.size) > self.size // 8:  # else the step that was made ready is of no use
            self.size = aim


class WholeBulk(Bulk):
    """A bulk change of a `Whole`."""

    def __init__(self, selection: Chosen, verb: Verb, author: Author, **more: Any) -> None:
        super().__init__(selection, verb, author, **more)
        self._stride = EvenStride(self._stride.size)

    async def _open(self) -> None:
        new = self._began is None
        await super()._open()
        for _ in range(2 if new else 0):  # one that is held up would make any step seem short
            asked = self._clock()
            await self.order.queue.now.op()
            self._stride.way = min(self._stride.way, self._clock() - asked)

    def _steps(self) -> Source:
        assert isinstance(self.selection, Whole)
        return Front(self.order, self.selection.filter.max)

    async def step(self) -> bool:
        more = await super().step()
        if not more:  # what was in the state when it was counted, and left it before its turn
            self.outcome.skip("changed", max(0, self.outcome.matched - self.handled))
        return more
