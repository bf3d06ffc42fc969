"""Consumers: what each holds and since when, which are silent, and how to take it from them.

*Lag* is what a group was not given yet, *pending* what it was given and hasn't settled: the one
asks for more workers, the other for a look at those there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from redisq_ops.core.engine.optional_features import HasConsumerGroups, HasConsumers, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.consumer_load import PENDING_PAGE, GroupLoad, PendingDelivery
from redisq_ops.core.model.entry import Consumer
from redisq_ops.core.model.errors import BadInput, NotFound, Refused
from redisq_ops.core.model.keys import checked_consumer
from redisq_ops.core.model.quoting import bytes_of
from redisq_ops.core.model.settings import LEASE_MS
from redisq_ops.core.redis.operation import both, together

from ..change import audit_log
from ..change.audit_log import Author, ChangeOutcome
from ..filter.fields import quoted
from ..filter.parser import parse
from ..filter.scan import Filter
from ..redaction import NOTHING, Redaction

DELIVERIES = (1, 2, 3, 5, 10)
"""rows of the heat map: so many deliveries, up to before the next"""
AGES_MS = (60_000, 600_000, 3_600_000, 86_400_000)
"""columns: held for less than this, the last one for longer"""
SILENT_MS = 300_000
POISON = 10
"""deliveries from which an entry is taken for one that kills its consumers"""
STEP = 50
"""entries a call gives away: of a stream about half a millisecond"""
PAGE_OF_GROUPS = 100
PAGE = 500
LOOKS = 20
"""times a consumer that is to be removed is found to hold something new, before we give up"""
UNDOABLE = 5_000
"""entries whose old places are kept for an undo, where the stream itself can't say"""


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """One consumer of a group, as far as the window shows."""

    name: str
    pending: int
    idle_ms: int | None
    """since it asked or acknowledged last; None: its leases are all that is known of it"""
    oldest_ms: int | None
    """how long it has held what it has held longest"""
    late: int | None
    """how many of its leases are over; None: there are none in this layout"""
    silent_ms: int | None
    """how long it is silent; None: it isn't, or holds nothing"""


@dataclass(frozen=True, slots=True)
class ConsumerReport:
    """Who holds what in a queue or one group of it, by the ``looked`` first of ``pending``."""

    queue: str
    group: str | None
    loads: tuple[GroupLoad, ...]
    consumers: tuple[ConsumerStatus, ...]
    heat: tuple[tuple[int, ...], ...]
    """a row for each of `DELIVERIES`, a column for each age"""
    poison: tuple[PendingDelivery, ...]
    looked: int
    pending: int


async def reports(
    queue: Queue[Any],
    group: str | None = None,
    *,
    silent_ms: int = SILENT_MS,
    poison: int = POISON,
) -> list[ConsumerReport]:
    """Of a queue: one for each of its groups where these read for themselves, else one."""
    loads = await queue.group_loads.op(group or "")
    if group is not None and not loads:
        raise NotFound(f"nothing in queue {queue.name} is read by a group {group}")
    apart = _apart(queue)
    names = [load.group for load in loads] if apart or group is not None else [""]
    found = await together(_report(queue, name, silent_ms, poison) for name in names)
    return [_with(one, [x for x in loads if x.group == one.group or not apart]) for one in found]


def _apart(queue: Queue[Any]) -> bool:
    """Whether its groups read for themselves, and their pending lists are all there is."""
    return isinstance(queue, HasConsumerGroups)


def _with(report: ConsumerReport, loads: Sequence[GroupLoad]) -> ConsumerReport:
    return replace(report, loads=tuple(loads), group=report.group or None)


async def _report(queue: Queue[Any], group: str, silent_ms: int, poison: int) -> ConsumerReport:
    known, held = await both(
        _members(queue, group), queue.pending_deliveries.op(group, PENDING_PAGE)
    )
    rows = held.rows
    heat = [[0] * (len(AGES_MS) + 1) for _ in DELIVERIES]
    for row in rows:
        if row.age_ms is not None:
            heat[_row(row.deliveries)][sum(row.age_ms >= age for age in AGES_MS)] += 1
    return ConsumerReport(
        queue.name, group, (), tuple(_seen(rows, known, silent_ms)), tuple(map(tuple, heat)),
        tuple(row for row in rows if row.deliveries >= poison), len(rows), held.total,
    )  # fmt: skip


def _row(deliveries: int) -> int:
    return max(0, sum(deliveries >= least for least in DELIVERIES) - 1)


async def _members(queue: Queue[Any], group: str) -> list[Consumer]:
    """A group's consumers by their own names; none where nobody but the leases knows them."""
    if not group or not isinstance(queue, HasConsumers):
        return []
    return [
        replace(one, name=one.name.removeprefix(f"{group}:"))
        for one in await queue.consumers.op(group)
    ]


def _seen(
    rows: Sequence[PendingDelivery], known: Sequence[Consumer], silent_ms: int
) -> Iterator[ConsumerStatus]:
    held: dict[str, list[PendingDelivery]] = {one.name: [] for one in known}
    for row in rows:
        held.setdefault(row.consumer or "-", []).append(row)
    listed = {one.name: one for one in known}
    for name, its in sorted(held.items()):
        one = listed.get(name)
        lates = [row.late_ms for row in its if row.late_ms is not None]
        idle = one.idle_ms if one else None
        # A lease that is renewed says more than a group's idle time: working isn't asking.
        silence = min(lates) if lates else idle
        pending = one.pending if one else len(its)
        yield ConsumerStatus(
            name, pending, idle,
            max((row.age_ms for row in its if row.age_ms is not None), default=None),
            sum(late > 0 for late in lates) if lates else None,
            silence if pending and silence is not None and silence >= silent_ms else None,
        )  # fmt: skip


# --- taking it from them ----------------------------------------------------------------------


@dataclass(slots=True)
class HeldEntries:
    """What a consumer holds, and where it is known: identities, chosen before anything is done."""

    queue: Queue[Any]
    consumer: str
    group: str
    """'': in the whole queue"""
    min_idle_ms: int
    high_water_ms: int
    ids: list[str] = field(default_factory=list)
    too_young: int = 0
    """held for less than asked for, and so left out"""
    groups: list[str] = field(default_factory=list)
    """where it is a consumer, and can be removed"""
    idle_ms: int | None = None
    """since it was heard of"""

    @property
    def what(self) -> str:
        return f"consumer {self.consumer}" + (f" of group {self.group}" if self.group else "")


async def held_by(
    queue: Queue[Any],
    consumer: str,
    group: str | None = None,
    *,
    min_idle_ms: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> HeldEntries:
    """What a consumer holds, looked for by pages; nothing is changed.

    ``progress`` is told (found, looked through) after each; raising from it ends the look.
    `NotFound` if nobody knows a consumer of that name.
    """
    checked = consumer if _apart(queue) else checked_consumer(consumer)
    inside = await _the_group(queue, consumer, group)
    held = HeldEntries(queue, checked, inside, min_idle_ms, await queue.now.op())
    after: str | None = None
    looked = 0
    while True:
        page = await queue.pending_deliveries.op(inside, PAGE, consumer, after)
        old = [row.id for row in page.rows if (row.age_ms or 0) >= min_idle_ms]
        held.ids += old
        held.too_young += len(page.rows) - len(old)
        looked += PAGE
        if progress is not None:
            progress(len(held.ids), min(looked, page.total))
        after = page.after
        if after is None:
            break
    held.groups = await _groups_with(queue, consumer, inside)
    members = await _members(queue, inside)
    held.idle_ms = next((one.idle_ms for one in members if one.name == consumer), None)
    if not (held.ids or held.too_young or held.groups):
        raise NotFound(f"no {held.what} in queue {queue.name}: it holds nothing, and no group")
    return held


def among(held: HeldEntries, redaction: Redaction = NOTHING) -> Filter:
    """The filter that means what a consumer holds, where leases are all that knows of it."""
    return Filter(
        requests=(held.group,) if held.group else (), older_than_ms=held.min_idle_ms,
        where=parse(f"consumer={quoted(held.consumer)}"), redaction=redaction,
    )  # fmt: skip


def checked_receiver(held: HeldEntries, to: str) -> str:
    """Whom it can be given to."""
    checked_consumer(to)
    if to == held.consumer:
        raise BadInput(f"{to} can't be given what it holds itself")
    return to


def requeueable(held: HeldEntries) -> None:
    """Refuse where what a consumer holds can't wait for a worker again."""
    if _apart(held.queue):
        raise Refused(
            f"in a {held.queue.kind} queue what was given can't wait again: say whom it is for"
        )


def undoable(held: HeldEntries) -> bool:
    """Whether the journal can take back that it is given to another."""
    return not _apart(held.queue) or len(held.ids) <= UNDOABLE


async def _the_group(queue: Queue[Any], consumer: str, group: str | None) -> str:
    """The group that is meant: the one named, or the only one with such a consumer."""
    if group is not None or not _apart(queue):
        if group is not None and not await queue.group_loads.op(group):
            raise NotFound(f"nothing in queue {queue.name} is read by a group {group}")
        return group or ""
    loads = await queue.group_loads.op()
    members = await together(_members(queue, load.group) for load in loads)
    having: list[str] = [
        load.group
        for load, there in zip(loads, members, strict=True)
        if any(one.name == consumer for one in there)
    ]
    if not having:
        raise NotFound(f"no group of {queue.name} has a consumer {consumer}")
    if len(having) > 1:
        raise BadInput(f"consumer {consumer} is in several groups: say --group {', '.join(having)}")
    return having[0]


async def _groups_with(queue: Queue[Any], consumer: str, group: str) -> list[str]:
    """The groups of which it is a consumer."""
    if group:
        there = await _members(queue, group)
        return [group] if any(one.name == consumer for one in there) else []
    found: list[str] = []
    if isinstance(queue, HasRequests):
        for settled in (False, True):
            start = 0
            while page := await queue.requests.op(start, PAGE_OF_GROUPS, settled):
                members = await together(queue.consumers.op(request.id) for request in page)
                found += [
                    request.id
                    for request, there in zip(page, members, strict=True)
                    if any(one.name == consumer for one in there)
                ]
                start += len(page)
    return found


class Change:
    """Gives what a consumer holds to another, or lets it wait again; and removes it if asked.

    Drive `step` until it says False, as a `Bulk`. Every entry is looked at again when its turn
    comes. To be removed, a consumer has to hold nothing in the very step that removes it; what it
    was given meanwhile is looked for and moved too, `LOOKS` times.
    """

    pause = 0.0

    def __init__(
        self, held: HeldEntries, to: str | None, author: Author, *, remove: bool = False
    ) -> None:
        if to is not None:
            checked_receiver(held, to)
        self.held = held
        self.to = to
        self.author = author
        self.remove = remove
        self.removed = 0
        """groups it is no consumer of any more"""
        self._apart = _apart(held.queue)
        verb = "remove" if remove else "claim"
        self.outcome = ChangeOutcome(audit_log.new_id(verb), len(held.ids))
        self._verb = verb
        self._left = list(reversed(held.ids))
        self._batch: list[str] = []
        self._steps = 0
        self._looks = 0
        self._inverses: list[str] = []
        """how what was heard to be moved is given back"""
        self._kept = False
        self._counted = False
        """whether steps count themselves in the journal, as all but those on a cluster do"""
        if to is None:
            requeueable(held)

    async def step(self) -> bool:
        """Move some, or remove it; False when all is done."""
        held, outcome = self.held, self.outcome
        assert outcome.op is not None
        if not self._steps:
            await self._begin()
        if not self._batch and self._left:
            self._batch = [self._left.pop() for _ in range(min(STEP, len(self._left)))]
        if self._batch:
            await self._move(outcome.op)
            return True
        if self.remove and await self._remove():
            return True
        if self._apart:
            self._counted = False  # what was the other's by itself counts as moved too
            await self._note(outcome.op)
        # Moves count themselves, each shard its own: a sum beside these would be counted twice.
        await audit_log.note(held.queue, outcome.op, matched=outcome.matched, ended=1)
        return False

    async def _begin(self) -> None:
        held, op = self.held, self.outcome.op
        assert op is not None
        self._steps = 1
        where = self.to or "waiting"
        moves: dict[str, Any] = {} if self._apart else {
            "source": "pending", "target": "pending" if self.to else "waiting"
        }  # fmt: skip
        await audit_log.begin(
            held.queue, op, self._verb, self.author, f"{held.what} to {where}",
            now_ms=await held.queue.now.op(), matched=self.outcome.matched, **moves,
        )  # fmt: skip

    async def _move(self, op: str) -> None:
        held, batch = self.held, self._batch
        if isinstance(held.queue, HasConsumerGroups):
            assert self.to is not None
            # Before the step: after a kill in between, an undo finds nothing to do, and no harm.
            await self._note(op, batch)
            done = await held.queue.reassign.op(
                held.group, held.consumer, self.to, batch, min_idle_ms=held.min_idle_ms, op=op
            )
            said, self._counted = list(done.words), done.counted
            self._inverses += self._inverse(
                [id for id, word in zip(batch, said, strict=True) if word == "moved"]
            )
        else:
            target = "pending" if self.to else "waiting"
            said = await held.queue.move.op(
                op, self._steps, batch, source="pending", target=target,
                high_water_ms=held.high_water_ms, consumer=self.to or "-", lease_ms=LEASE_MS,
            )  # fmt: skip
        self._steps += 1
        self._batch = []
        words = Counter(said)
        self.outcome.done += words.pop("moved", 0)
        for word, n in words.items():
            self.outcome.skip(word, n)

    def _inverse(self, ids: Sequence[str]) -> list[str]:
        """How these are given back."""
        names = (self.held.group, self.to or "", self.held.consumer)
        words = [quote(bytes_of(name), safe="") for name in names]
        return [" ".join(["reassign", *words, *ids])] if ids else []

    async def _note(self, op: str, ahead: Sequence[str] = ()) -> None:
        """How that far and the step ``ahead`` are taken back; how far, if steps don't say so."""
        kept = "\n".join([*self._inverses, *self._inverse(ahead)]) if self.undoable else ""
        fields: dict[str, str | int] = {"matched": self.outcome.matched}
        if kept or self._kept:
            fields["inverse"] = kept
        if self.outcome.done and not self._counted:
            fields["done"] = self.outcome.done
        await audit_log.note(self.held.queue, op, **fields)
        self._kept = bool(kept)

    async def _remove(self) -> bool:
        """Remove it where it holds nothing; whether there is more to do."""
        held, queue = self.held, self.held.queue
        if isinstance(queue, HasConsumerGroups):
            assert self.to is not None
            if not held.groups:
                return False
            done = await queue.reassign.op(
                held.group, held.consumer, self.to, [], remove=True, op=self.outcome.op or ""
            )
            if done.beside:
                assert self.outcome.op is not None
                self.outcome.matched += len(done.beside)
                self.outcome.done += len(done.beside)
                self._inverses += self._inverse(done.beside)
                await self._note(self.outcome.op)
            if done.removed:
                self.removed, held.groups = 1, []
                return False
        else:
            some, held.groups = held.groups[:PAGE_OF_GROUPS], held.groups[PAGE_OF_GROUPS:]
            words: list[str] = []
            if isinstance(queue, HasRequests):  # others have no groups
                words = await together(queue.remove_consumer.op(g, held.consumer) for g in some)
            self.removed += words.count("gone")
            busy = [group for group, word in zip(some, words, strict=True) if word == "holds"]
            if not busy:
                return bool(held.groups)
            held.groups = [*busy, *held.groups]
        return await self._look_again()

    async def _look_again(self) -> bool:
        """It was given something meanwhile: that is to be moved too."""
        held = self.held
        self._looks += 1
        if self._looks > LOOKS:
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
        """Whether the journal can take it back; a removed consumer comes back with its entries."""
        return not self._apart or self.outcome.matched <= UNDOABLE

    async def reached(self) -> int:
        """How many were moved as the journal has it, also by a step whose reply was not heard."""
        assert self.outcome.op is not None
        operation = await audit_log.read(self.held.queue, self.outcome.op)
        done = operation.done if operation else 0
        if self._apart and done < self.outcome.done:  # of a cluster: without the last step
            done = self.outcome.done
            await audit_log.note(self.held.queue, self.outcome.op, done=done)
        return done
