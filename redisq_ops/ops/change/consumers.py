"""Changes of what a consumer holds: its entries go to another one or back to waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from redisq_ops.core.engine.optional_features import HasConsumerGroups, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import BadInput, NotFound, Refused
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.model.quoting import bytes_of
from redisq_ops.core.model.states import Verb
from redisq_ops.core.redis.operation import together

from ..filter.fields import quoted
from ..filter.parser import parse
from ..filter.scan import Filter
from ..inspect.consumers import SILENT_MS, consumers_of, independent_groups
from ..redaction import NO_REDACTION, Redaction
from ..terminal import age, count
from . import audit_log
from .entry_steps import EntryAction, Pick
from .preview import Preview, claimed_by, entries, meaning, typed_number
from .steps import ChangeSteps

STEP = 50
"""entries reassigned by one call, about half a millisecond of server time for a stream"""
PAGE_OF_GROUPS = 100
PAGE = 500
RECHECKS = 20
"""times that new entries of a consumer to be removed are moved, before the removal gives up"""
UNDOABLE = 5_000
"""entries of a stream whose old consumer is recorded for an undo"""


@dataclass(slots=True)
class HeldEntries:
    """The ids that a consumer held when the change was planned, and the groups it is in."""

    queue: Queue[Any]
    consumer: str
    group: str
    """'': the whole queue"""
    min_idle_ms: int
    high_water_ms: int
    ids: list[str] = field(default_factory=list)
    too_young: int = 0
    """entries left out because they were held for less than ``min_idle_ms``"""
    groups: list[str] = field(default_factory=list)
    """the groups from which it can be removed"""
    idle_ms: int | None = None
    """since its last activity"""

    @property
    def what(self) -> str:
        return f"consumer {self.consumer}" + (f" of group {self.group}" if self.group else "")


async def held_entries(
    queue: Queue[Any],
    consumer: str,
    group: str | None = None,
    *,
    min_idle_ms: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> HeldEntries:
    """Find what a consumer holds, by pages; changes nothing.

    ``progress`` is called with (found, examined) after each page; an exception from it ends the
    search. `NotFound` if there is no consumer of that name.
    """
    checked = consumer if independent_groups(queue) else checked_consumer(consumer)
    in_group = await _resolve_group(queue, consumer, group)
    held = HeldEntries(queue, checked, in_group, min_idle_ms, await queue.now.op())
    after: str | None = None
    examined = 0
    while True:
        page = await queue.pending_deliveries.op(in_group, PAGE, consumer, after)
        old = [row.id for row in page.rows if (row.age_ms or 0) >= min_idle_ms]
        held.ids += old
        held.too_young += len(page.rows) - len(old)
        examined += PAGE
        if progress is not None:
            progress(len(held.ids), min(examined, page.total))
        after = page.after
        if after is None:
            break
    held.groups = await _groups_with(queue, consumer, in_group)
    members = await consumers_of(queue, in_group)
    held.idle_ms = next((member.idle_ms for member in members if member.name == consumer), None)
    if not (held.ids or held.too_young or held.groups):
        raise NotFound(
            f"no {held.what} in queue {queue.name}: it holds no entry and no group lists it"
        )
    return held


def held_filter(held: HeldEntries, redaction: Redaction = NO_REDACTION) -> Filter:
    """The filter for a consumer's entries, for queues where a claim is an ordinary bulk change."""
    return Filter(
        requests=(held.group,) if held.group else (), older_than_ms=held.min_idle_ms,
        where=parse(f"consumer={quoted(held.consumer)}"), redaction=redaction,
    )  # fmt: skip


def checked_receiver(held: HeldEntries, to: str) -> str:
    """``to``, if it can receive the entries; otherwise `BadInput`."""
    checked_consumer(to)
    if to == held.consumer:
        raise BadInput(f"consumer {to} holds these entries already: name another one with --to")
    return to


def check_requeueable(held: HeldEntries) -> None:
    """`Refused` if the entries cannot go back to waiting."""
    if independent_groups(held.queue):
        raise Refused(
            f"entries of a {held.queue.kind} queue cannot go back to waiting: name the consumer "
            "that receives them"
        )


def undoable(held: HeldEntries) -> bool:
    """Whether giving these entries to another consumer can be undone."""
    return not independent_groups(held.queue) or len(held.ids) <= UNDOABLE


async def _resolve_group(queue: Queue[Any], consumer: str, group: str | None) -> str:
    """The named group, or the only one with such a consumer; '' where the queue is one group."""
    if group is not None or not independent_groups(queue):
        if group is not None and not await queue.group_loads.op(group):
            raise NotFound(f"queue {queue.name} has no consumer group {group}")
        return group or ""
    loads = await queue.group_loads.op()
    members = await together(consumers_of(queue, load.group) for load in loads)
    found: list[str] = [
        load.group
        for load, group_members in zip(loads, members, strict=True)
        if any(member.name == consumer for member in group_members)
    ]
    if not found:
        raise NotFound(f"no group of queue {queue.name} has a consumer {consumer}")
    if len(found) > 1:
        raise BadInput(
            f"consumer {consumer} is in several groups: choose one with --group: {', '.join(found)}"
        )
    return found[0]


async def _groups_with(queue: Queue[Any], consumer: str, group: str) -> list[str]:
    """The groups that list it as a consumer."""
    if group:
        members = await consumers_of(queue, group)
        return [group] if any(member.name == consumer for member in members) else []
    found: list[str] = []
    if isinstance(queue, HasRequests):
        for settled in (False, True):
            start = 0
            while page := await queue.requests.op(start, PAGE_OF_GROUPS, settled):
                listed = await together(queue.consumers.op(request.id) for request in page)
                found += [
                    request.id
                    for request, members in zip(page, listed, strict=True)
                    if any(member.name == consumer for member in members)
                ]
                start += len(page)
    return found


class ConsumerSteps(ChangeSteps):
    """Give a consumer's entries to another or back to waiting; the consumer can be removed too.

    The server checks every entry again in the step that moves it. A consumer is removed only in a
    step in which it holds nothing; what it took in the meantime is moved too, up to `RECHECKS`
    times.
    """

    def __init__(self, held: HeldEntries, to: str | None, *, remove: bool = False) -> None:
        if to is not None:
            checked_receiver(held, to)
        else:
            check_requeueable(held)
        self._independent = independent_groups(held.queue)
        moves = {"source": "pending", "target": "pending" if to else "waiting"}
        super().__init__(
            held.queue, "remove" if remove else "claim", len(held.ids),
            f"{held.what} to {to or 'waiting'}", **({} if self._independent else moves),
        )  # fmt: skip
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
        """whether the steps count themselves in the audit log, as all but those on a cluster do"""

    async def step(self, size: int) -> int | None:
        if not self._batch and self._left:
            self._batch = [self._left.pop() for _ in range(min(STEP, len(self._left)))]
        if self._batch:
            return await self._move()
        return 0 if self.remove and await self._remove() else None

    async def end(self) -> dict[str, str | int] | None:
        if self._independent:
            self._counted = False  # record the total: entries that were `to`'s already count too
            await self._record()
        # Bulk moves count themselves on each shard; a total written here would be added to that.
        return {"matched": self.outcome.matched}

    async def _move(self) -> int:
        held, batch = self.held, self._batch
        if isinstance(held.queue, HasConsumerGroups):
            assert self.to is not None
            # Recorded before the step: if it is never sent, its undo changes nothing.
            await self._record(batch)
            done = await held.queue.reassign.op(
                held.group, held.consumer, self.to, batch, min_idle_ms=held.min_idle_ms, op=self.op
            )
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
        """The command that gives these back."""
        names = (self.held.group, self.to or "", self.held.consumer)
        words = [quote(bytes_of(name), safe="") for name in names]
        return [" ".join(["reassign", *words, *ids])] if ids else []

    async def _record(self, next_ids: Sequence[str] = ()) -> None:
        """Write to the audit log how to undo what was moved and what the next step moves, and how
        many were moved if the steps don't count themselves."""
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
            done = await queue.reassign.op(
                held.group, held.consumer, self.to, [], remove=True, op=self.op
            )
            if done.beside:
                self.outcome.matched += len(done.beside)
                self.outcome.done += len(done.beside)
                self._inverses += self._inverse(done.beside)
                await self._record()
            if done.removed:
                self.removed, held.groups = 1, []
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

    async def _find_new_entries(self) -> bool:
        """Find what the consumer took in the meantime, which has to be moved too."""
        held = self.held
        self._rechecks += 1
        if self._rechecks > RECHECKS:
            self.outcome.skip("still taking", len(held.groups))
            self.outcome.matched += len(held.groups)
            return False
        held.high_water_ms = await held.queue.now.op()
        after, found = None, list[str]()
        while True:
            page = await held.queue.pending_deliveries.op(held.group, PAGE, held.consumer, after)
            found += [row.id for row in page.rows]
            after = page.after
            if after is None:
                break
        self._left = found[::-1]
        self.outcome.matched += len(found)
        return True

    @property
    def undoable(self) -> bool:
        """Whether an undo is possible; it also restores a removed consumer."""
        return not self._independent or self.outcome.matched <= UNDOABLE

    async def reached(self) -> int:
        """How many were moved according to the audit log, with steps whose reply was lost."""
        done = await super().reached()
        if self._independent and done < self.outcome.done:  # on a cluster the last step is missing
            done = self.outcome.done
            await audit_log.note(self.queue, self.op, done=done)
        return done


def change_preview(held: HeldEntries, to: str | None, *, remove: bool = False) -> Preview:
    """What `ConsumerSteps` will do. ``to`` is empty while the receiver isn't named yet."""
    n, queue, lines = len(held.ids), held.queue.name, list[str]()
    verb = "remove" if remove else "requeue" if to is None else "claim"
    if remove or n:
        receiver = "the consumer you name" if to == "" else to
        means = meaning("requeue", held.queue) if receiver is None else claimed_by(receiver)
        # A stream lets a consumer acknowledge what another one holds.
        lines.append(means.partition(";")[0] if independent_groups(held.queue) else means)
    lines += left_out(held)
    last = ""
    if (remove or n) and held.idle_ms is not None and held.idle_ms < SILENT_MS:
        last = f"it was active {age(held.idle_ms)} ago"
    if remove:
        if groups := len(held.groups):
            noun = "group" if groups == 1 else "groups"
            lines.append(f"it is removed from {count(groups)} {noun} once it holds nothing")
        lines += [f"{last}: if it lives, it comes back"] if last else []
        what = f"remove {held.what} in queue {queue}, which holds {entries(n, 'pending')}"
    else:
        lines += [f"{last}: it may be at work on them"] if last else []
        lines += ["it stays a consumer"] if n else []
        what = f"{verb} {entries(n, 'pending')} of {held.what} in queue {queue}"
    if not undoable(held):
        back = f" from {to}" if to else ""
        lines.append(f"there is no undo for so many in a stream: claim them back{back}")
    facts = {
        "verb": verb, "queue": queue, "group": held.group or None, "consumer": held.consumer,
        "to": to, "matched": n, "left_out": held.too_young, "groups": len(held.groups),
        "sample": held.ids[:10],
    }  # fmt: skip
    return Preview(what, tuple(lines), typed_number(n), facts, ids=held.ids[:3])


def left_out(held: HeldEntries) -> list[str]:
    """How many entries were held for too short a time; empty: none."""
    were = "was" if held.too_young == 1 else "were"
    span = age(held.min_idle_ms)
    young = f"{count(held.too_young)} {were} held for less than {span}: left out"
    return [young] if held.too_young else []
