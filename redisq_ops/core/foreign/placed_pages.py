"""Pages and counts of queues whose owner keeps each state in keys of its own.

A kind declares its `PlacedPages.states` and how records are `read`. Pages go place by place, in the
order in which entries are taken.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

from ..engine.queue import Queue
from ..model.cut_element import LARGEST, UNREAD
from ..model.entry import STATES, Checkup, Counts, Entry, Page, PageQuery, State
from ..model.errors import WrongKind
from ..model.quoting import bytes_of, legal, shown, text
from ..model.states import FIXED
from ..redis.key_scan import Lane, literal, look
from ..redis.operation import (
    C_co,
    Call,
    attempt_read,
    coroutine_of,
    operation,
    together,
)
from ..redis.parsers import moment
from ..redis.whole_keys import set_members, types_of
from .base import ForeignQueue
from .declarations import Declared, Hash, List, Set, Zset
from .json_text import decoded, text_member
from .kept_entries import kept
from .keys import ForeignKeys
from .list_place import ListPlace
from .long_records import few, not_read
from .paging import entries_of, latest_of, page_of, through, with_unread
from .places import GatheredPlace, LocatedEntry, Place, Read, Row, digest
from .record_sizes import field_sizes
from .scanned_place import ScannedPlace
from .watched_code import guarded

PAGE = 500
LOOKED_AT = 100_000
"""keys of the server that are searched for keys of an unknown state"""
COUNTED = 1 << 20
"""a shared place of at most so many bytes is read to count one queue's entries"""
T = TypeVar("T")


@cache
def _kinds(layout: type[PlacedPages[Any]]) -> frozenset[tuple[str, str]]:
    part_of = {theirs: part for part, theirs in layout.called.items()}
    theirs = {part_of.get(key, f"t_{key}"): kind for key, kind in layout.theirs.items()}
    return frozenset((FIXED | layout.key_types | theirs).items())


class PlacedPages(ForeignQueue[C_co]):
    """One queue of a deployment; without a queue's name, the whole deployment."""

    states: ClassVar[Mapping[State, Sequence[Declared]]] = {}
    """where each state is kept, in the order in which entries are shown; a state that is missing
    here is unknown"""
    key_types: ClassVar[dict[str, str]] = {"was": "hash", "purged": "hash"}
    checked: ClassVar[Sequence[State]] = ("waiting", "pending", "delayed", "dead", "trash")
    checked_most: ClassVar[float] = 20_000
    enveloped: ClassVar[bool] = False
    bounds_pages: ClassVar[bool] = True
    holds_payloads: ClassVar[bool] = False
    """whether the owner's elements are, or have, payloads; else they are ids"""
    screens: ClassVar[int] = 4
    """pages read for one window of a place that all queues share"""
    theirs: ClassVar[dict[str, str]]
    """the owner's fixed keys, with their types; the first set is the set of queues"""
    workers_at: ClassVar[str] = ""
    """the owner's key that lists workers, or stands for that list; ``{q}`` as in `Declared.key`"""
    paused_by: ClassVar[tuple[str, str] | None] = None
    """the owner's key that is there while the queue is paused (``{q}`` as in `Declared.key`), and
    what is said then"""
    task_in: ClassVar[tuple[str, ...]] = ()
    """members of payloads that are JSON objects: the first one that is there names the entry's
    task. The task's arguments are in the members `ARGUMENTS`"""
    known_keys: ClassVar[tuple[str, bytes] | None] = None
    """the pattern of a queue's lists, sets and sorted sets (``{q}`` as in `Declared.key`), and a
    regex for what stands for its ``*``. A key that matches only the pattern is of an unknown state:
    it isn't counted"""
    called: ClassVar[Mapping[str, str]] = {}
    """the owner's keys that scripts don't call ``t_KEY``: name in scripts -> key"""

    keys: ForeignKeys

    def _keys(self, name: str) -> ForeignKeys:
        return ForeignKeys(self.at, name, self.prefix, self.called)

    # --- what a kind declares --------------------------------------------------------------------

    @abstractmethod
    async def read(self, state: State, place: Place, rows: Sequence[Row]) -> Sequence[Entry | None]:
        """The entries of elements, in one exchange; None for an element of another queue."""

    sizes: ClassVar[Any] = None
    """the `Sizes` of a kind whose records are not in its places"""

    def trash_payload(self, kept: bytes) -> bytes:
        """The payload to show for an entry in the trash; ``kept``: the bytes kept of it."""
        return kept

    def task_of(self, payload: bytes) -> str | None:
        """The name of an entry's task, by its payload; None: unknown."""
        return text_member(decoded(payload), self.task_in) if self.task_in else None

    async def workers_of(self) -> Sequence[str]:
        """The values of ``{worker}`` in keys of `states`."""
        return ()

    def name_of(self, element: bytes) -> bytes:
        """The queue's name in an element of the owner's set of queues."""
        return element

    async def paused_there(self) -> str | None:
        """The owner's own pause of the queue, in words; None: it isn't paused."""
        if self.paused_by is None:
            return None
        key = self.at + self.paused_by[0].replace("{q}", self.own_name)
        return self.paused_by[1] if await Call(("EXISTS", key), bool, key=key) else None

    def _shared(self, state: State) -> bool:
        """Whether the owner keeps entries of that state in one place for all its queues."""
        return False

    async def _done(self) -> int | None:
        """How many entries are done, by a counter of the owner's; None: unknown."""
        return None

    @property
    def next_end(self) -> str:
        """The end of the lists of waiting entries where the next one is taken."""
        first = self.states["waiting"][0]
        return first.next if isinstance(first, List) else "LEFT"

    @property
    def process_registry(self) -> str:
        """As in `HasWorkerTraces`, for a kind that lists workers."""
        return self.at + self.workers_at.replace("{q}", self.own_name)

    # --- the queue's keys ------------------------------------------------------------------------

    @property
    def _all_key_types(self) -> frozenset[tuple[str, str]]:
        """(name in scripts, type) of our keys and of the owner's."""
        return _kinds(type(self))

    def _their_keys(self) -> dict[str, str]:
        return {self.at + key: kind for key, kind in self.theirs.items()}

    @operation
    async def exists(self) -> bool:
        wanted = self._their_keys()
        kinds = await types_of(wanted)
        if not self.own_name:
            return any(kinds[key] == kind for key, kind in wanted.items())
        if await attempt_read(self._listed()) is True:
            return True
        places = {
            state: await self._of_owner(state, None, False)
            for state, keys in self.states.items()
            if keys
        }
        found = await types_of(place.key for of_state in places.values() for place in of_state)
        sound = [
            (place, self._shared(state))
            for state, of_state in places.items()
            for place in of_state
            if found[place.key] == place.kind
        ]
        if not all(shared for _, shared in sound):
            return True
        # Of a place that all queues share, only the first page is searched.
        windows = await together(place.window(0, PAGE) for place, _ in sound)
        return any(rows for rows, _ in windows)

    async def _listed(self) -> bool:
        return self.own_name in await self.names.op()

    async def _expected_types(self) -> dict[str, str]:
        ours = {self.keys[part]: kind for part, kind in (FIXED | self.key_types).items()}
        return ours | await self._owners_types()

    async def _owners_types(self) -> dict[str, str]:
        """The owner's keys of this queue, with their types."""
        kinds = self._their_keys()
        for state in self.states if self.own_name else ():
            places = await self.places_of(state, [self.own_name])
            kinds |= {place.key: place.kind for place in places}
        return kinds

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        found = await Queue.checkup(self, thorough)
        if not thorough or self.known_keys is None or not self.own_name:
            return found
        pattern, known = self.known_keys
        before, _, after = (self.at + pattern.replace("{q}", self.own_name)).partition("*")
        match = bytes_of(f"{literal(before)}*{literal(after)}")
        types = ("list", "set", "zset")
        keys, unseen = await look(self.client, [Lane(each, match) for each in types], LOOKED_AT)
        names = re.compile(
            re.escape(bytes_of(before)) + b"(?:" + known + b")" + re.escape(bytes_of(after)), re.S
        )
        flaws = (
            f"key {text(key)} is of a state that this release of redisq doesn't know: what is in it"
            " is not counted"
            for key in keys
            if not names.fullmatch(key)
        )
        left_out = "; ".join(filter(None, (found.unseen, unseen))) or None
        return replace(found, flaws=(*found.flaws, *flaws), unseen=left_out)

    # --- where entries are -----------------------------------------------------------------------

    async def _places(
        self, state: State, wrong: list[str] | None = None, whole: bool = True
    ) -> list[Place]:
        """Where the entries of a state are, in the order in which they are shown.

        With ``wrong``, the error of a place that can't be read is added there, and the place reads
        as empty. ``whole``: as in `Place`.
        """
        if state == "trash":
            found = [self._own_trash()]
        else:
            found = await self._of_owner(state, wrong, whole)
        if wrong is None:
            return found
        sizes = await together(self._unless(place.count(), None, wrong) for place in found)
        return [
            GatheredPlace() if size is None else place
            for place, size in zip(found, sizes, strict=True)
        ]

    async def _of_owner(self, state: State, wrong: list[str] | None, whole: bool) -> list[Place]:
        """Where the owner keeps a state; as for `_places`."""
        names = await self._unless(self._queues(), [], wrong)
        return await self._unless(guarded(self.kind, self.places_of(state, names)), [], wrong)

    async def places_of(self, state: State, names: Sequence[str]) -> list[Place]:
        """The declared places of a state, for the owner's queues of these names. A key that is
        declared with several types is read as the type that it has."""
        declared = self.states.get(state, ())
        needed = any("{worker}" in one.key for one in declared)
        workers = await self.workers_of() if needed else ()
        found = [
            self._place(state, one, key)
            for one in declared
            for key in dict.fromkeys(
                one.key.replace("{q}", name).replace("{worker}", worker)
                for name in (names if "{q}" in one.key else ("",))
                for worker in (workers if "{worker}" in one.key else ("",))
            )
        ]
        declared_as: dict[str, list[Place]] = {}
        for place in found:
            declared_as.setdefault(place.key, []).append(place)
        if len(declared_as) == len(found):
            return found
        types = await types_of(key for key, places in declared_as.items() if len(places) > 1)
        return [
            next((place for place in places if place.kind == types.get(key)), places[0])
            for key, places in declared_as.items()
        ]

    def _place(self, state: State, declared: Declared, key: str) -> Place:
        at, called, read = self.at + key, declared.called, self._reader(state)
        sizes = self.sizes
        if isinstance(declared, List):
            return ListPlace(at, called, read, sizes=sizes, reverse=declared.next == "RIGHT")
        if isinstance(declared, Set):
            return ScannedPlace(at, called, read, sizes=sizes)
        if isinstance(declared, Hash):
            return ScannedPlace(at, called, read, "hash", sizes=sizes)
        return Place(at, called, read, sizes=sizes)

    def _reader(self, state: State) -> Read:
        """`read` for the places of a state, without elements that are too long."""

        async def read(place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]:
            short = [row for row in rows if row.length <= LARGEST]
            found = await guarded(self.kind, self.read(state, place, short)) if short else ()
            if len(short) == len(rows):
                return found
            entries = iter(found)
            return [
                next(entries) if row.length <= LARGEST else self._too_long(state, place, row)
                for row in rows
            ]

        return read

    def _too_long(self, state: State, place: Place, row: Row) -> Entry:
        """The entry of an element that is too long to be read: the server can't send a part."""
        why = not_read(row.length) + ("; its queue is unknown" if self._shared(state) else "")
        return Entry(UNREAD + digest(row.member), state, called=place.called, problem=why)

    def _own_trash(self) -> Place:
        read = kept(self._trashed, self.keys["purged"], self.keys["was"])
        sizes = field_sizes(self.keys["purged"])
        return Place(self.keys["trash"], "purged", read, "trash", sizes=sizes)

    @operation
    async def names(self) -> list[str]:
        """The deployment's queues, by name; none where no key lists them."""
        for key, kind in self.theirs.items():
            if kind == "set":
                found = await set_members(self.at + key)
                return sorted(text(self.name_of(name)) for name in found)
        return []

    @staticmethod
    async def _unless(what: Coroutine[Any, Any, T], empty: T, wrong: list[str] | None) -> T:
        """What is read. With ``wrong``, the error of a key of another type is added there, and the
        key reads as empty."""
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
        """Whether this object stands for the owner's queue of that name."""
        if self.own_name:
            return name == self.own_name
        return not (isinstance(name, str) and name in self.beside)

    def _name_of(self, name: str) -> str:
        """What a queue of the deployment is called here."""
        return f"{self.kind}:{legal(bytes_of(name))}"

    def _trashed(
        self, place: Place, payload: bytes, score: float, name: bytes, kept: bytes
    ) -> Entry | None:
        readable = self.trash_payload(payload) if payload else None
        # A MessagePack array whose first item is the operation's name.
        op = re.match(rb"[\x90-\x9f](?:[\xa0-\xbf]|\xd9.)([!-~]+)", kept, re.S)
        return Entry(
            shown(text(name)),
            "trash",
            at_ms=moment(score),
            since_ms=moment(score),
            payload=readable,
            failures=self._failures(payload),
            op=op[1].decode() if op else None,
            called=place.called,
            task=None if readable is None else self.task_of(readable),
        )

    def _failures(self, payload: bytes) -> int:
        """How often an entry in the trash has failed, by what is kept of it."""
        return 0

    # --- pages -----------------------------------------------------------------------------------

    def _bounded_page(self, state: State, query: PageQuery) -> Coroutine[Any, Any, Page]:
        return self._page(state, query)  # places ask for sizes, or cut elements

    async def _page(self, state: State, query: PageQuery) -> Page:
        """As for every queue. In a place that all queues share, one queue's entries are found by
        reading: at most 10,000 members a page (2,000 a window). Then ``total`` is how many entries
        were found, and not ``exact`` while there is more to read. If a key has another type, the
        rest is shown."""
        if state == "done" and state not in self.states:
            return Page((), None, 0)
        try:
            return await self._page_of(state, query)
        except WrongKind:
            wrong: list[str] = []
            rest = await self._page_of(state, query, wrong)
            return replace(rest, exact=False, problem=named(wrong))

    def ranked(self, state: State) -> bool:
        declared = self.states.get(state, ())
        several = len(declared) > 1 or (not self.own_name and any("{q}" in d.key for d in declared))
        return self._shared(state) or not several

    @operation
    async def latest(
        self,
        state: State,
        max: int = 100,
        payloads: bool = False,
        glance: bool = False,
        *,
        number: int | None = None,
    ) -> Page:
        if self.ranked(state):
            return await super().latest.op(state, max, payloads, glance, number=number)
        query = PageQuery(max=max, payloads=payloads, glance=glance, latest=True)
        return await self._bounded_page(state, query)

    async def _page_of(
        self, state: State, query: PageQuery, wrong: list[str] | None = None
    ) -> Page:
        whole = query.payloads or not query.glance
        places = await self._weighed(await self._places(state, wrong, whole))
        places = [replace(place, whole=whole, payloads=not query.brief) for place in places]
        if not self._shared(state):
            page = await (latest_of if query.latest else page_of)(places, query)
            if any(place.problem for place in places):
                page = replace(page, exact=False)
            if long := [place.too_long for place in places if place.too_long]:
                page = replace(page, exact=False, problem=named(long))
            mean = max((place.mean for place in places), default=0)
            return with_unread(page, state, query, few(query.max, mean), mean)
        if query.start is not None:
            return await self._picked(places, query.start, query.max)
        found, on = await through(places, query, PAGE)
        long = [place.too_long for place in places if place.too_long]
        entries = entries_of(found)
        unsure = long or any(entry.unread for entry in entries)
        exact = query.cursor is None and on is None and not unsure
        return Page(entries, on, len(found), exact, problem=named(long))

    async def _weighed(self, places: Sequence[Place]) -> list[Place]:
        """The places, with the size of their elements where these may be large."""
        if not self.holds_payloads:
            return list(places)
        return await together(place.weighed() for place in places)

    async def _picked(self, places: Sequence[Place], start: int, max: int) -> Page:
        """This queue's entries by rank, from the first pages of places that all queues share."""
        found: list[LocatedEntry] = []
        exact = True
        for place in places:
            inner = None
            for _ in range(self.screens if place.few(PAGE) == PAGE else 1):
                rows, inner, _ = await place.after(inner, PAGE)
                found += rows
                if inner is None:
                    break
            exact = exact and inner is None
        return Page(entries_of(found[start : start + max]), None, len(found), exact)

    # --- counts ----------------------------------------------------------------------------------

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """As for every queue. Unknown: this queue's entries in a place that all queues share, if
        the place has more than 500; and entries in a key of another type."""
        try:
            return await self._counts(None)
        except WrongKind:
            return await self._counts([])

    async def _counts(self, wrong: list[str] | None) -> Counts:
        states: list[State] = [*self.states, "trash"]
        lost: dict[State, list[str]] = {state: [] for state in states}
        places = await together(
            self._places(state, None if wrong is None else lost[state], whole=False)
            for state in states
        )
        sizes, done, flags, oldest_ms = await together(
            together(self._size(state, found) for state, found in zip(states, places, strict=True)),
            self._done(),
            self._flags(),
            self._oldest_ms(places[states.index("waiting")]),
        )
        known = {
            state: size
            for state, size in zip(states, sizes, strict=True)
            if size is not None and not lost[state]
        }
        problems = [problem for state in states for problem in lost[state]]
        problems += [place.problem for found in places for place in found if place.problem]
        paused, closed = flags
        misfits = None if wrong is None else problems
        paused_there, only_shown = await together(
            self._unless(self.paused_there(), None, misfits),
            self._unless(coroutine_of(self.only_shown.op()), None, misfits),
        )
        if done is not None:
            known["done"] = done
        # What can be read of an unknown state is a lower bound.
        of = {state: size or 0 for state, size in zip(states, sizes, strict=True)} | known
        return Counts(
            **{state: of.get(state, 0) for state in STATES},
            oldest_ms=oldest_ms,
            paused=paused or paused_there,
            closed=closed,
            unknown=frozenset(STATES) - known.keys(),
            problem=named(problems),
            only_shown=only_shown,
        )

    async def _size(self, state: State, places: Sequence[Place]) -> int | None:
        """How many entries are in these places; None: it isn't known which are this queue's, too
        many are shared to read them all, or they are too large."""
        if any(place.problem for place in places):
            return None
        if not self._shared(state):
            return sum(await together(place.count() for place in places))
        places, sizes = await together(
            self._weighed(places), together(place.count() for place in places)
        )
        bytes_ = sum(place.mean * size for place, size in zip(places, sizes, strict=True))
        if max(sizes, default=0) > PAGE or bytes_ > COUNTED:
            return None
        rows = await together(
            place.window(0, PAGE) for place, size in zip(places, sizes, strict=True) if size
        )
        entries = [seen.entry for found, _ in rows for seen in found]
        return None if any(entry.unread for entry in entries) else len(entries)

    async def _oldest_ms(self, waiting: Sequence[Place]) -> int | None:
        """When the oldest waiting entry began to wait; None: the kind's records don't say."""
        return None

    @operation
    async def due_counts(self, edges: Sequence[int]) -> list[int]:
        """As for every queue; if all queues share the sets, the counts are those of all queues."""
        names = await self._queues()
        sets = {
            self.at + one.key.replace("{q}", name): one.unit_ms
            for one in self.states.get("delayed", ())
            for name in (names if "{q}" in one.key else ("",))
            if isinstance(one, Zset) and one.ready
        }
        spans = list(pairwise(edges))
        found = await together(
            Call(("ZCOUNT", key, low / unit, f"({high / unit}"), int, key=key)
            for key, unit in sets.items()
            for low, high in spans
        )
        return [sum(found[n :: len(spans)]) for n in range(len(spans))]


def named(wrong: Sequence[str]) -> str | None:
    """These problems as one text, each once; None: there are none."""
    return "; ".join(dict.fromkeys(wrong)) or None
