"""What is seen of the layouts of Resque and Sidekiq."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol

from ...engine.optional_features import HasWorkerProcesses
from ...model.entry import Counts, Entry, Page, State
from ...redis.operation import C_co, Call, attempt, both, operation, together
from ...redis.parsers import moment
from ..changes import ForeignChanges
from ..placed_queue import PAGE, STATES, kept, named, types_of
from ..places import LocatedEntry, Place, Read, Row

SCREENS = 4
"""pages read for one window of a set that all queues share"""


class ReadElement(Protocol):
    """Makes an entry of an element; None: it isn't this queue's."""

    def __call__(self, place: Place, payload: bytes, score: float) -> Entry | None: ...


def each(read: ReadElement) -> Read:
    """Reads elements one by one."""

    async def batch(place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]:
        return [read(place, row.member, row.score) for row in rows]

    return batch


class RubyJobReads(ForeignChanges[C_co], HasWorkerProcesses[C_co]):
    """A queue as Resque or Sidekiq keeps it; named without one, their whole deployment."""

    key_types: ClassVar[dict[str, str]] = dict.fromkeys(("body", "lost", "was", "purged"), "hash")
    stops_at: ClassVar[str] = ""
    """what an element that is no job does to the owner's own workers; empty: nothing bad"""
    unit: ClassVar[str] = ""
    """how the server adds its time to a new job's record"""

    @property
    def list_key(self) -> str:
        """The owner's list of this queue."""
        return self.keys["t_queue_"] + self.own_name

    # --- being there ---------------------------------------------------------------------------

    @operation
    async def exists(self) -> bool:
        if self._registered:
            return True
        wanted = self._their_keys()
        kinds = await types_of(wanted)
        if not self.own_name:
            return any(kinds[key] == kind for key, kind in wanted.items())
        known = self.keys["t_queues"]
        if kinds[known] == "set" and await Call(
            ("SISMEMBER", known, self.own_name), bool, key=known
        ):
            return True
        # A list that isn't in the set is a queue all the same: both programs would serve it. So is
        # what only has jobs to come: those due first are in the first page.
        if (await types_of([self.list_key]))[self.list_key] == "list":
            return True
        return bool(await self._first_of_sets(kinds))

    async def _first_of_sets(self, kinds: dict[str, str]) -> list[LocatedEntry]:
        """This queue's entries in the first page of what all share, where the type is right."""
        places = [*await self._places("delayed"), *await self._places("dead")]
        sound = [p for p in places if kinds.get(p.key) == p.kind]
        found = await together(place.window(0, PAGE) for place in sound)
        return [seen for rows, _ in found for seen in rows]

    async def _place_kinds(self) -> dict[str, str]:
        return {self.list_key: "list"} if self.own_name else {}

    # --- what the owner's records say ----------------------------------------------------------

    @abstractmethod
    def id_of(self, payload: bytes) -> str:
        """The id under which a job's record is shown."""

    @abstractmethod
    def _failures(self, payload: bytes) -> int: ...

    @abstractmethod
    def _waiting(self, place: Place, payload: bytes, score: float) -> Entry | None: ...

    def _held(
        self, place: Place, payload: bytes, score: float, name: bytes, kept: bytes
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

    # --- looking -------------------------------------------------------------------------------

    def _shared(self, state: State) -> bool:
        return bool(self.own_name or self.beside) and state in ("delayed", "dead")

    async def _of_owner(self, state: State, wrong: list[str] | None) -> list[Place]:
        if state == "waiting":
            return [self._list(name) for name in await self._unless(self._queues(), [], wrong)]
        if state == "pending":
            names, busy = await both(
                self._unless(self._queues(), [], wrong), self._unless(self._busy(), (), wrong)
            )
            return [*map(self._holding, names), self._gathered(busy)]
        return await self._of_owners_sets(state, wrong)

    @abstractmethod
    async def _of_owners_sets(self, state: State, wrong: list[str] | None) -> list[Place]:
        """Where the owner keeps what is delayed or dead."""

    @abstractmethod
    async def _busy(self) -> list[LocatedEntry]:
        """What the owner's own workers have."""

    def _list(self, name: str) -> Place:
        return Place(
            "list", self.keys["t_queue_"] + name, "enqueued", each(self._waiting),
            reverse=self.next_end == "RIGHT",
        )  # fmt: skip

    def _holding(self, name: str) -> Place:
        """What our workers have of a queue."""
        mine = name == self.own_name
        keys = self.keys if mine else self._keys(self._name_of(name))
        return Place("held", keys["lease"], "busy", kept(self._held, keys["body"], keys["meta"]))

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
        paused = paused or await self._unless(self.paused_there(), None, said)
        return Counts(
            **numbers, done=done or 0, paused=paused, closed=closed, unknown=frozenset(unknown),
            problem=named(said),
        )  # fmt: skip

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
