"""The steps that move a whole large state in the server's order, without a list of its ids.

The server finds the next entries itself; each is as safe as if it had been named by its id.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from redisq_ops.core.model.entry import MovedRange as Moved
from redisq_ops.core.model.errors import Superseded
from redisq_ops.core.model.states import VERBS

from .entry_steps import EntryAction, EntrySteps
from .scope import WholeState
from .step_size import Stride


@dataclass(frozen=True, slots=True)
class _Step:
    """A step as it is sent."""

    number: int
    size: int
    left: tuple[int, ...]
    last: bool
    """whether it may move all entries that are still wanted"""


class WholeStateSteps(EntrySteps):
    """Steps over a whole state. One whose reply was lost is sent again, and carried out once."""

    def __init__(self, action: EntryAction, scope: WholeState) -> None:
        super().__init__(action, scope)
        self.stride = Stride.of_whole_state()
        self._room = scope.filter.max
        self._left: tuple[int, ...] = (0,)
        self._done = 0
        self._sent: _Step | None = None
        """the step under way, sent again unchanged until its reply comes"""

    async def step(self, size: int) -> int | None:
        step = self._sent = self._sent or self._next_step(size)
        if step is None:
            return None
        front = await self._move(step)
        # ``done``, the total, includes steps without a reply; ``moved`` is for a total that was
        # evicted.
        moved = max(front.moved, front.done - self._done)
        stuck = sum(front.left) - sum(self._left)
        self._left, self._done = front.left, front.done
        if self._room is not None:
            self._room -= moved
        self._sent, self.number = None, step.number
        return (
            self.outcome.count({"moved": moved, "changed": stuck})
            if moved or not front.over
            else None
        )

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
        a step whose reply was lost."""
        latest = self.number if self._sent is None else self._sent.number
        with suppress(Superseded):  # it was taken back meanwhile
            await self._move(_Step(latest + 1, 0, self._left, True))
        self._sent, self.number = None, latest + 1

    def _next_step(self, size: int) -> _Step | None:
        """The next step; None if nothing more is wanted."""
        last = False
        if self._room is not None:
            shards = len(self.action.queue.shard_keys)
            # They move equal shares, and together no more than is wanted.
            room = self._room - self._room % shards
            size, last = min(size, room), size + shards > room
        return _Step(self.number + 1, size, self._left, last) if size > 0 else None

    async def _move(self, step: _Step) -> Moved:
        action = self.action
        moved: Moved = await action.queue.move_range.op(
            self.op,
            step.number,
            step.size,
            source=action.state,
            target=VERBS[action.verb][1],
            high_water_ms=action.high_water_ms,
            left=step.left,
            last=step.last,
        )
        return moved
