"""Queues whose owner keeps each state in keys of its own: entries are found by their ids.

Pages and counts: `placed_pages`. Where an entry's id doesn't lead to its key, lists are read for
it, 10,000 deep from either end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

from ..engine.optional_features import HasWorkerProcesses
from ..engine.reads import recent_consumers
from ..model.activity import FAR_MS, Activity, ConsumerSign
from ..model.cut_element import UNREAD
from ..model.entry import Entry, State
from ..model.errors import WrongKind
from ..model.queue_position import Ahead, QueuePosition, joined
from ..model.quoting import legal, raw_of, stored
from ..model.worker_process import Process
from ..redis.operation import C_co, Call, attempt, operation, together
from .declarations import Zset
from .list_place import DEPTH, reachable
from .placed_pages import PAGE, PlacedPages, named
from .places import LocatedEntry, Place, Read, Row

FEW = 20
"""ids that are looked up in a list one by one; for more of them the list is read"""
GLANCED = 200
"""the same for a glance, which would read the records of all that it passes"""
NEW_DEAD = 100
"""latest dead entries whose times are read, where their scores don't tell when they died"""
SEARCHED: tuple[State, ...] = ("pending", "trash", "delayed", "dead", "waiting")


class _Wanted:
    """Entries that are looked for by their ids."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.missing = Counter(id for id in ids if not id.startswith(UNREAD))
        self.found: defaultdict[str, list[LocatedEntry]] = defaultdict(list)
        """by id; under `UNREAD` the last entry met whose id is unknown"""
        self._known: set[tuple[str, bytes, int]] = set()
        """where found entries were read: a second round meets them again"""

    def among(self, rows: Sequence[LocatedEntry]) -> list[bool]:
        """For each row, whether it is looked for; such a row counts as found from now on."""
        return [self._takes(seen) for seen in rows]

    def _takes(self, seen: LocatedEntry) -> bool:
        id, which = seen.entry.id, (seen.place.key, seen.member, seen.at)
        if id.startswith(UNREAD):
            self.found[UNREAD] = [seen._replace(member=b"")]  # its bytes are too many to keep
        if id not in self.missing or which in self._known:
            return False
        self._known.add(which)
        self.found[id].append(seen)
        self.missing[id] -= 1
        if not self.missing[id]:
            del self.missing[id]
        return True


class PlacedQueue(PlacedPages[C_co]):
    """One queue of a deployment; without a queue's name, the whole deployment."""

    @cached_property
    def _left_off(self) -> dict[tuple[State, bool], tuple[int, str | None]]:
        """Where the last search for ids ended, by state and by `Place.brief`. A bulk change, and
        the look at its entries before it, ask for ids in the order of the pages."""
        return {}

    def typed_id(self, words: str) -> str:
        """Ids have no parts here, so a slash needn't be quoted."""
        return legal(raw_of(words))

    async def job_ids(self, place: Place, members: Sequence[bytes]) -> Sequence[bytes | None]:
        """The id of each element of a place whose records are elsewhere; None: it is no entry."""
        return members

    async def members(self, place: Place, ids: Sequence[str]) -> Sequence[bytes]:
        """The elements of a place that have these ids, of a kind that finds entries `by_id`."""
        return [raw_of(id) for id in ids]

    @operation
    async def get(self, id: str) -> Entry | None:
        """As for every queue; a list is searched 10,000 deep from either end. Raises `WrongKind`
        for an id that isn't found while a state, or an element, can't be read."""
        states = dict.fromkeys((*SEARCHED, *self.states))
        found = await together(
            attempt(self._located([id], state, False, False)) for state in states
        )
        for rows in found:
            if not isinstance(rows, Exception) and rows[id]:
                return rows[id][0].entry
        for unread in found:
            if isinstance(unread, Exception):
                raise unread
            for seen in unread[UNREAD]:
                raise WrongKind(f"an element of key {seen.place.key} is {seen.entry.problem}")
        return None

    @operation
    async def get_many(self, ids: Sequence[str], likely: State | None = None) -> list[Entry | None]:
        """`get` for several ids: a state is read once for all of them, and only for those that
        weren't found before."""
        return await self._many(ids, likely, whole=True)

    @operation
    async def glance_many(
        self, ids: Sequence[str], likely: State | None = None
    ) -> list[Entry | None]:
        return await self._many(ids, likely, whole=False)

    @operation
    async def get_in(self, ids: Sequence[str], state: State) -> list[Entry | None]:
        found = await self._located(ids, state, onward=False, brief=False)
        return [found[id].pop(0).entry if found[id] else None for id in ids]

    async def _many(
        self, ids: Sequence[str], likely: State | None, *, whole: bool
    ) -> list[Entry | None]:
        found: dict[str, Entry] = {}
        wrong: Exception | None = None
        first: list[State] = [likely] if likely and likely in (*self.states, "trash") else []
        for state in dict.fromkeys((*first, *SEARCHED, *self.states)):
            missing = [id for id in dict.fromkeys(ids) if id not in found]
            if not missing:
                break
            rows = await attempt(
                self._located(missing, state, whole and state == likely, False, whole)
            )
            if isinstance(rows, Exception):
                wrong = wrong or rows
                continue
            found |= {id: rows[id][0].entry for id in missing if rows[id]}
            if rows[UNREAD] and wrong is None:
                seen = rows[UNREAD][0]
                wrong = WrongKind(f"an element of key {seen.place.key} is {seen.entry.problem}")
        if wrong is not None and not all(id in found for id in ids):
            raise wrong
        return [found.get(id) for id in ids]

    async def _get_waiting(self, id: str) -> Entry | None:
        return await self.get.op(id)

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        """As for every queue. Consumers are our own workers and the owner's processes that serve
        this queue, by their last heartbeat; unknown where these aren't listed. A list is searched
        as deep as by `get`."""
        wrong: list[str] = []
        askers, now, processes, found = await together(
            self._recent_consumers(),
            self._now(),
            self._unless(self._processes(), [], wrong),
            self._located([id] if id else [], "waiting", False, False),
        )
        serving = self._serving(processes)
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
        """Of a deployment, the consumers of all its queues: each queue has callers of its own."""
        own = await super()._recent_consumers()
        if self.own_name:
            return own
        names = await self.names.op()
        keys = [self._keys(self._name_of(name))["callers"] for name in names]
        return joined([own, *await together(map(recent_consumers, keys))])

    async def _processes(self) -> list[Process]:
        return await self.worker_processes.op() if isinstance(self, HasWorkerProcesses) else []

    @operation
    async def activity(self, since_ms: int, known_ms: int | None = None) -> Activity:
        """Whether our own workers or the owner's processes serve the queue. A process that its
        owner takes for alive counts as asking now. Unknown if the owner registers no processes."""
        beyond = together(
            self._beyond("dead", "died", since_ms),
            self._beyond("delayed", "ready", since_ms + FAR_MS),
            self._died_after(known_ms),
        )
        if not isinstance(self, HasWorkerProcesses):
            lately, far, (since, exact) = await beyond
            return Activity(
                dead_lately=lately, far_ahead=far, dead_since=since, dead_since_exact=exact
            )
        own, now, processes, (lately, far, (since, exact)) = await together(
            self._recent_consumers(), self._now(), self.worker_processes.op(), beyond
        )
        serving = len(self._serving(processes))
        return Activity(
            now if serving else own.asked_ms,
            (own.askers or 0) + serving,
            dead_lately=lately,
            registered=True,
            far_ahead=far,
            dead_since=since,
            dead_since_exact=exact,
            signs=tuple(
                ConsumerSign(p.name, None if p.silent_ms is None else now - p.silent_ms, gone=True)
                for p in processes
                if p.alive is False and p.work
            ),
        )

    async def _beyond(
        self, state: State, scores: Literal["died", "ready"], time_ms: int | None
    ) -> int | None:
        """How many entries of a state died, or become ready, after a time; None: the layout doesn't
        tell, or no time is given."""
        declared = self.states.get(state, ())
        told = [one for one in declared if isinstance(one, Zset) and getattr(one, scores)]
        if time_ms is None or not told or self._shared(state):
            return None
        if scores == "died" and len(told) < len(declared):
            return None
        if not self.own_name and any("{q}" in one.key for one in told):
            return None
        keys = [self.at + one.key.replace("{q}", self.own_name) for one in told]
        lows = [f"({time_ms / one.unit_ms!r}" for one in told]
        found = await attempt(
            together(
                Call(("ZCOUNT", key, low, "+inf"), int, key=key)
                for key, low in zip(keys, lows, strict=True)
            )
        )
        return None if isinstance(found, Exception) else sum(found)  # the counts say what is wrong

    async def _died_after(self, time_ms: int | None) -> tuple[int | None, bool]:
        """How many entries died after a time, and whether these are all of them; where scores don't
        tell, those of the latest ones."""
        told = await self._beyond("dead", "died", time_ms)
        if told is not None or time_ms is None:
            return told, True
        page = await attempt(self.latest.op("dead", NEW_DEAD, glance=True))
        if isinstance(page, Exception):
            return None, True
        return sum((entry.since_ms or 0) > time_ms for entry in page.entries), False

    def _serving(self, processes: Sequence[Process]) -> list[Process]:
        """The processes that take jobs of this queue now."""
        return [p for p in processes if p.alive and not p.quiet and self._serves(p.queues)]

    def _serves(self, queues: Sequence[str]) -> bool:
        return not self.own_name or self.own_name in queues or "*" in queues

    async def _located(
        self,
        ids: Sequence[str],
        state: State,
        onward: bool = True,
        brief: bool = True,
        whole: bool = True,
        bare: bool = False,
    ) -> defaultdict[str, list[LocatedEntry]]:
        """Where the entries of these ids are now, each id as often as ``ids`` has it; under
        `UNREAD`, an entry that the search met whose id is unknown.

        ``onward``: begin where the last search ended, as a bulk change goes through its pages.
        ``brief``, ``whole``: as in `Place`. ``bare``: without their records, only their ids and
        places.
        """
        wanted = _Wanted(ids)
        if state == "trash":
            labels = [stored(id).encode() for id in wanted.missing]
            wanted.among(await self._own_trash().of_members(labels))
            return wanted.found
        places = await self._weighed(await self._places_of_ids(state))
        places = [replace(place, brief=brief, whole=whole) for place in places]
        if bare:
            places = [replace(place, read=self._bare(state), sizes=None) for place in places]
        if self.by_id:
            places = [place for place in places if not await self._found_by_id(place, wanted)]
        long = [place.too_long for place in places if place.too_long]
        places = [place for place in places if not place.too_long]
        await self._look_through(places, wanted, (state, brief), onward)
        if wanted.missing and long:
            raise WrongKind(named(long) or "")
        return wanted.found

    async def _places_of_ids(self, state: State) -> list[Place]:
        """Places in which entries are looked for by their ids; their counts don't matter."""
        return await self._places(state)

    def _bare(self, state: State) -> Read:
        """Reads no records."""

        async def read(place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]:
            ids = await self.job_ids(place, [row.member for row in rows])
            called = place.called
            return [None if id is None else Entry(legal(id), state, called=called) for id in ids]

        return read

    async def _look_through(
        self, places: Sequence[Place], wanted: _Wanted, search: tuple[State, bool], onward: bool
    ) -> None:
        """Read pages until all is found, or every page was read. ``search``: its key in
        `_left_off`."""
        sizes = await together(place.count() for place in places)
        begin = self._left_off.get(search) if onward else None
        wrapped = begin is None
        index, inner = begin or (0, None)
        page = min(PAGE, max(FEW, wanted.missing.total()))
        while wanted.missing:
            if index >= len(places):
                if wrapped:
                    return
                wrapped, index, inner = True, 0, None
                continue
            place, size = places[index], sizes[index]
            if place.kind == "zset" and size > PAGE and (traits := self._traits(wanted)):
                for trait in traits:
                    wanted.among(await place.matching(trait))
                index, inner = index + 1, None
                continue
            rows, then, _ = await place.after(inner, page)
            page = min(2 * page, PAGE)
            asked = wanted.among(rows)
            if onward and any(asked):
                # Behind the last element that stays: those asked for will have left by then.
                last = len(asked) - asked[::-1].index(True)
                stay = [row for n, row in enumerate(rows[:last]) if not asked[n]]
                self._left_off[search] = index, place.behind(stay[-1]) if stay else inner
            inner = reachable(then, size) if place.kind == "list" else then
            index += inner is None

    def _traits(self, wanted: _Wanted) -> Sequence[str]:
        """For at most three ids: of each, a text that the bytes of its entry contain. Empty for
        more ids, or if one has no such text."""
        traits = [self._trait(id) for id in wanted.missing] if len(wanted.missing) <= 3 else []
        return traits if all(traits) else ()

    async def _has_depths(self, found: dict[str, list[LocatedEntry]], ids: Sequence[str]) -> bool:
        """Whether an entry that wasn't found may be deep inside a list, where nobody looked."""
        if all(len(found[id]) >= n for id, n in Counter(ids).items()):
            return False
        lists = [p for p in await self._places("waiting") if p.kind == "list"]
        sizes = await together(place.count() for place in lists)
        return max(sizes, default=0) > 2 * DEPTH

    async def _found_by_id(self, place: Place, wanted: _Wanted) -> bool:
        """Look up the missing ids in a place. False: nothing was looked up, as the place is a list
        and the ids are many, or its entries were gathered elsewhere."""
        ids = list(wanted.missing)
        few = FEW if place.whole else GLANCED
        if place.kind == "busy" or (place.kind == "list" and len(ids) > few):
            return False
        members = await self.members(place, ids)
        wanted.among(await place.of_members(members))
        return True

    def _trait(self, id: str) -> str:
        """A text that the bytes of every entry of that id contain; '' if none is known."""
        return ""
