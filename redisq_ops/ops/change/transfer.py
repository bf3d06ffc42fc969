"""Moves between two queues of a kind on one deployment: `Move`, and its plan's `MoveApply`.

A step takes entries into the source's trash under the operation's id, puts them in at the target,
and puts back as they were those that are refused there (`core.engine.transfer` has the proof).
The audit log of the source says how far it came. A run that continues an operation first ends the
steps that others began; abandoned operations are found by `core.engine.transfer_recovery`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.engine import transfer, transfer_recovery
from redisq_ops.core.engine.optional_features import HasTimeline
from redisq_ops.core.engine.queue_transfer import Transfer
from redisq_ops.core.engine.transfer import OK
from redisq_ops.core.model.errors import BadInput, NotFound, Superseded
from redisq_ops.core.model.settings import BATCH, DEFAULTS
from redisq_ops.core.model.states import VERBS, Verb
from redisq_ops.core.redis.operation import both
from redisq_ops.core.sharding.sharded_queue import ShardedQueue

from . import audit_log
from .apply import Apply
from .bulk import Bulk
from .entry_steps import EntryAction, Pick, Stride
from .selection import ChangeScope
from .transfer_plan import CALLS, Route, movable

ASKED = 8
"""steps for each time that the target is asked whether it takes more, where nothing says that it
might not"""


class _Pace(Stride):
    """A step is several calls, and each is to be short by itself."""

    def learn(self, done: int, seconds: float, asked: int | None = None) -> None:
        super().learn(done, seconds / CALLS, asked)


@dataclass(slots=True)
class _Ended:
    """The step up to which all have ended in both queues; None: the audit log has it."""

    step: int | None = None


@dataclass(frozen=True)
class MoveAction(EntryAction):
    """What is done to each entry of a move."""

    route: Route
    ended: _Ended = field(default_factory=_Ended)

    async def move(self, op: str, seq: int, picks: list[Pick], span: tuple[int, int]) -> list[str]:
        """One step of it: moved | changed | late, or why the target refused it."""
        await self.settle(op, seq - 1)
        if isinstance(self.queue, ShardedQueue):
            await self.queue._refresh()
            transfer.refuse_changing(self.queue)
        words: list[str] = await super().move(op, seq, picks, span)
        if len(words) != len(picks):  # somebody else's step of that number
            return words
        results = await self._transfer(op).complete(seq) if "moved" in words else {}
        self.ended.step = seq
        now = {id: "moved" if word == OK else word for id, word in results.items()}
        return [
            now.get(pick.id, "changed") if word == "moved" else word
            for pick, word in zip(picks, words, strict=True)
        ]

    async def settle(self, op: str, upto: int) -> None:
        """End steps that others began, or this one before it was killed."""
        if self.ended.step is None:
            operation = await audit_log.read(self.queue, op)
            self.ended.step = operation.landed if operation else 0
        while self.ended.step < upto:
            with suppress(Superseded, NotFound):  # an undo has them; they are back
                await self._transfer(op).complete(self.ended.step + 1, again=True)
            self.ended.step += 1

    async def finish(self, op: str) -> None:
        """Take the move off both queues' lists. (Each step ends those before it.)"""
        target = self.route.target
        last = (await target.unfinished_transfers.op()).get(op)
        if await transfer_recovery.finish(self.queue, op, steps=self.ended.step or 0):
            await transfer_recovery.finish(target, op, at_ms=last)

    def _transfer(self, op: str) -> Transfer:
        route = self.route
        return Transfer(self.queue, route.target, route.into_ms, op, self.state, route.keep_ms)


class BulkMove(Bulk):
    """A bulk change between two queues: the part that `Move` and `MoveApply` share."""

    def __init__(self, *given: Any, route: Route, **more: Any) -> None:
        self.route = route
        self._room = BATCH
        self._looked = 0
        """steps since the target was asked"""
        self._wary = True
        """whether it is asked before every step"""
        super().__init__(*given, **more)
        self._stride = _Pace(self._stride.size)

    def _allowed(self, selection: ChangeScope, verb: Verb) -> None:
        movable(selection.queue)
        if selection.state not in VERBS["move"][0]:
            raise BadInput(f"move is for {' or '.join(VERBS['move'][0])} entries")

    def _ordered(self, order: EntryAction) -> EntryAction:
        return MoveAction(
            order.queue, order.verb, order.state, order.high_water_ms, order.consumer,
            order.argument, self.route,
        )  # fmt: skip

    @property
    def action(self) -> MoveAction:
        assert isinstance(self.order, MoveAction)
        return self.order

    @property
    def destination(self) -> dict[str, Any]:
        return {"into": self.route.target.name, "into_ms": self.route.into_ms}

    async def _begin(self) -> None:
        into, source = self.route.target, self.order.queue
        for queue in (source, into):
            self.recovered += await transfer_recovery.recover(queue, but=[self.op])
        if await audit_log.read(into, self.op) is None:
            await audit_log.begin(
                into, self.op, self.verb, self.author, str(self.selection.filter),
                now_ms=await into.now.op(), target=self.order.state, matched=self.outcome.matched,
                origin=source.name,
            )  # fmt: skip
        await super()._begin()
        for queue in (source, into):
            await transfer_recovery.list_unfinished(queue, self.op)
        if isinstance(
            source, ShardedQueue
        ):  # who changes the shards finds it listed, or we that change
            await source._refresh()
            transfer.refuse_changing(source)

    def _step_size(self) -> int:
        return min(super()._step_size(), BATCH, self._room)

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
        if not goes_on:  # what it left here may be replaced from now on
            if self.action.ended.step is None:
                await self._settled()
            await self.action.finish(self.op)
        return goes_on

    async def _shut(self) -> str:
        """Why the target takes nothing now, if it doesn't; else how much goes in next."""
        into = self.route.target
        self._looked = (self._looked + 1) % ASKED
        if self._looked != 1 and not self._wary:
            return ""
        counts, settings = await both(into.counts.op(), into.settings.op())
        if counts.closed is not None:
            return "closed"
        most = int(settings.get("max_waiting", DEFAULTS.max_waiting)) * len(into.shard_keys)
        self._room, self._wary = BATCH, bool(most)
        if most and self.order.state != "dead":
            timed = counts.delayed if isinstance(into, HasTimeline) else 0
            self._room = min(BATCH, max(0, most - counts.waiting - (timed or 0)))
        return "" if self._room else "full"

    def _count(self, words: Counter[str]) -> None:
        super()._count(words)
        self._wary = self._wary or bool(words.keys() & {"full", "closed"})

    async def _give_up(self) -> None:
        """It ends here, for every run."""
        self.outcome.skip(self.halted, self._ahead)
        await self._end()

    async def _end(self) -> None:
        await self._settled()
        await self.action.finish(self.op)
        await super()._end()
        await audit_log.note(self.route.target, self.op, ended=1)

    async def _settled(self) -> None:
        operation = await audit_log.read(self.order.queue, self.op)
        if operation is not None:
            await self.action.settle(self.op, operation.steps)

    async def reached(self) -> int:
        """After an interruption: the step that was under way is brought to its end."""
        await self._settled()
        if self.action.ended.step:
            await self.action.finish(self.op)
        return await super().reached()


class Move(BulkMove):
    """Entries of a selection go to another queue. Drive `step` until it says False."""


class MoveApply(BulkMove, Apply):
    """A plan of a move being carried out; as `Apply`."""

    @property
    def _ahead(self) -> int:
        most = self.left if self._most is None else self._most - self.handled
        return 0 if self._over else min(self.left, most)

    async def _give_up(self) -> None:
        """The rest can be applied when there is room again."""
