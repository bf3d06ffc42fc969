"""Changes of what a consumer holds: its entries go to another one or back to waiting, or are
acknowledged for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from redisq_ops.core.engine.optional_features import HasConsumerGroups, HasRequests
from redisq_ops.core.model.consumer_load import NOBODY, PendingDelivery, Reassigned
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.model.quoting import bytes_of
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import together

from ..inspect.consumers import independent_groups
from . import audit_log
from .entry_steps import EntryAction, Pick
from .held_entries import (
    PAGE_OF_GROUPS,
    HeldEntries,
    add_ids,
    check_settleable,
    checked_receiver,
    verb_of,
)
from .steps import ChangeSteps

STEP = 50
"""entries reassigned by one call, about half a millisecond of server time for a stream"""
RECHECKS = 20
"""times that new entries of a consumer to be removed are moved, before the removal gives up"""
UNDOABLE = 5_000
"""entries of a stream whose old consumer is recorded for an undo"""


class ConsumerSteps(ChangeSteps):
    """Give a consumer's entries to another or back to waiting, or acknowledge them; the consumer
    can be removed too.

    The server checks every entry again in the step that moves it. A consumer is removed only in a
    step in which it holds nothing; what it took in the meantime is moved too, up to `RECHECKS`
    times.
    """

    def __init__(
        self, held: HeldEntries, to: str | None, *, remove: bool = False, acknowledge: bool = False
    ) -> None:
        """``to``: the receiver; None: they are acknowledged, or wait again."""
        if to is not None:
            checked_receiver(held, to)
        self._independent = independent_groups(held.queue)
        if remove and to is None and self._independent:
            raise Refused(
                f"entries of a {held.queue.kind} queue cannot go back to waiting: "
                "name the consumer that receives them"
            )
        moves = {"source": "pending", "target": "pending" if to else "waiting"}
        super().__init__(
            held.queue,
            verb_of(to, remove=remove, acknowledge=acknowledge),
            len(held.ids),
            held.what if acknowledge else f"{held.what} to {to or 'waiting'}",
            **({} if self._independent else moves),
        )
        self.held = held
        self.to = to
        self.remove = remove
        self.removed = 0
        """groups from which it was removed"""
        self._left = list(reversed(held.ids))
        self._batch: list[str] = []
        self._number = 1
        self._rechecks = 0
        self._inverses: list[str] = []
        """commands that give the moved entries back"""
        self._inverse_recorded = False
        self._counted = False
        """whether the steps add their own counts to the audit log; on a cluster they don't"""

    async def prepare(self) -> None:
        await super().prepare()
        if self.to is None:
            await check_settleable(self.queue, acknowledge=self.verb == "acknowledge")

    async def step(self, size: int) -> int | None:
        if not self._batch and self._left:
            self._batch = [self._left.pop() for _ in range(min(STEP, len(self._left)))]
        if self._batch:
            return await self._move()
        return 0 if self.remove and await self._remove() else None

    async def end(self) -> dict[str, str | int] | None:
        if self._independent:
            self._counted = False  # record the total, with entries that `to` held before
            await self._record()
        # Bulk moves count themselves on each shard; a total written here would be added to that.
        return {"matched": self.outcome.matched}

    async def _move(self) -> int:
        held, batch = self.held, self._batch
        if isinstance(held.queue, HasConsumerGroups):
            # Recorded before the step: if it is never sent, its undo changes nothing.
            await self._record(batch)
            whose, least = (held.group, held.consumer), held.min_idle_ms
            if self.to is None:
                done = await held.queue.settle_held.op(
                    *whose,
                    batch,
                    acknowledge=self.verb == "acknowledge",
                    min_idle_ms=least,
                    op=self.op,
                    step=self._number,
                )
            else:
                # A consumer that is busy holds nothing only in the step that takes the last ones.
                last = self.remove and not self._left
                done = await held.queue.reassign.op(
                    *whose, self.to, batch, min_idle_ms=least, remove=last, op=self.op
                )
                self._note_removal(done)
            results, self._counted = list(done.words), done.counted
            self._inverses += self._inverse(
                [id for id, word in zip(batch, results, strict=True) if word == "moved"]
            )
        else:
            verb: Verb = "claim" if self.to else "requeue"
            action = EntryAction(
                self.queue, verb, "pending", held.high_water_ms, self.to or "operator"
            )
            results = await action.move(self.op, self._number, [Pick(id) for id in batch])
        self._number += 1
        self._batch = []
        return self.outcome.count(Counter(results))

    def _inverse(self, ids: Sequence[str]) -> list[str]:
        """The command that gives these entries back; none if there is none."""
        if not ids or self.held.consumer == NOBODY:
            return []
        held, again = self.held, self.verb == "acknowledge"
        names = (held.group, *(() if again else (self.to or NOBODY,)), held.consumer)
        words = [quote(bytes_of(name), safe="") for name in names]
        if again:
            ids = [self._as_held(held.rows[id]) for id in ids]
        return [" ".join(["pend" if again else "reassign", *words, *ids])]

    def _as_held(self, row: PendingDelivery) -> str:
        """An entry as its consumer held it: its id, since when (ms), and number of deliveries."""
        return f"{row.id}/{self.held.high_water_ms - (row.age_ms or 0)}/{row.deliveries or 1}"

    async def _record(self, next_ids: Sequence[str] = ()) -> None:
        """Write to the audit log the inverse of the moves so far and of the next step, and the
        number of moved entries if the steps don't count themselves."""
        inverse = "\n".join([*self._inverses, *self._inverse(next_ids)]) if self.undoable else ""
        fields: dict[str, str | int] = {"matched": self.outcome.matched}
        if inverse or self._inverse_recorded:
            fields["inverse"] = inverse
        if self.outcome.done and not self._counted:
            fields["done"] = self.outcome.done
        await audit_log.note(self.queue, self.op, **fields)
        self._inverse_recorded = bool(inverse)

    async def _remove(self) -> bool:
        """Remove the consumer where it holds nothing; returns whether there is more to do."""
        held, queue = self.held, self.held.queue
        if isinstance(queue, HasConsumerGroups):
            assert self.to is not None
            if not held.groups:
                return False
            whose = (held.group, held.consumer)
            done = await queue.reassign.op(*whose, self.to, [], remove=True, op=self.op)
            if self._note_removal(done):
                return False
        else:
            groups, held.groups = held.groups[:PAGE_OF_GROUPS], held.groups[PAGE_OF_GROUPS:]
            words: list[str] = []
            if isinstance(queue, HasRequests):  # others have no groups
                words = await together(queue.remove_consumer.op(g, held.consumer) for g in groups)
            self.removed += words.count("gone")
            busy = [group for group, word in zip(groups, words, strict=True) if word == "holds"]
            if not busy:
                return bool(held.groups)
            held.groups = [*busy, *held.groups]
        return await self._find_new_entries()

    def _note_removal(self, done: Reassigned) -> bool:
        if done.removed:
            self.removed, self.held.groups = 1, []
        return done.removed

    async def _find_new_entries(self) -> bool:
        """Find what the consumer took in the meantime, which has to be moved too."""
        held = self.held
        self._rechecks += 1
        if self._rechecks > RECHECKS:
            self.outcome.skip("still taking", len(held.groups))
            self.outcome.matched += len(held.groups)
            return False
        held.high_water_ms, held.ids = await held.queue.now.op(), []
        await add_ids(held)
        self._left = held.ids[::-1]
        self.outcome.matched += len(held.ids)
        return True

    @property
    def undoable(self) -> bool:
        """Whether an undo is possible; it also restores a removed consumer."""
        if self.held.consumer == NOBODY:
            return False
        return not self._independent or self.outcome.matched <= UNDOABLE

    async def reached(self) -> int:
        """How many were moved according to the audit log, with steps whose reply was lost."""
        done = await super().reached()
        if self._independent and done < self.outcome.done:  # on a cluster the last step is missing
            done = self.outcome.done
            await audit_log.note(self.queue, self.op, done=done)
        return done
