"""Queues whose owner keeps each state in lists and sorted sets of its own.

A kind declares its ``states`` and how records are `read`. Pages, counts, look-ups by id and what is
ahead of an entry follow, and with them every table and screen. Pages are read place by place, in
the order in which entries are taken. Where an entry's id doesn't lead to its key, lists are read
for it, 10,000 deep from either end.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Protocol, TypeVar

from ..engine.idempotency import CallerSlots
from ..engine.optional_features import HasWorkerProcesses
from ..engine.reads import recent_consumers
from ..model.clock import Clock
from ..model.entry import Counts, Entry, Page, State
from ..model.errors import WrongKind
from ..model.keys import PREFIX
from ..model.queue_position import Ahead, QueuePosition, joined
from ..model.quoting import bytes_of, legal, raw_of, text
from ..model.states import FIXED
from ..model.worker_process import Process
from ..redis.operation import C_co, Call, Description, attempt, both, operation, together
from ..redis.parsers import moment
from .base import ForeignQueue
from .places import DEPTH, Beside, List, LocatedEntry, Place, Read, Row, Zset, reachable

PAGE = 500
PAGES = 20
"""pages read for one page of a set that all queues share"""
FEW = 20
"""ids that are looked up in a list one by one; for more of them it is read"""
STATES: tuple[State, ...] = ("pending", "trash", "delayed", "dead", "waiting")
T = TypeVar("T")


@cache
def _kinds(layout: type[PlacedQueue[Any]]) -> frozenset[tuple[str, str]]:
    part_of = {theirs: part for part, theirs in layout.called.items()}
    theirs = {part_of.get(key, f"t_{key}"): kind for key, kind in layout.theirs.items()}
    return frozenset((FIXED | layout.key_types | theirs).items())


class PlacedQueue(ForeignQueue[C_co]):
    """One queue of a deployment; named without one, the whole deployment."""

    states: ClassVar[Mapping[State, Sequence[List | Zset]]] = {}
    """where each state is kept, in the order in which entries are shown"""
    key_types: ClassVar[dict[str, str]] = {"was": "hash", "purged": "hash"}
    theirs: ClassVar[dict[str, str]]
    """the owner's fixed keys, with their types; the set of queues comes first"""
    called: ClassVar[Mapping[str, str]] = {}
    """keys of the owner's by the names that scripts have for them, where these aren't ``t_KEY``"""

    def __init__(
        self,
        client: C_co,
        name: str,
        *,
        at: str | None = None,
        own_name: str | None = None,
        prefix: str = PREFIX,
        clock: Clock | None = None,
        callers: CallerSlots | None = None,
    ) -> None:
        super().__init__(
            client, name, at=at, own_name=own_name, prefix=prefix, clock=clock, callers=callers
        )
        self.keys: Beside = self._keys(self.name)
        self._left_off: dict[State, tuple[int, str | None]] = {}
        """where looking for ids ended: a bulk change asks for them in the order of the pages"""

    def _keys(self, name: str) -> Beside:
        return Beside(self.at, name, self.prefix, self.called)

    # --- what a kind says ------------------------------------------------------------------------

    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        """The entries of a place's elements, in one exchange; None: one that isn't this queue's."""
        raise NotImplementedError

    async def members(self, place: Place, ids: Sequence[str]) -> Sequence[bytes]:
        """What the entries of these ids are in a place, of a kind that finds them `by_id`."""
        return [raw_of(id) for id in ids]

    def name_of(self, element: bytes) -> bytes:
        """The queue's name, of an element of the owner's set of queues."""
        return element

    async def paused_there(self) -> str | None:
        """Whether the owner's own mark pauses it, in words."""
        return None

    # --- being there -----------------------------------------------------------------------------

    @property
    def _all_key_types(self) -> frozenset[tuple[str, str]]:
        """Ours and the owner's, by the names that scripts have for them."""
        return _kinds(type(self))

    def _their_keys(self) -> dict[str, str]:
        return {self.at + key: kind for key, kind in self.theirs.items()}

    @operation
    async def exists(self) -> bool:
        wanted = self._their_keys()
        kinds = await types_of(wanted)
        if not self.own_name:
            return any(kinds[key] == kind for key, kind in wanted.items())
        if await attempt(self._listed()) is True:
            return True
        places = await self._declared([self.own_name])
        found = await types_of(place.key for place in places)
        return any(found[place.key] == place.kind for place in places)

    async def _listed(self) -> bool:
        return self.own_name in await self.names.op()

    async def _declared(self, names: Sequence[str]) -> list[Place]:
        return [place for state in self.states for place in self._of_state(state, names)]

    async def _wrong_type_keys(self) -> list[tuple[str, str, str]]:
        """Keys that are of another type than the layout has: (key, its type, what it should be)."""
        kinds = {self.keys[part]: kind for part, kind in (FIXED | self.key_types).items()}
        kinds |= self._their_keys() | await self._place_kinds()
        found = await types_of(kinds)
        return [(k, is_, kinds[k]) for k, is_ in found.items() if is_ not in ("none", kinds[k])]

    async def _refuse_wrong_types(self) -> None:
        for key, is_, kind in await self._wrong_type_keys():
            raise WrongKind(f"key {key} is a {is_} where queue {self.name} has a {kind}")

    async def _place_kinds(self) -> dict[str, str]:
        """The keys of this queue's own places, with their types."""
        names = [self.own_name] if self.own_name else []
        return {place.key: place.kind for place in await self._declared(names)}

    # --- where entries are -----------------------------------------------------------------------

    async def _places(self, state: State, wrong: list[str] | None = None) -> list[Place]:
        """Where the entries of a state are, in the order in which they are shown.

        With ``wrong`` places that can't be read are named there, and read as empty.
        """
        if state == "trash":
            found = [self._own_trash()]
        else:
            found = await self._of_owner(state, wrong)
        if wrong is None:
            return found
        sizes = await together(self._unless(place.count(), None, wrong) for place in found)
        return [
            self._gathered(()) if size is None else place
            for place, size in zip(found, sizes, strict=True)
        ]

    async def _of_owner(self, state: State, wrong: list[str] | None) -> list[Place]:
        """Where the owner keeps a state."""
        names = await self._unless(self._queues(), [], wrong) if state in self.states else []
        return self._of_state(state, names)

    def _of_state(self, state: State, names: Sequence[str]) -> list[Place]:
        async def read(place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]:
            return await self.read(state, place, rows)

        return [
            Place(
                "list" if isinstance(one, List) else "zset", self.at + one.key.replace("{q}", name),
                one.called, read, isinstance(one, List) and one.next == "RIGHT",
            )
            for one in self.states.get(state, ())
            for name in names
        ]  # fmt: skip

    def _gathered(self, rows: Sequence[LocatedEntry]) -> Place:
        return Place("busy", "", "busy", _nothing, rows=rows)

    def _own_trash(self) -> Place:
        read = kept(self._trashed, self.keys["purged"], self.keys["was"])
        return Place("trash", self.keys["trash"], "purged", read)

    @operation
    async def names(self) -> list[str]:
        """The deployment's queues, by name."""
        key = self.at + next(iter(self.theirs))
        return sorted(text(self.name_of(name)) for name in await of_set(key))

    @staticmethod
    async def _unless(what: Description[T], empty: T, wrong: list[str] | None) -> T:
        """What is read; with ``wrong`` a key of another type is named there and reads as empty."""
        try:
            return await what
        except WrongKind as misfit:
            if wrong is None:
                raise
            wrong.append(str(misfit))
            return empty

    async def _queues(self) -> list[str]:
        if self.own_name:
            return [self.own_name]
        return [name for name in await self.names.op() if name not in self.beside]

    def _means(self, name: object) -> bool:
        """Whether what its owner has in the queue of that name is meant."""
        if self.own_name:
            return name == self.own_name
        return not (isinstance(name, str) and name in self.beside)

    def _name_of(self, name: str) -> str:
        """What a queue of the deployment is called here."""
        return f"{self.kind}:{legal(bytes_of(name))}"

    def _shared(self, state: State) -> bool:
        """Whether this queue's entries of that state lie among those of others."""
        return False

    def _trashed(
        self, place: Place, payload: bytes, score: float, name: bytes, kept: bytes
    ) -> Entry | None:
        # MessagePack, an array of which the first is the operation's name.
        op = re.match(rb"[\x90-\x9f](?:[\xa0-\xbf]|\xd9.)([!-~]+)", kept, re.S)
        return Entry(
            text(name), "trash", at_ms=moment(score), since_ms=moment(score), payload=payload,
            failures=self._failures(payload), op=op[1].decode() if op else None,
            called=place.called,
        )  # fmt: skip

    def _failures(self, payload: bytes) -> int:
        """How often an entry in the trash has failed, by what is kept of it."""
        return 0

    # --- looking ---------------------------------------------------------------------------------

    @operation
    async def page(
        self,
        state: State,
        cursor: str | None = None,
        max: int = 100,
        start: int | None = None,
        payloads: bool = False,
    ) -> Page:
        """As every queue's. One queue's part of a set that all share is picked out by reading it:
        at most 10,000 members a page (2,000 a window), and ``total`` is how many of them
        were found: not ``exact`` while there is more to read. Beside a key of another type the rest
        is shown."""
        if state == "done" and state not in self.states:
            return Page((), None, 0)
        try:
            return await self._page(state, cursor, max, start)
        except WrongKind:
            wrong: list[str] = []
            rest = await self._page(state, cursor, max, start, wrong)
            return replace(rest, exact=False, problem=named(wrong))

    async def _page(
        self,
        state: State,
        cursor: str | None,
        max: int,
        start: int | None,
        wrong: list[str] | None = None,
    ) -> Page:
        places = await self._places(state, wrong)
        shared = self._shared(state)
        if start is not None:
            return await (self._picked if shared else self._window)(places, start, max)
        index, inner = (0, None) if cursor is None else _split(cursor)
        found: list[LocatedEntry] = []
        for _ in range(PAGES):
            if index >= len(places) or len(found) >= max:
                break
            rows, inner, _ = await places[index].after(inner, PAGE if shared else max - len(found))
            if len(found) + len(rows) > max:
                rows = rows[: max - len(found)]
                inner = places[index].behind(rows[-1])
            found += rows
            index += inner is None
        on = None if index >= len(places) else f"{index};{inner or ''}"
        if shared:
            known = cursor is None and on is None
            return Page(tuple(seen.entry for seen in found), on, len(found), known)
        total = sum(await together(place.count() for place in places))
        return Page(tuple(seen.entry for seen in found), on, total)

    async def _window(self, places: Sequence[Place], start: int, max: int) -> Page:
        """Entries by rank, over all places."""
        sizes = await together(place.count() for place in places)
        found: list[LocatedEntry] = []
        first = 0
        for place, size in zip(places, sizes, strict=True):
            low = start + len(found) - first
            if len(found) < max and 0 <= low < size:
                found += (await place.window(low, max - len(found)))[0]
            first += size
        return Page(tuple(seen.entry for seen in found), None, sum(sizes))

    async def _picked(self, places: Sequence[Place], start: int, max: int) -> Page:
        """Entries by rank of places that other queues share (`_shared`)."""
        raise NotImplementedError

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """As every queue's; beside a key of another type the rest is counted. What lies among
        entries of other queues (`_shared`) isn't: it would have to be read."""
        wrong: list[str] = []
        states: list[State] = [*(s for s in self.states if not self._shared(s)), "trash"]
        places = await together(self._places(state, wrong) for state in states)
        sizes = [sum(await together(place.count() for place in found)) for found in places]
        numbers = dict(zip(states, sizes, strict=True))
        of = {state: numbers.get(state, 0) for state in (*STATES, "done")}
        paused = await self._unless(self.paused_there(), None, wrong)
        return Counts(
            of["waiting"], of["pending"], of["delayed"], of["dead"], of["trash"], of["done"],
            paused=paused, unknown=frozenset(of) - numbers.keys(), problem=named(wrong),
        )  # fmt: skip

    @operation
    async def due_counts(self, edges: Sequence[int]) -> list[int]:
        names = await self._queues()
        sets = [
            (self.at + one.key.replace("{q}", name), one.unit_ms)
            for one in self.states.get("delayed", ())
            for name in names
            if isinstance(one, Zset) and one.ready
        ]
        spans = list(pairwise(edges))
        found = await together(
            Call(("ZCOUNT", key, low / unit, f"({high / unit}"), int, key=key)
            for key, unit in sets
            for low, high in spans
        )
        return [sum(found[n :: len(spans)]) for n in range(len(spans))]

    @operation
    async def get(self, id: str) -> Entry | None:
        """As every queue's; a list is looked through 10,000 deep from either end. Nothing is said
        not to be there while a state can't be read."""
        states = dict.fromkeys((*STATES, *self.states))
        found = await together(attempt(self._located([id], state, False)) for state in states)
        for rows in found:
            if not isinstance(rows, Exception) and rows[id]:
                return rows[id][0].entry
        for unread in found:
            if isinstance(unread, Exception):
                raise unread
        return None

    async def _get_waiting(self, id: str) -> Entry | None:
        return await self.get.op(id)

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        """Who takes: our own workers, and the owner's processes that serve this queue, as they
        beat last; unknown where these aren't listed. A list is looked through as far as `get`
        does."""
        wrong: list[str] = []
        (askers, now), (processes, found) = await both(
            both(self._recent_consumers(), self._now()),
            both(
                self._unless(self._processes(), [], wrong),
                self._located([id] if id else [], "waiting", False),
            ),
        )
        serving = [p for p in processes if p.alive and not p.quiet and self._serves(p.queues)]
        beats = [now - p.silent_ms for p in serving if p.silent_ms is not None]
        asked = max([*beats, *([] if askers.asked_ms is None else [askers.asked_ms])], default=None)
        counted = isinstance(self, HasWorkerProcesses) and not wrong
        seen = (askers.askers or 0) + len(serving) if counted else None
        known = replace(askers, asked_ms=asked, askers=seen)
        if not found[id]:
            return known
        before = await found[id][0].rank()
        ahead = (Ahead("jobs of the list", before),) if before else ()
        return replace(known, here=True, ahead=ahead, before=before, before_exact=True)

    async def _recent_consumers(self) -> QueuePosition:
        """Of a deployment, whoever asks one of its queues: each has callers of its own."""
        own = await super()._recent_consumers()
        if self.own_name:
            return own
        names = await self.names.op()
        keys = [self._keys(self._name_of(name))["callers"] for name in names]
        return joined([own, *await together(map(recent_consumers, keys))])

    async def _processes(self) -> list[Process]:
        return await self.worker_processes.op() if isinstance(self, HasWorkerProcesses) else []

    def _serves(self, queues: Sequence[str]) -> bool:
        return not self.own_name or self.own_name in queues or "*" in queues

    async def _located(
        self, ids: Sequence[str], state: State, onward: bool = True
    ) -> defaultdict[str, list[LocatedEntry]]:
        """Where the entries of these ids are now, as many of each as it is named.

        ``onward``: begin where the last search ended, as a bulk change goes through its pages.
        """
        missing = Counter(ids)
        found: defaultdict[str, list[LocatedEntry]] = defaultdict(list)
        known: set[tuple[str, bytes, int]] = set()  # a second round meets them again

        def strike(rows: Sequence[LocatedEntry]) -> bool:
            before = missing.total()
            for seen in rows:
                which = (seen.place.key, seen.member, seen.at)
                if missing[seen.entry.id] > 0 and which not in known:
                    known.add(which)
                    missing[seen.entry.id] -= 1
                    found[seen.entry.id].append(seen)
            return missing.total() < before

        if state == "trash":
            strike(await self._own_trash().of_members([bytes_of(id) for id in missing]))
            return found
        places = await self._places(state)
        if self.by_id:
            places = [p for p in places if not await self._found_by_id(p, missing, strike)]
        sizes = await together(place.count() for place in places)
        begin = self._left_off.get(state) if onward else None
        wrapped = begin is None
        index, inner = begin or (0, None)
        while missing.total():
            if index >= len(places):
                if wrapped:
                    break
                wrapped, index, inner = True, 0, None
                continue
            place, size = places[index], sizes[index]
            traits = [self._trait(id) for id in missing]
            if place.kind == "zset" and size > PAGE and len(traits) <= 3 and all(traits):
                for trait in traits:
                    strike(await place.matching(trait))
                index, inner = index + 1, None
                continue
            here = (index, inner)
            rows, inner, _ = await place.after(inner, PAGE)
            if strike(rows) and onward:
                self._left_off[state] = here
            if place.kind == "list":
                inner = reachable(inner, size)
            index += inner is None
        return found

    async def _has_depths(self, found: dict[str, list[LocatedEntry]], ids: Sequence[str]) -> bool:
        """Whether what wasn't found may lie where nobody looked."""
        if all(len(found[id]) >= n for id, n in Counter(ids).items()):
            return False
        lists = [p for p in await self._places("waiting") if p.kind == "list"]
        sizes = await together(place.count() for place in lists)
        return max(sizes, default=0) > 2 * DEPTH

    async def _found_by_id(
        self, place: Place, missing: Counter[str], strike: Callable[[Sequence[LocatedEntry]], bool]
    ) -> bool:
        """Look up what is missing in a place; False: it is a list and they are many,
        or entries gathered elsewhere."""
        ids = list(missing)
        if place.kind == "busy" or (place.kind == "list" and len(ids) > FEW):
            return False
        members = await self.members(place, ids)
        strike(await (place.of_elements if place.kind == "list" else place.of_members)(members))
        return True

    def _trait(self, id: str) -> str:
        """Something that the bytes of every entry of that id contain; '' if nothing is known."""
        return ""


async def _nothing(place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]:
    return []


class ReadKept(Protocol):
    """Makes an entry of what is kept under a name: a payload, and a record."""

    def __call__(
        self, place: Place, payload: bytes, score: float, name: bytes, kept: bytes
    ) -> Entry | None: ...


def kept(read: ReadKept, payloads: str, records: str) -> Read:
    """Reads entries whose payloads and records are in two hashes of ours, by name."""

    async def batch(place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]:
        names = [row.member for row in rows]
        found = await both(
            Call(("HMGET", payloads, *names), list[Any], key=payloads),
            Call(("HMGET", records, *names), list[Any], key=records),
        )
        return [
            # One without a payload went between the two looks.
            None if payload is None else read(place, payload, row.score, row.member, record or b"")
            for row, payload, record in zip(rows, *found, strict=True)
        ]

    return batch


async def of_set(key: str | bytes) -> list[bytes]:
    """The members of a set, by pages."""
    found: list[bytes] = []
    cursor = 0
    while True:
        cursor, part = await Call(("SSCAN", key, cursor, "COUNT", 500), tuple[int, Any], key=key)
        found += part
        if not cursor:
            return list(dict.fromkeys(found))


def named(wrong: Sequence[str]) -> str | None:
    """What can't be read, each key once."""
    return "; ".join(dict.fromkeys(wrong)) or None


async def types_of(keys: Iterable[str]) -> dict[str, str]:
    names = list(keys)
    found = await together(Call(("TYPE", key), bytes.decode, key=key) for key in names)
    return dict(zip(names, found, strict=True))


def _split(cursor: str) -> tuple[int, str | None]:
    index, _, inner = cursor.partition(";")
    return int(index), inner or None
