"""What is seen of the layouts of Resque and Sidekiq.

Pages are read by place, in the order in which jobs are taken. An entry is found by its id where no
key leads to it by reading lists, 10,000 deep from either end.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

from ...engine.idempotency import CallerSlots
from ...engine.optional_features import HasWorkerProcesses
from ...engine.reads import recent_consumers
from ...model.clock import Clock
from ...model.entry import Counts, Entry, Page, State
from ...model.errors import WrongKind
from ...model.keys import PREFIX
from ...model.queue_position import Ahead, QueuePosition, joined
from ...model.quoting import bytes_of, legal, text
from ...model.states import FIXED
from ...redis.operation import C_co, Call, Description, attempt, both, operation, together
from ...redis.parsers import moment
from ..base import ForeignQueue
from .places import Beside, LocatedEntry, Place, reachable

PAGE = 500
PAGES = 20
"""pages read for one page of a set that all queues share"""
SCREENS = 4
"""pages read for one window of such a set"""
STATES: tuple[State, ...] = ("pending", "trash", "delayed", "dead", "waiting")
T = TypeVar("T")


@cache
def _kinds(layout: type[ListLooks[Any]]) -> frozenset[tuple[str, str]]:
    names = {"workers:heartbeat": "heartbeats"}
    theirs = {f"t_{names.get(part, part)}": kind for part, kind in layout.theirs.items()}
    return frozenset((FIXED | layout.key_types | theirs).items())


class ListLooks(ForeignQueue[C_co], HasWorkerProcesses[C_co]):
    """A queue as Resque or Sidekiq keeps it; named without one, their whole deployment."""

    package: ClassVar[str] = "foreign.resque"
    side: ClassVar[Literal["LEFT", "RIGHT"]]
    """the end of a list where the next job is taken"""
    pause: ClassVar[str]
    """the owner's key that says what is paused"""
    key_types: ClassVar[dict[str, str]] = dict.fromkeys(("body", "lost", "was", "purged"), "hash")
    theirs: ClassVar[dict[str, str]]
    """the owner's fixed keys, with their types; the set of queues comes first"""
    stops_at: ClassVar[str] = ""
    """what an element that is no job does to the owner's own workers; empty: nothing bad"""
    unit: ClassVar[str] = ""
    """how the server adds its time to a new job's record"""

    def __init__(
        self,
        client: C_co,
        name: str,
        *,
        at: str | None = None,
        prefix: str = PREFIX,
        clock: Clock | None = None,
        callers: CallerSlots | None = None,
    ) -> None:
        super().__init__(client, name, at=at, prefix=prefix, clock=clock, callers=callers)
        self.keys: Beside = self._keys(self.name)
        self._left_off: dict[State, tuple[int, str | None]] = {}
        """where looking for ids ended: a bulk change asks for them in the order of the pages"""

    def _keys(self, name: str) -> Beside:
        return Beside(self.at, name, self.prefix, self.pause)

    @property
    def list_key(self) -> str:
        """The owner's list of this queue."""
        return self.keys["t_queue_"] + self.own_name

    # --- being there ---------------------------------------------------------------------------

    @property
    def _all_key_types(self) -> frozenset[tuple[str, str]]:
        """Ours and the owner's, by the names that scripts have for them."""
        return _kinds(type(self))

    def _their_keys(self) -> dict[str, str]:
        return {self.keys[f"t_{part}"]: kind for part, kind in self.theirs.items()}

    @operation
    async def exists(self) -> bool:
        if self._registered:
            return True
        wanted = self._their_keys()
        kinds = await _types(wanted)
        if not self.own_name:
            return any(kinds[key] == kind for key, kind in wanted.items())
        known = self.keys["t_queues"]
        if kinds[known] == "set" and await Call(
            ("SISMEMBER", known, self.own_name), bool, key=known
        ):
            return True
        # A list that isn't in the set is a queue all the same: both programs would serve it. So is
        # what only has jobs to come: those due first are in the first page.
        if (await _types([self.list_key]))[self.list_key] == "list":
            return True
        return bool(await self._first_of_sets(kinds))

    async def _first_of_sets(self, kinds: dict[str, str]) -> list[LocatedEntry]:
        """This queue's entries in the first page of what all share, where the type is right."""
        places = [*await self._places("delayed"), *await self._places("dead")]
        sound = [p for p in places if kinds.get(p.key) == p.kind]
        found = await together(place.window(0, PAGE) for place in sound)
        return [seen for rows, _ in found for seen in rows]

    async def _wrong_type_keys(self) -> list[tuple[str, str, str]]:
        """Keys that are of another type than the layout has: (key, its type, what it should be)."""
        kinds = {self.keys[part]: kind for part, kind in (FIXED | self.key_types).items()}
        kinds |= self._their_keys()
        if self.own_name:
            kinds[self.list_key] = "list"
        found = await _types(kinds)
        return [(k, is_, kinds[k]) for k, is_ in found.items() if is_ not in ("none", kinds[k])]

    async def _refuse_wrong_types(self) -> None:
        for key, is_, kind in await self._wrong_type_keys():
            raise WrongKind(f"key {key} is a {is_} where queue {self.name} has a {kind}")

    # --- what the owner's records say ----------------------------------------------------------

    @abstractmethod
    def id_of(self, payload: bytes) -> str:
        """The id under which a job's record is shown."""

    @abstractmethod
    def _failures(self, payload: bytes) -> int: ...

    @abstractmethod
    def _waiting(
        self, place: Place, payload: bytes, score: float, name: bytes = b"", kept: bytes = b""
    ) -> Entry | None: ...

    def _held(
        self, place: Place, payload: bytes, score: float, name: bytes = b"", kept: bytes = b""
    ) -> Entry | None:
        """What one of our workers has; ``kept`` is its line of `record.lua`."""
        id, at = self.id_of(payload), moment(score)
        try:
            receipt, _, lost, first, since, consumer, op, _, _ = kept.decode().split(" ")
            return Entry(
                id, "pending", at_ms=at, since_ms=int(since), payload=payload,
                failures=self._failures(payload), lost=int(lost), first_ms=int(first),
                consumer=consumer, receipt=receipt, op=None if op == "-" else op,
                called=place.called,
            )  # fmt: skip
        except ValueError:
            said = f"the record of {id} is corrupt"
            return Entry(id, "pending", at, payload=payload, called=place.called, problem=said)

    def _trashed(
        self, place: Place, payload: bytes, score: float, name: bytes = b"", kept: bytes = b""
    ) -> Entry | None:
        # MessagePack, an array of which the first is the operation's name.
        op = re.match(rb"[\x90-\x9f](?:[\xa0-\xbf]|\xd9.)([!-~]+)", kept, re.S)
        return Entry(
            text(name), "trash", at_ms=moment(score), since_ms=moment(score), payload=payload,
            failures=self._failures(payload), op=op[1].decode() if op else None,
            called=place.called,
        )  # fmt: skip

    # --- looking -------------------------------------------------------------------------------

    async def _places(self, state: State, wrong: list[str] | None = None) -> list[Place]:
        """Where the entries of a state lie, in the order in which they are shown.

        With ``wrong`` places that can't be read are named there, and read as empty.
        """
        if state == "trash":
            found = [self._own_trash()]
        elif state == "waiting":
            found = [self._list(name) for name in await self._unless(self._queues(), [], wrong)]
        elif state == "pending":
            names, busy = await both(
                self._unless(self._queues(), [], wrong), self._unless(self._busy(), (), wrong)
            )
            found = [*map(self._holding, names), self._gathered(busy)]
        else:
            found = await self._of_owner(state, wrong)
        if wrong is None:
            return found
        sizes = await together(self._unless(place.count(), None, wrong) for place in found)
        return [
            self._gathered(()) if size is None else place
            for place, size in zip(found, sizes, strict=True)
        ]

    @abstractmethod
    async def _of_owner(self, state: State, wrong: list[str] | None) -> list[Place]:
        """Where the owner keeps what is delayed or dead."""

    @abstractmethod
    async def _busy(self) -> list[LocatedEntry]:
        """What the owner's own workers have."""

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

    @operation
    async def names(self) -> list[str]:
        """The deployment's queues, by name."""
        key = self.keys["t_queues"]
        return sorted(name.decode("utf-8", "surrogateescape") for name in await of_set(key))

    async def _queues(self) -> list[str]:
        if self.own_name:
            return [self.own_name]
        return [name for name in await self.names.op() if name not in self.beside]

    def _means(self, name: object) -> bool:
        """Whether what its owner has in the queue of that name is meant."""
        if self.own_name:
            return name == self.own_name
        return not (isinstance(name, str) and name in self.beside)

    def _list(self, name: str) -> Place:
        return Place(
            "list", self.keys["t_queue_"] + name, "enqueued", self._waiting, self.keys,
            reverse=self.side == "RIGHT",
        )  # fmt: skip

    def _holding(self, name: str) -> Place:
        """What our workers have of a queue."""
        mine = name == self.own_name
        keys = self.keys if mine else self._keys(self._name_of(name))
        return Place("held", keys["lease"], "busy", self._held, keys)

    def _name_of(self, name: str) -> str:
        """What a queue of the deployment is called here."""
        return f"{self.kind}:{legal(bytes_of(name))}"

    def _gathered(self, rows: Sequence[LocatedEntry]) -> Place:
        return Place("busy", "", "busy", self._waiting, self.keys, rows=rows)

    def _own_trash(self) -> Place:
        return Place("trash", self.keys["trash"], "purged", self._trashed, self.keys)

    def _shared(self, state: State) -> bool:
        """Whether this queue's entries of that state lie among those of others."""
        return bool(self.own_name or self.beside) and state in ("delayed", "dead")

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
        if state == "done":
            return Page((), None, 0)
        try:
            return await self._page(state, cursor, max, start)
        except WrongKind:
            wrong: list[str] = []
            rest = await self._page(state, cursor, max, start, wrong)
            return replace(rest, exact=False, problem=_named(wrong))

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
            window = self._picked if shared else self._window
            return await window(places, start, max)
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
        """Entries by rank among those that belong here, of what the first pages show."""
        found: list[LocatedEntry] = []
        exact = True
        for place in places:
            inner = None
            for _ in range(SCREENS):
                rows, inner, _ = await place.after(inner, PAGE)
                found += rows
                if inner is None:
                    break
            exact = exact and inner is None
        rows = found[start : start + max]
        return Page(tuple(seen.entry for seen in rows), None, len(found), exact)

    async def _counts_of_the_rest(self) -> Counts:
        """What is known beside a key of another type."""
        numbers: dict[State, int] = {}
        unknown: set[State] = set()
        said: list[str] = []
        for state in STATES:
            wrong: list[str] = []
            places = await self._places(state, wrong)
            if self._shared(state):
                n = await self._of_small(places)
            else:
                n = sum(await together(place.count() for place in places))
            numbers[state] = n or 0
            said += wrong
            if wrong or n is None:
                unknown.add(state)
        done = None if self.own_name or self.beside else await self._done()
        if done is None:
            unknown.add("done")
        paused, closed = await self._flags()
        paused = paused or await self._unless(self._paused_there(), None, said)
        return Counts(
            **numbers, done=done or 0, paused=paused, closed=closed, unknown=frozenset(unknown),
            problem=_named(said),
        )  # fmt: skip

    @abstractmethod
    async def _paused_there(self) -> str | None:
        """Whether the owner's own mark pauses it, in words."""

    async def _done(self) -> int | None:
        """What the owner counted, less what failed; None where its counters say nothing."""
        keys = [self.keys["t_stat_"] + name for name in ("processed", "failed")]
        calls = (Call(("GET", key), lambda reply: int(reply or 0), key=key) for key in keys)
        numbers = [n for n in await together(map(attempt, calls)) if not isinstance(n, Exception)]
        return max(0, numbers[0] - numbers[1]) if len(numbers) == 2 else None

    async def _of_small(self, places: Sequence[Place]) -> int | None:
        """How many entries of shared places belong here; None: a place is too big to read it."""
        sizes = await together(place.count() for place in places)
        if max(sizes, default=0) > PAGE:
            return None
        rows = await together(
            place.window(0, PAGE) for place, size in zip(places, sizes, strict=True) if size
        )
        return sum(len(found) for found, _ in rows)

    @operation
    async def get(self, id: str) -> Entry | None:
        """As every queue's; a list is looked through 10,000 deep from either end. Nothing is said
        not to be there while a state can't be read."""
        found = await together(attempt(self._located([id], state, False)) for state in STATES)
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
        beat last. A list is looked through as far as `get` does."""
        wrong: list[str] = []
        (askers, now), (processes, found) = await both(
            both(self._recent_consumers(), self._now()),
            both(
                self._unless(self.worker_processes.op(), [], wrong),
                self._located([id] if id else [], "waiting", False),
            ),
        )
        serving = [p for p in processes if p.alive and not p.quiet and self._serves(p.queues)]
        beats = [now - p.silent_ms for p in serving if p.silent_ms is not None]
        asked = max([*beats, *([] if askers.asked_ms is None else [askers.asked_ms])], default=None)
        seen = None if wrong else (askers.askers or 0) + len(serving)
        known = replace(askers, asked_ms=asked, askers=seen)
        if not found[id]:
            return known
        before = int(found[id][0].score)
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
            strike(await self._own_trash().named(list(missing)))
            return found
        places = await self._places(state)
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

    def _trait(self, id: str) -> str:
        """Something that the bytes of every entry of that id contain; '' if nothing is known."""
        return ""


async def of_set(key: str) -> list[bytes]:
    """The members of a set, by pages."""
    found: list[bytes] = []
    cursor = 0
    while True:
        cursor, part = await Call(("SSCAN", key, cursor, "COUNT", 500), tuple[int, Any], key=key)
        found += part
        if not cursor:
            return list(dict.fromkeys(found))


def _named(wrong: Sequence[str]) -> str | None:
    """What can't be read, each key once."""
    return "; ".join(dict.fromkeys(wrong)) or None


async def _types(keys: Any) -> dict[str, str]:
    names = list(keys)
    found = await together(Call(("TYPE", key), bytes.decode, key=key) for key in names)
    return dict(zip(names, found, strict=True))


def _split(cursor: str) -> tuple[int, str | None]:
    index, _, inner = cursor.partition(";")
    return int(index), inner or None
