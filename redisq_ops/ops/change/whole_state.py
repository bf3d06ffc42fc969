"""The steps that move a whole large state in the server's order, without a list of its ids.

The server finds the next entries itself; each is as safe as if it had been named by its id.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from redisq_ops.core.model.entry import MovedRange as Moved
from redisq_ops.core.model.errors import Superseded
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import Call, Description

from .audit_log import Author
from .bulk import Bulk
from .entry_steps import EntryAction, StepSource, Stride
from .selection import ChangeScope, WholeState

STEP_S = {1: 0.0005, 2: 0.0002}
"""how long a step is to keep the server busy, by how many are on their way at a time: others wait
for all of them"""
LARGEST = {1: 120, 2: 64}
"""entries a step moves at most, by the same: to take one back, at 6 to 9 µs each, is about 1 ms at
most then, or half of that; and of a quick server others need not wait as long as they may"""
USUAL = 20
"""steps among which one is as quick as the server allows; some 5 ms of them"""


@dataclass(slots=True)
class _Step:
    """A step under way, sent again unchanged until its reply comes."""

    number: int
    size: int
    left: tuple[int, ...]
    last: bool
    """whether it may be all that is wanted"""
    call: Call[Moved] | None = None
    """the very call that was sent ahead"""


class WholeStateSteps:
    """A bulk change's steps over a whole state.

    With ``ahead`` the next step is sent while the server is at one, as if that one left no entry
    where it is; if it did, which is rare, the next step meets the same entries again. A step whose
    reply was lost is sent again, and carried out once.
    """

    def __init__(self, order: EntryAction, most: int | None = None, ahead: bool = False) -> None:
        self.order = order
        self.steps = 0
        self._room, self._ahead = most, ahead
        self._left: tuple[int, ...] = (0,)
        self._done = 0
        self._asked = 0
        self._over = False
        self._under_way: deque[_Step] = deque()
        """the present step, and the one that was sent behind it"""
        self.in_flight = 1
        """how many are on their way at a time: two where the client can do that"""

    async def step(self, op: str, size: int) -> Counter[str]:
        self._asked = size
        present = self._under_way[0] if self._under_way else self._next_step()
        if present is None:
            return Counter()
        try:
            front = await self._description(op, present)
        except Superseded:
            if len(self._under_way) < 2:
                raise
            # It was carried out, as the one behind it was, and only its reply is lost. That one is
            # sent alone: then no other can come before its reply.
            self._answered()
            front = await replace(self._called(op, self._under_way[0]), follows=None)
        # After a lost reply the total counts; after a lost total (it was evicted) the replies.
        moved = max(front.moved, front.done - self._done)
        stuck = sum(front.left) - sum(self._left)
        self._left, self._done = front.left, front.done
        if self._room is not None:
            self._room -= moved
        self._answered()
        self._over = front.over and not moved
        if not self._over:
            return Counter(moved=moved, changed=stuck)
        return await self.step(op, size) if self._under_way else Counter()

    async def record(self, op: str) -> None:
        """Record all steps so far in the history, by an empty step: it carries the total, also of
        steps whose replies were lost."""
        step = _Step(self.steps + len(self._under_way) + 1, 0, self._left, True)
        with suppress(Superseded):  # it was taken back meanwhile
            await self._alone(op, step)
        self._under_way.clear()
        self.steps = step.number

    def _answered(self) -> None:
        self._under_way.popleft()
        self.steps += 1

    def _next_step(self) -> _Step | None:
        """The step behind those that are under way; nothing, if these may be all."""
        size, last = self._asked, False
        if self._room is not None:
            room = self._room - sum(step.size for step in self._under_way)
            size, last = min(size, room), size >= room
        if size < 1:
            return None
        number = self.steps + len(self._under_way) + 1
        self._under_way.append(_Step(number, size, self._left, last))
        return self._under_way[-1]

    def _description(self, op: str, step: _Step) -> Description[Moved]:
        made: Description[Moved] = step.call or self._alone(op, step)
        if self._ahead and step.call is None and isinstance(made, Call):  # of one shard
            made = step.call = replace(made, follows=partial(self._following, op))
        return made

    def _alone(self, op: str, step: _Step) -> Description[Moved]:
        """Without one that follows it."""
        order = self.order
        made: Description[Moved] = order.queue.move_range.op(
            op, step.number, step.size, source=order.state, target=VERBS[order.verb][1],
            high_water_ms=order.high_water_ms, left=step.left, last=step.last,
        )  # fmt: skip
        return made

    def _called(self, op: str, step: _Step) -> Call[Moved]:
        call = self._description(op, step)
        assert isinstance(call, Call)
        return call

    def _following(self, op: str) -> Call[Moved] | None:
        self.in_flight = 2
        if self._over:
            return None
        step = self._under_way[1] if len(self._under_way) > 1 else self._next_step()
        return None if step is None else self._called(op, step)


class EvenStride(Stride):
    """For steps that cost about the same again and again: what counts is the second quickest of
    the latest, since what else the machine does can only make them longer. On a busy machine that
    is most of them, and small steps would cost it most.

    Of two that are under way at a time one's reply may be there as soon as it is asked for, so as
    many are measured together; and for a server far away each waits half the way.
    """

    trips = 3  # one that is held up would make any step seem short

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.in_flight = 1
        """how many are under way at a time, as `WholeStateSteps` has it"""
        self._latest: deque[tuple[int, float]] = deque(maxlen=2)
        self._each: deque[float] = deque(maxlen=USUAL)

    def set_in_flight(self, n: int) -> None:
        self.in_flight, self.size = n, min(self.size, LARGEST[n])

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        if done < (asked or self.size) // 2:  # it doesn't show how long such a step takes
            return
        self._latest.append((done, seconds))
        latest = list(self._latest)[-self.in_flight :]
        took = sum(seconds for _, seconds in latest) / len(latest)
        busy = min(took, self.in_flight * took - self.round_trip_s)
        if busy <= 0:
            return
        self._each.append(busy * len(latest) / sum(done for done, _ in latest))
        usual = sorted(self._each)[:2][-1]
        aim = max(10, min(LARGEST[self.in_flight], round(STEP_S[self.in_flight] / usual)))
        if abs(aim - self.size) > self.size // 8:
            self.size = aim


class WholeBulk(Bulk):
    """A bulk change of a `WholeState`.

    ``ahead``: the next step is on its way to the server before the reply of the present one. For
    runs of all steps in one description, on a blocking client: when it stops, one step more than
    it has replies of may be carried out (`reached` counts it). Never with a rate.
    """

    def __init__(
        self,
        selection: ChangeScope,
        verb: Verb,
        author: Author,
        *,
        ahead: bool = False,
        **more: Any,
    ) -> None:
        self._ahead = ahead and more.get("rate") is None
        super().__init__(selection, verb, author, **more)
        self._stride: EvenStride = EvenStride(self._stride.size)

    def _entry_steps(self) -> StepSource:
        assert isinstance(self.selection, WholeState)
        self._state_steps = WholeStateSteps(self.order, self.selection.filter.max, self._ahead)
        return self._state_steps

    async def step(self) -> bool:
        self._stride.set_in_flight(self._state_steps.in_flight)
        more = await super().step()
        if not more:  # what was in the state when it was counted, and left it before its turn
            self.outcome.skip("changed", max(0, self.outcome.matched - self.handled))
        return more

    async def reached(self) -> int:
        done = await super().reached()
        if done:  # else nothing was begun, or its queue was destroyed
            await self._state_steps.record(self.op)
        return done
