"""The steps that move a whole large state in the server's order, without a list of its ids.

The server finds the next entries itself; each is as safe as if it had been named by its id.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from redisq_ops.core.model.entry import MovedRange as Moved
from redisq_ops.core.model.errors import Superseded
from redisq_ops.core.model.states import VERBS
from redisq_ops.core.redis.operation import Call, Description

from .entry_steps import EntryAction, EntrySteps
from .scope import WholeState
from .step_size import EvenStride


@dataclass(slots=True)
class _Step:
    """A step under way, sent again unchanged until its reply comes."""

    number: int
    size: int
    left: tuple[int, ...]
    last: bool
    """whether it may move all entries that are still wanted"""
    call: Call[Moved] | None = None
    """the very call that was sent ahead"""


class WholeStateSteps(EntrySteps):
    """Steps over a whole state.

    With ``ahead`` the next step is sent while the server works on the present one, and assumes that
    the present one leaves no entry behind; if it does (rare), the next step meets the same entries
    again. A step whose reply was lost is sent again, and carried out once. ``ahead`` is for runs of
    all steps in one description, on a blocking client, without a rate. When such a run stops, one
    step without a reply may have been carried out (`reached` counts it).
    """

    stride: EvenStride

    def __init__(self, action: EntryAction, scope: WholeState, *, ahead: bool = False) -> None:
        super().__init__(action, scope)
        self.stride = EvenStride()
        self.in_flight = 1
        """how many are on their way at a time: two where the client can do that"""
        self._room, self._ahead = scope.filter.max, ahead
        self._left: tuple[int, ...] = (0,)
        self._done = 0
        self._asked = 0
        self._over = False
        self._under_way: deque[_Step] = deque()
        """the present step, and the next one, which was sent with it"""

    async def step(self, size: int) -> int | None:
        self.stride.set_in_flight(self.in_flight)
        self._asked = min(size, self.stride.size)
        present = self._under_way[0] if self._under_way else self._next_step()
        if present is None:
            return None
        try:
            front = await self._description(present)
        except Superseded:
            if len(self._under_way) < 2:
                raise
            # This step and the next one were carried out; only the reply of this one is lost. The
            # next one is sent again alone, so that no other step can come before its reply.
            self._answered()
            front = await self._called(self._under_way[0])._replace(follows=None)
        # ``done``, the total, includes steps without a reply; ``moved`` is for a total that was
        # evicted.
        moved = max(front.moved, front.done - self._done)
        stuck = sum(front.left) - sum(self._left)
        self._left, self._done = front.left, front.done
        if self._room is not None:
            self._room -= moved
        self._answered()
        self._over = front.over and not moved
        if not self._over:
            return self.outcome.count({"moved": moved, "changed": stuck})
        return await self.step(size) if self._under_way else None

    async def end(self) -> dict[str, str | int] | None:
        # Entries that were counted, and left the state before their turn.
        self.outcome.skip("changed", max(0, self.outcome.matched - self.outcome.handled))
        return await super().end()

    async def reached(self) -> int:
        done = await super().reached()
        if done:  # else nothing was begun, or its queue was destroyed
            await self.record()
        return done

    async def record(self) -> None:
        """Record all steps so far in the history, by an empty step: it carries the total, also of
        steps whose replies were lost."""
        step = _Step(self.number + len(self._under_way) + 1, 0, self._left, True)
        with suppress(Superseded):  # it was taken back meanwhile
            await self._alone(step)
        self._under_way.clear()
        self.number = step.number

    def _answered(self) -> None:
        self._under_way.popleft()
        self.number += 1

    def _next_step(self) -> _Step | None:
        """The step after those under way; None if these may move all that is wanted."""
        size, last = self._asked, False
        if self._room is not None:
            shards = len(self.action.queue.shard_keys)
            room = self._room - sum(step.size for step in self._under_way)
            room -= room % shards  # they move equal shares, and together no more than is wanted
            size, last = min(size, room), size + shards > room
        if size < 1:
            return None
        number = self.number + len(self._under_way) + 1
        self._under_way.append(_Step(number, size, self._left, last))
        return self._under_way[-1]

    def _description(self, step: _Step) -> Description[Moved]:
        made: Description[Moved] = step.call or self._alone(step)
        if self._ahead and step.call is None and isinstance(made, Call):  # of one shard
            made = step.call = made._replace(follows=self._following)
        return made

    def _alone(self, step: _Step) -> Description[Moved]:
        """The call alone, without the one that follows it."""
        action = self.action
        made: Description[Moved] = action.queue.move_range.op(
            self.op,
            step.number,
            step.size,
            source=action.state,
            target=VERBS[action.verb][1],
            high_water_ms=action.high_water_ms,
            left=step.left,
            last=step.last,
        )
        return made

    def _called(self, step: _Step) -> Call[Moved]:
        call = self._description(step)
        assert isinstance(call, Call)
        return call

    def _following(self) -> Call[Moved] | None:
        self.in_flight = 2
        if self._over:
            return None
        step = self._under_way[1] if len(self._under_way) > 1 else self._next_step()
        return None if step is None else self._called(step)
