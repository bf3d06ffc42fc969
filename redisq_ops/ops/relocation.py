"""Moves between two queues of a kind on one deployment: `Move`, and its plan's `MoveApply`.

A step takes entries into the source's trash under the operation's id, puts them in at the target,
and puts back as they were those that are refused there (`core.relocation` says why that is safe).
The journal of the source says how far it came. Whoever goes on with an operation first ends the
steps that others began, so a kill leaves nothing that the next hand doesn't mend.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from redisq_ops.core import relocation
from redisq_ops.core.errors import BadInput, Superseded, Unreachable
from redisq_ops.core.io import both
from redisq_ops.core.relocation import OK, WITHDRAWN, Cargo, land, put_back, taken_out, verdict
from redisq_ops.core.reply import scored
from redisq_ops.core.settings import BATCH, DAY_MS, DEFAULTS
from redisq_ops.core.states import VERBS, Verb
from redisq_ops.core.values import State

from . import journal
from .apply import Apply
from .bulk import Bulk, Chosen, Order, Pick, Stride
from .way import Way, movable

NOTED = 8
"""steps for each time that the journal is told that all of them have ended, and the target is asked
whether it takes more where nothing says that it might not"""
_LATEST = 20
"""operations of the journal among which unfinished ones are looked for"""


@dataclass(slots=True)
class _Going:
    """What changes about a move while it goes on."""

    reached: int | None = None
    """the step up to which all have ended in both queues; None: the journal knows"""
    longest: float = 0.0
    """seconds of the longest call of the latest step"""
    clock: Callable[[], float] = time.perf_counter

    @contextmanager
    def call(self) -> Iterator[None]:
        began = self.clock()
        yield
        self.longest = max(self.longest, self.clock() - began)


class _Pace(Stride):
    """A step is several calls, and each is to be short by itself."""

    def __init__(self, size: int, going: _Going) -> None:
        super().__init__(size)
        self._going = going

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        super().learn(done, self._going.longest or seconds, asked)
        self._going.longest = 0.0


@dataclass(frozen=True)
class Onward(Order):
    """What is done to each entry of a move."""

    way: Way
    going: _Going = field(default_factory=_Going)

    async def move(self, op: str, seq: int, picks: list[Pick], span: tuple[int, int]) -> list[str]:
        """One step of it: moved | changed | late, or why the target refused it."""
        await self.settle(op, seq - 1)
        with self.going.call():
            said: list[str] = await super().move(op, seq, picks, span)
        if len(said) != len(picks):  # somebody else's step of that number
            return said
        landed = await self._land(op, seq, again=False) if "moved" in said else {}
        await relocation.free(self.queue, op, seq, self.state)
        self.going.reached = seq
        if seq % NOTED == 0:
            await self.noted(op)
        now = {id: "moved" if word == OK else word for id, word in landed.items()}
        return [
            now.get(pick.id, "changed") if word == "moved" else word
            for pick, word in zip(picks, said, strict=True)
        ]

    async def settle(self, op: str, upto: int) -> None:
        """End steps that others began, or this one before it was killed."""
        if self.going.reached is None:
            operation = await journal.read(self.queue, op)
            self.going.reached = operation.landed if operation else 0
        while self.going.reached < upto:
            step = self.going.reached + 1
            with suppress(Superseded):  # an undo has them
                await self._land(op, step, again=True)
            await relocation.free(self.queue, op, step, self.state)
            self.going.reached = step
            await self.noted(op)

    async def noted(self, op: str) -> None:
        """Have the journal know how far all is well, for whoever goes on."""
        await journal.note(self.queue, op, landed=self.going.reached or 0)

    async def _land(self, op: str, step: int, *, again: bool) -> dict[str, str]:
        """Put in at the target what a step took out; what was said of each."""
        way = self.way
        rows = await taken_out(self.queue, op, step)
        cargo = [one for one in rows if one.row]
        # Where some aren't there any more, somebody was here before: that was said of them, too.
        again = again or not rows or len(cargo) < len(rows)
        said = await verdict(way.target, op, step) if again else {}
        # The source may have been told to keep its trash longer since the move began.
        keep_ms = max([way.keep_ms, *(one.kept_ms + DAY_MS for one in rows)])
        back = {one.id: "back" for one in rows if one.back and one.id not in said}
        try:
            if fresh := [one for one in cargo if one.id not in said]:
                with self.going.call():
                    said |= await land(way.target, op, step, fresh, keep_ms)
        except Unreachable:
            raise
        except Exception:  # as a full server's: they are to wait where they were, not in the trash
            said = await verdict(way.target, op, step, close=True, keep_ms=keep_ms)
            await self._back(op, step, cargo, said)
            await relocation.free(self.queue, op, step, self.state)
            raise
        await self._back(op, step, cargo, said)
        if {"cancelled", WITHDRAWN} & set(said.values()):
            raise Superseded(f"{op} was taken back meanwhile")
        return said | back

    async def _back(self, op: str, step: int, cargo: Sequence[Cargo], said: dict[str, str]) -> None:
        refused = [one for one in cargo if said.get(one.id) not in (OK, WITHDRAWN)]
        if refused:
            with suppress(Superseded):  # somebody else is behind this step, and did it
                await put_back(self.queue, f"{op}.back", step, op, step, refused, undone=False)


class Relocating(Bulk):
    """A bulk change between two queues: the part that `Move` and `MoveApply` share."""

    def __init__(self, *given: Any, way: Way, **more: Any) -> None:
        self.way = way
        self._room = BATCH
        self._looked = 0
        """steps since the target was asked"""
        self._wary = True
        """whether it is asked before every step"""
        super().__init__(*given, **more)
        self.onward.going.clock = self._clock
        self._stride = _Pace(self._stride.size, self.onward.going)

    def _allowed(self, selection: Chosen, verb: Verb) -> None:
        movable(selection.queue)
        if selection.state not in VERBS["move"][0]:
            raise BadInput(f"move is for {' or '.join(VERBS['move'][0])} entries")

    def _ordered(self, order: Order) -> Order:
        return Onward(
            order.queue, order.verb, order.state, order.high_water_ms, order.consumer,
            order.argument, self.way,
        )  # fmt: skip

    @property
    def onward(self) -> Onward:
        assert isinstance(self.order, Onward)
        return self.order

    @property
    def destination(self) -> dict[str, Any]:
        return {"into": self.way.target.name, "into_ms": self.way.into_ms}

    async def _begin(self) -> None:
        into, source = self.way.target, self.order.queue
        await self._mend()
        if await journal.read(into, self.op) is None:
            await journal.begin(
                into, self.op, self.verb, self.author, str(self.selection.filter),
                now_ms=await into.now.op(), target=self.order.state, matched=self.outcome.matched,
                origin=source.name,
            )  # fmt: skip
        await super()._begin()

    async def _mend(self) -> None:
        """End what earlier moves on this way, that were killed, have left half done."""
        queue = self.order.queue
        listed = await scored(queue.keys["ops"], "0", str(_LATEST - 1), "REV")
        for op, _ in listed:
            found = await journal.read(queue, op)
            if (
                found is not None
                and found.id != self.op
                and found.into_ms == self.way.into_ms
                and found.into == self.way.target.name
                and found.landed < found.steps
                and not found.taken_back
            ):
                order = self.onward
                state = cast("State", found.source)
                other = Onward(
                    order.queue, order.verb, state, order.high_water_ms, order.consumer,
                    order.argument, self.way,
                )  # fmt: skip
                await other.settle(found.id, found.steps)

    def _size(self) -> int:
        return min(super()._size(), BATCH, self._room)

    @property
    def _ahead(self) -> int:
        """How many weren't looked at yet."""
        return self.outcome.matched - self.handled

    async def step(self) -> bool:
        """Move some; False when all were dealt with, or the target takes no more."""
        await self._open()
        if self._ahead and not self.halted and (why := await self._shut()):
            self.halted = why
            await self._give_up()
        goes_on = not self.halted and await super().step()
        if (
            not goes_on and self.onward.going.reached
        ):  # what it left here may be replaced from now on
            await self.onward.noted(self.op)
        return goes_on

    async def _shut(self) -> str:
        """Why the target takes nothing now, if it doesn't; else how much goes in next."""
        into = self.way.target
        self._looked = (self._looked + 1) % NOTED
        if self._looked != 1 and not self._wary:
            return ""
        counts, settings = await both(into.counts.op(), into.settings.op())
        if counts.closed is not None:
            return "closed"
        most = int(settings.get("max_waiting", DEFAULTS.max_waiting)) * len(into.all_keys)
        self._room, self._wary = BATCH, bool(most)
        if most and self.order.state != "dead":
            timed = counts.delayed if "timeline" in into.capabilities else 0
            self._room = min(BATCH, max(0, most - counts.waiting - (timed or 0)))
        return "" if self._room else "full"

    def _count(self, said: Counter[str]) -> None:
        super()._count(said)
        self._wary = self._wary or bool(said.keys() & {"full", "closed"})

    async def _give_up(self) -> None:
        """It ends here: nobody goes on with it."""
        self.outcome.skip(self.halted, self._ahead)
        await self._end()

    async def _end(self) -> None:
        await self._settled()
        await self.onward.noted(self.op)
        await super()._end()
        await journal.note(self.way.target, self.op, ended=1)

    async def _settled(self) -> None:
        operation = await journal.read(self.order.queue, self.op)
        if operation is not None:
            await self.onward.settle(self.op, operation.steps)

    async def reached(self) -> int:
        """After an interruption: the step that was under way is brought to its end."""
        await self._settled()
        return await super().reached()


class Move(Relocating):
    """Entries of a selection go to another queue. Drive `step` until it says False."""


class MoveApply(Relocating, Apply):
    """A plan of a move being carried out; as `Apply`."""

    @property
    def _ahead(self) -> int:
        most = self.left if self._most is None else self._most - self.handled
        return 0 if self._over else min(self.left, most)

    async def _give_up(self) -> None:
        """The rest can be applied when there is room again."""
