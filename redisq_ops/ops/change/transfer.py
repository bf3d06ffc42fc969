"""Moves between two queues of a kind on one deployment: `MoveSteps`, and of a plan `MovePlanSteps`.

A step takes entries into the source's trash under the operation's id, puts them in at the target,
and puts refused entries back as they were (`core.engine.transfer` has the proof).
The audit log of the source says how far it came. A run that continues an operation first ends the
steps that others began; abandoned operations are found by `core.engine.transfer_recovery`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from redisq_ops.core.engine import transfer, transfer_recovery
from redisq_ops.core.engine.optional_features import HasTimeline
from redisq_ops.core.engine.queue_transfer import Transfer
from redisq_ops.core.engine.transfer import OK
from redisq_ops.core.model.errors import NotFound, Superseded
from redisq_ops.core.model.settings import BATCH, DEFAULTS
from redisq_ops.core.redis import acl_rights
from redisq_ops.core.redis.operation import together
from redisq_ops.core.sharding.sharded_queue import ShardedQueue

from . import audit_log
from .apply import PlanSteps
from .entry_steps import EntryAction, ListedSteps, Pick
from .transfer_plan import Route

ASKED = 8
"""steps after which the target is asked again whether it accepts more, if it did so far"""


@dataclass
class MoveAction(EntryAction):
    """What is done to each entry of a move to another queue."""

    route: Route = field(kw_only=True)
    most: int = field(default=BATCH, init=False)
    ended: int | None = field(default=None, init=False)
    """the step up to which all have ended in both queues; None: not yet read from the audit log"""
    _looked: int = field(default=0, init=False)
    """steps since the target was asked"""
    _wary: bool = field(default=True, init=False)
    """whether it is asked before every step"""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.destination = {"into": self.route.target.name, "into_ms": self.route.into_ms}

    async def refuse_changing_shards(self) -> None:
        if isinstance(self.queue, ShardedQueue):
            await self.queue._refresh()
            transfer.refuse_changing(self.queue)

    async def obstacle(self) -> str:
        """Why the target accepts no entries now; empty: it accepts up to `most` in a step."""
        into = self.route.target
        self._looked = (self._looked + 1) % ASKED
        if self._looked != 1 and not self._wary:
            return ""
        counts, settings = await together(into.counts.op(), into.settings.op())
        if counts.closed is not None:
            return "closed"
        most = int(settings.get("max_waiting", DEFAULTS.max_waiting)) * len(into.shard_keys)
        self.most, self._wary = BATCH, bool(most)
        if most and self.state != "dead":
            timed = counts.delayed if isinstance(into, HasTimeline) else 0
            self.most = min(BATCH, max(0, most - counts.waiting - (timed or 0)))
        return "" if self.most else "full"

    async def move(
        self, op: str, seq: int, picks: Sequence[Pick], span: tuple[int, int] | None = None
    ) -> list[str]:
        """Take one step. For each entry: moved | changed | late, or why the target refused it."""
        await self._end_steps(op, seq - 1)
        await self.refuse_changing_shards()
        words: list[str] = await super().move(op, seq, picks, span)
        if len(words) != len(picks):  # somebody else's step of that number
            return words
        results = await self._transfer(op).complete(seq) if "moved" in words else {}
        self.ended = seq
        now = {id: "moved" if word == OK else word for id, word in results.items()}
        words = [
            now.get(pick.id, "changed") if word == "moved" else word
            for pick, word in zip(picks, words, strict=True)
        ]
        self._wary = self._wary or not {"full", "closed"}.isdisjoint(words)
        return words

    async def end(self, op: str, ended: bool) -> None:
        """Leave nothing half done after the last step of a run; ``ended``: also of the move."""
        if ended or self.ended is None:
            await self._end_recorded(op)
        await self._finish(op)
        if ended:
            await audit_log.note(self.route.target, op, ended=1)

    async def settle(self, op: str) -> None:
        """After an interruption: bring the step that was under way to its end."""
        await self._end_recorded(op)
        if self.ended:
            await self._finish(op)

    async def _end_recorded(self, op: str) -> None:
        """End the steps that the audit log has."""
        operation = await audit_log.read(self.queue, op)
        if operation is not None:
            await self._end_steps(op, operation.steps)

    async def _end_steps(self, op: str, upto: int) -> None:
        """End steps that another process began, or this one before it was killed."""
        if self.ended is None:
            operation = await audit_log.read(self.queue, op)
            self.ended = operation.landed if operation else 0
        while self.ended < upto:
            with suppress(Superseded, NotFound):  # an undo took the step back
                await self._transfer(op).complete(self.ended + 1, again=True)
            self.ended += 1

    async def _finish(self, op: str) -> None:
        """Remove the move from the lists of both queues: its records here may now be replaced."""
        target = self.route.target
        last = (await target.unfinished_transfers.op()).get(op)
        if await transfer_recovery.finish(self.queue, op, steps=self.ended or 0):
            await transfer_recovery.finish(target, op, at_ms=last)

    def _transfer(self, op: str) -> Transfer:
        route = self.route
        return Transfer(self.queue, route.target, route.into_ms, op, self.state, route.keep_ms)


class MoveSteps(ListedSteps):
    """Steps of a move to another queue. They work like those of any change of entries; the target's
    audit log has the move, too, and both queues list it as unfinished until its last step."""

    action: MoveAction

    async def prepare(self) -> None:
        into = self.action.route.target
        self.recovers = (self.queue, into)
        await super().prepare()
        if await audit_log.read(into, self.op) is None:
            await acl_rights.to_change(self.queue)  # before the first write, in either queue
            await audit_log.begin(
                into,
                self.op,
                self.verb,
                self.author,
                self.what,
                now_ms=await into.now.op(),
                target=self.action.state,
                matched=self.outcome.matched,
                origin=self.queue.name,
            )

    async def begun(self) -> None:
        await super().begun()
        for queue in (self.queue, self.action.route.target):
            await transfer_recovery.list_unfinished(queue, self.op)
        # Either a change of the shards finds the move listed, or the move finds the change here.
        await self.action.refuse_changing_shards()

    async def step(self, size: int) -> int | None:
        """Move some; None when all were dealt with, or the target takes no more."""
        if self.ahead and not self.halted and (why := await self.action.obstacle()):
            self.halted = why
            self._give_up()
        return None if self.halted else await super().step(min(size, self.action.most))

    def _give_up(self) -> None:
        """The move ends here, for every run."""
        self.outcome.skip(self.halted, self.ahead)

    async def end(self) -> dict[str, str | int] | None:
        fields = await super().end()
        await self.action.end(self.op, fields is not None)
        return fields

    async def reached(self) -> int:
        await self.action.settle(self.op)
        return await super().reached()


class MovePlanSteps(MoveSteps, PlanSteps):
    """Steps of a plan of a move; as `PlanSteps`."""

    def _give_up(self) -> None:
        """The rest can be applied when there is room again."""
