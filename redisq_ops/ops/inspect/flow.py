"""The flow of an entry: which entries wait for it, and for which it waits, level by level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.relation import NO_LINKS, Linked, Links
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.redis.operation import attempt, together

from ..redaction import Redaction
from ..terminal import count

BELOW, ABOVE = 3, 5
"""levels that are read on each side of the entry"""
MOST = 100
"""entries of a level that are read"""


@dataclass(frozen=True, slots=True)
class FlowMember:
    """An entry of a flow, as it was read."""

    depth: int
    """0: the entry that was asked for; below it 1, 2, …; above it -1, -2, …"""
    role: str
    """what its program calls it, to the entry one level nearer; empty at depth 0"""
    queue: Queue[Any]
    id: str
    state: State | Literal["gone"] | None
    """None: unknown"""
    called: str
    """its program's word for the state"""
    holds: bool
    """whether the entry above it can't go on before it has ended, or was replayed"""
    number: int
    """of all entries for which it waits, or did"""
    awaiting: int
    """of all entries that wait for it, or did"""
    listed: int
    """how many of those for which it waits follow it"""
    counts: Mapping[str, int]
    """states of those for which it waits, of as many as are known: ``open`` means that
    it is still waited for: it hasn't ended, or it is dead and may be replayed"""
    note: str = ""
    """what else its program keeps of it, in words"""
    group: bool = False
    """it is no entry, but a group of entries: a batch"""

    @property
    def address(self) -> str:
        """Of a group its program's name for it."""
        return self.id if self.group else f"{self.queue.name}/{self.id}"

    def redacted(self, redaction: Redaction) -> FlowMember:
        return replace(self, note=redaction.text(self.note))

    @property
    def line(self) -> str:
        """``child bullmq:mail/c  dead (failed), the one above waits for it``"""
        if self.group:
            words = (f"{self.role} {self.address}", self.state, self.note)
            return "  ".join(filter(None, words))
        state = self.state or "unknown"
        owner = f" ({self.called})" if self.called and self.called != state else ""
        holds = "; the one above waits for it" if self.holds else ""
        more = f"; {self.sums}" if self.number else ""
        more += f"; {count(self.awaiting)} above" if self.awaiting > 1 else ""
        more += f"; {self.note}" if self.note else ""
        return f"{self.role} {self.address}".strip() + f"  {state}{owner}{holds}{more}"

    @property
    def sums(self) -> str:
        """``10,000 below: 9,999 done, 1 dead; 100 shown``"""
        known = sum(self.counts.values())
        said = {"open": "still waited for"}
        words = ", ".join(f"{count(n)} {said.get(word, word)}" for word, n in self.counts.items())
        read = f", {count(known)} read" if 0 < known < self.number else ""
        cut = self.depth >= 0 and self.listed < self.number
        part = f"; {count(self.listed)} shown" if cut else ""
        return f"{count(self.number)} below{read}" + (f": {words}" if words else "") + part


async def flow(queue: Queue[Any], entry: Entry) -> tuple[FlowMember, ...]:
    """The members of an entry's flow in the order in which they are drawn, the entry among them;
    empty: it has none. A level takes a fixed number of round trips. Other entries of its groups
    follow it, on its level."""
    (links,) = await queue.links.op([entry])
    if links == NO_LINKS:
        return ()
    seen = {(queue.name, entry.id)}
    me = _Read(Linked("", queue, entry.id), entry.state, entry.called or "", links)
    above: list[FlowMember] = []
    level = [me]
    for depth in range(1, ABOVE + 1):
        level = await _read(_fresh((one for each in level for one in each.links.awaited_by), seen))
        above[:0] = [_member(-depth, each) for each in level]
    beside = await _read(_fresh(_others_of(links), seen))
    below, level = {id(me): list[_Read]()}, [me]
    for _ in range(BELOW):
        under = [_fresh(each.links.waits_for, seen) for each in level]
        rest = MOST
        for nth, some in enumerate(under):
            under[nth], rest = some[:rest], max(0, rest - len(some))
        found = iter(await _read([one for some in under for one in some]))
        for each, some in zip(level, under, strict=True):
            below[id(each)] = [next(found) for _ in some]
        level = [one for each in level for one in below[id(each)]]
    return (*above, *_drawn(me, 0, below), *(_member(0, one) for one in beside))


def _others_of(links: Links) -> Iterator[Linked]:
    """What the groups of an entry wait for, the entry among it."""
    known = (one.known for one in links.awaited_by if one.group)
    return (one for each in known if each for one in each.links.waits_for)


def indented(members: Sequence[FlowMember]) -> Iterator[tuple[str, FlowMember]]:
    """The members, each with its indentation."""
    top = min((one.depth for one in members), default=0)
    return (("  " * (one.depth - top), one) for one in members)


@dataclass(frozen=True, slots=True)
class Held:
    """What an entry waits for, and what waits for it."""

    holding: tuple[FlowMember, ...] = ()
    """those that keep it from going on, the dead ones first"""
    awaiting: tuple[FlowMember, ...] = ()
    """those that wait for it"""
    beside: tuple[FlowMember, ...] = ()
    """others for which a group of it waits, the dead ones first"""


NOTHING_HELD: Final = Held()


async def holding(queue: Queue[Any], entry: Entry) -> Held:
    """What keeps an entry from going on, and what it keeps."""
    (links,) = await queue.links.op([entry])
    others = _fresh(_others_of(links), {(queue.name, entry.id)})
    parts = links.waits_for, links.awaited_by, others
    read = iter(await _read([one for part in parts for one in part]))
    below, above, beside = (
        [_member(depth, next(read)) for _ in part]
        for depth, part in zip((1, -1, 0), parts, strict=True)
    )
    return Held(_dead_first(below), tuple(above), _dead_first(beside))


def _dead_first(members: Iterable[FlowMember]) -> tuple[FlowMember, ...]:
    held = (one for one in members if one.holds)
    return tuple(sorted(held, key=lambda one: one.state != "dead"))


@dataclass(frozen=True, slots=True)
class _Read:
    linked: Linked
    state: State | Literal["gone"] | None
    called: str = ""
    links: Links = NO_LINKS


def _fresh(linked: Iterable[Linked], seen: set[tuple[str, str]]) -> list[Linked]:
    """The first that were not seen yet, so that no circle is followed."""
    found = {(one.queue.name, one.id): one for one in linked}
    fresh = [one for key, one in found.items() if key not in seen][:MOST]
    seen.update((one.queue.name, one.id) for one in fresh)
    return fresh


async def _read(linked: Sequence[Linked]) -> list[_Read]:
    """The state and the links of each, in their order."""
    of_queue: dict[str, list[Linked]] = {}
    for one in linked:
        if one.known is None:
            of_queue.setdefault(one.queue.name, []).append(one)
    found = await together(_read_in(some[0].queue, some) for some in of_queue.values())
    rows = {name: iter(some) for name, some in zip(of_queue, found, strict=True)}
    return [
        next(rows[one.queue.name])
        if one.known is None
        else _Read(one, one.known.state, one.known.called, one.known.links)
        for one in linked
    ]


async def _read_in(queue: Queue[Any], linked: Sequence[Linked]) -> list[_Read]:
    entries = await attempt(queue.glance_many.op([one.id for one in linked]))
    if isinstance(entries, Exception):
        return [_Read(one, None) for one in linked]
    there = [entry for entry in entries if entry is not None]
    links = await attempt(queue.links.op(there))
    known = iter([NO_LINKS] * len(there) if isinstance(links, Exception) else links)
    return [
        _Read(one, one.ended or (None if one.there else "gone"))
        if entry is None  # or too deep inside a list
        else _Read(one, "gone" if entry.orphan else entry.state, entry.called or "", next(known))
        for one, entry in zip(linked, entries, strict=True)
    ]


def _member(depth: int, read: _Read, below: Sequence[_Read] = ()) -> FlowMember:
    one, links = read.linked, read.links
    counts = links.counts or Counter(each.state or "unknown" for each in below)
    # One whose failure made the other one fail holds it only until it is replayed.
    holds = one.holds and (one.ended is None or read.state == "dead")
    return FlowMember(
        depth,
        one.role,
        one.queue,
        one.id,
        read.state,
        read.called,
        holds,
        links.number,
        links.awaiting,
        len(below),
        counts,
        links.note,
        one.group,
    )


def _drawn(read: _Read, depth: int, below: Mapping[int, Sequence[_Read]]) -> Iterator[FlowMember]:
    under = below.get(id(read), ())
    yield _member(depth, read, under)
    for one in under:
        yield from _drawn(one, depth + 1, below)
