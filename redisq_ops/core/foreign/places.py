"""Places where a program keeps entries: keys, read by pages.

Here are sorted sets, whose cursor is a score and a member (scores may be any numbers), and entries
that were gathered elsewhere. Lists are in `list_place`, sets and hashes in `scanned_place`. An
entry that stays during all reads is on a page, perhaps on two if the server resizes the key then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Protocol

from ..engine.state_scan import Position, ScoreRange, behind, positions, spelt
from ..engine.state_scan import page as zset_page
from ..model import cut_element
from ..model.cut_element import LARGEST
from ..model.entry import GONE, Entry, State
from ..redis.key_scan import literal
from ..redis.operation import Call, Description, together
from ..redis.parsers import number
from ..redis.parsers import spelt as score_text
from .long_records import LONG_RECORD, PAGE_BYTES, few, mean_bytes, too_long


def digest(element: bytes) -> str:
    """A short hash of an element, in place of its bytes."""
    return cut_element.digest(element)[:16]


def orphan(place: Place, state: State, id: str, at_ms: int | None, what: str = "job") -> Entry:
    """The entry of an id without a record; ``what``: the owner's word for the record."""
    return Entry(id, state, at_ms, called=place.called, reason=GONE, problem=f"its {what} is gone")


class Row(NamedTuple):
    """An element as it was read."""

    member: bytes
    """the element of a list or set, the field of a hash"""
    score: float = 0.0
    """its score in a sorted set, its rank in a list"""
    at: int = 0
    """its position from the left in a list; in a set or hash, the scan's cursor before it"""
    value: bytes = b""
    size: int | None = None
    """bytes of its record, if that is in another key; None: not asked for"""

    @property
    def length(self) -> int:
        """Bytes of the element itself."""
        value = cut_element.length(self.value) if self.value else 0
        return cut_element.length(self.member) + value


class LocatedEntry(NamedTuple):
    """An entry and where it was read, so that exactly this one can be found again."""

    entry: Entry
    place: Place
    member: bytes
    """its exact bytes; a ticket or a label where the place is ours"""
    at: int = 0
    score: float = 0.0
    read: int = 0
    """bytes that were read: of the element, and of its record in another key"""

    async def rank(self) -> int:
        """How many elements of its place come before it."""
        if self.place.kind == "list":
            return int(self.score)
        key = self.place.key
        return await Call(("ZRANK", key, self.member), lambda rank: rank or 0, key=key)


class Read(Protocol):
    """Makes entries of elements, in one exchange; None for an element of another queue."""

    async def __call__(self, place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]: ...


class Sizes(Protocol):
    """How many bytes `Read` would read for each of these elements, in one exchange or two."""

    async def __call__(self, place: Place, rows: Sequence[Row], /) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A sorted set with entries; its subclasses are other keys, and entries gathered elsewhere."""

    key: str
    called: str
    """the state's name for the owner's users"""
    read: Read
    kind: Literal["list", "zset", "set", "hash", "held", "trash", "busy"] = "zset"
    """the key's type; ``held`` and ``trash``: sorted sets of ours, of what our workers hold and of
    purged entries; ``busy``: entries gathered elsewhere"""
    whole: bool = True
    """True: records up to `LARGEST` are read (for ids, or payloads); False: up to `LONG_RECORD`"""
    brief: bool = False
    """True, for a change: entries may lack what the change doesn't compare"""
    payloads: bool = True
    """False: entries may lack payloads that would have to be made"""
    problem: str | None = None
    """of gathered entries: which of them may be another queue's, and why"""
    mean: int = 0
    """bytes of an element on average; 0: not known"""
    sizes: Sizes | None = None
    """asks how long the records are, if they are in other keys"""

    def reads(self, bytes_: int) -> bool:
        """Whether a record of that size is read here."""
        return bytes_ <= (LARGEST if self.whole else LONG_RECORD)

    async def records(
        self,
        rows: Sequence[Row],
        names: Sequence[bytes],
        read: Callable[[Sequence[bytes]], Description[list[bytes | None]]],
    ) -> list[bytes | int | None]:
        """The records that ``read`` finds by their names; in place of a record that is too long to
        be read here, its size."""
        sizes = [row.size or 0 for row in rows]
        short = [name for name, bytes_ in zip(names, sizes, strict=True) if self.reads(bytes_)]
        there = await read(short) if short else []
        found: dict[bytes, bytes | int | None] = dict(zip(short, there, strict=True))
        return [found.get(name, bytes_) for name, bytes_ in zip(names, sizes, strict=True)]

    async def _sized(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows, with the sizes of their records."""
        if self.sizes is None or not rows or rows[0].size is not None:
            return rows
        sizes = await self.sizes(self, rows)
        return [Row(*row[:4], size) for row, size in zip(rows, sizes, strict=True)]

    def _read_of(self, row: Row) -> int:
        return row.size if row.size and self.reads(row.size) else 0

    async def _fitting(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The first rows, as many as have records of `PAGE_BYTES` together; at least one."""
        sized = await self._sized(rows)
        read = accumulate(map(self._read_of, sized))
        return sized[: max(1, sum(total <= PAGE_BYTES for total in read))]

    async def _page_of(
        self, rows: Sequence[Row], on: str | None
    ) -> tuple[list[LocatedEntry], str | None]:
        """The entries of a page and its cursor: ``on``, or where the page became too large."""
        fitting = await self._fitting(rows)
        if len(fitting) < len(rows):
            on = self.behind(fitting[-1])
        return await self.located(fitting), on

    async def weighed(self) -> Place:
        """The same place, with the size of its elements where they may be large."""
        if self.kind not in ("list", "zset", "hash"):
            return self
        return replace(self, mean=await mean_bytes(self.key, self.size()))

    def few(self, max: int) -> int:
        """As many of ``max`` elements as one look reads."""
        return few(max, self.mean)

    @property
    def too_long(self) -> str:
        """Why its elements are not read at all; empty: they are."""
        return too_long(self.key, self.mean) if self.mean > LARGEST else ""

    def size(self) -> Call[int]:
        return Call(("ZCARD", self.key), int, key=self.key)

    async def count(self) -> int:
        """How many elements there are, also of other queues."""
        return await self.size()

    async def rows_of(self, members: Sequence[bytes]) -> list[Row]:
        """The rows of those elements, or fields of a hash, that are there."""
        if not members:
            return []
        scores = await Call(("ZMSCORE", self.key, *members), list[Any], key=self.key)
        found = zip(members, map(number, scores), strict=True)
        return [Row(member, score) for member, score in found if score is not None]

    def finds(self, row: LocatedEntry) -> bool:
        """Whether `rows_of` is sure to find it, if it is there."""
        return True

    async def of_members(self, members: Sequence[bytes]) -> list[LocatedEntry]:
        """The entries of those elements that are there."""
        return await self.located(await self.rows_of(members))

    async def window(self, start: int, max: int) -> tuple[list[LocatedEntry], int]:
        """Entries by rank, without other queues' entries; and the number of all elements."""
        if not (read := self.few(max) or int(self.whole)):
            return [], await self.size()
        size, rows = await together(self.size(), positions(self.key, start, start + read - 1))
        return await self._seen(rows), size

    def first(self) -> Call[list[bytes]]:
        """The element of a list or sorted set that is taken next; none if it is empty."""
        return Call(("ZRANGE", self.key, 0, 0), list[bytes], key=self.key, cut=True)

    async def located(self, rows: Sequence[Row]) -> list[LocatedEntry]:
        """The entries of these rows, without those of other queues.

        A job may end between the two reads of its row and its record. So rows without a record are
        looked up again, and left out unless they are still there.
        """
        if not rows:
            return []
        rows = await self._sized(rows)
        entries = await self.read(self, rows)
        found = [
            LocatedEntry(
                entry, self, row.member, row.at, row.score, self._read_of(row) + row.length
            )
            for entry, row in zip(entries, rows, strict=True)
            if entry is not None
        ]
        gone = {seen.member for seen in found if seen.entry.orphan and self.finds(seen)}
        if gone:
            gone -= {row.member for row in await self.rows_of([*gone])}
        return [seen for seen in found if seen.member not in gone]

    async def _seen(self, rows: Sequence[Position]) -> list[LocatedEntry]:
        return await self.located(await self._fitting(_rows_of(rows)))

    async def after(
        self, cursor: str | None, max: int
    ) -> tuple[list[LocatedEntry], str | None, int]:
        """Up to ``max`` elements behind an earlier page (fewer, but at least one, if they are
        large), the cursor of the next page, and the number of all elements."""
        size, (found, onward, _) = await together(
            self.size(), zset_page(self.key, self._span(cursor), None, self.few(max) or 1)
        )
        seen, on = await self._page_of(_rows_of(found), onward and spelt(found[-1]))
        return seen, on, size

    def _span(self, cursor: str | None) -> ScoreRange:
        """What is left of a sorted set behind a cursor."""
        return ScoreRange(cursor)

    def behind(self, seen: LocatedEntry | Row) -> str:
        """The cursor of a page that ended with this entry."""
        return spelt((seen.score, seen.member))

    async def matching(self, text: str, most: int | None = None) -> list[LocatedEntry]:
        """Elements of a set that contain ``text`` somewhere; the server does the looking. ``most``:
        the search ends when so many are found."""
        found: list[LocatedEntry] = []
        cursor, page = 0, max(1, self.few(1000))
        while True:
            command = ("ZSCAN", self.key, cursor, "MATCH", f"*{literal(text)}*", "COUNT", page)
            cursor, rows = await Call(command, tuple[int, Any], key=self.key, cut=True)
            found += await self.located([Row(member, float(score)) for member, score in rows])
            if not cursor or (most is not None and len(found) >= most):
                return found


@dataclass(frozen=True, slots=True)
class DuePart(Place):
    """The members of a sorted set that are due (up to the score ``now``), or those that aren't."""

    now: float = 0.0
    due: bool = True
    hidden: int = 0
    """how many of them `read` leaves out"""

    async def _ranks(self) -> tuple[int, int]:
        """The rank of its first member, and the one behind its last."""
        due = Call(("ZCOUNT", self.key, "-inf", score_text(self.now)), int, key=self.key)
        size, border = await together(self.size(), due)
        return (0, border) if self.due else (border, size)

    async def count(self) -> int:
        first, end = await self._ranks()
        return max(0, end - first - self.hidden)

    async def window(self, start: int, max: int) -> tuple[list[LocatedEntry], int]:
        first, end = await self._ranks()
        size, asked = end - first - self.hidden, min(max + self.hidden, end - first - start)
        first += start
        found = await positions(self.key, first, first + asked - 1) if asked > 0 else []
        rows = await self._seen(found)
        before = self.hidden - (len(found) - len(rows))  # hidden ones in front of this window
        return rows[before : before + max] if before > 0 else rows[:max], size if size > 0 else 0

    def _span(self, cursor: str | None) -> ScoreRange:
        border = behind(self.now)
        return ScoreRange(cursor, border) if self.due else ScoreRange(cursor or border)

    async def rows_of(self, members: Sequence[bytes]) -> list[Row]:
        found = await Place.rows_of(self, members)
        return [row for row in found if (row.score <= self.now) is self.due]


def _rows_of(found: Sequence[Position]) -> list[Row]:
    return [Row(member, score) for score, member in found]


async def _nothing(place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]:
    return []


@dataclass(frozen=True, slots=True)
class GatheredPlace(Place):
    """Entries that were read elsewhere: jobs that the owner's workers list, for example."""

    key: str = ""
    called: str = "busy"
    read: Read = _nothing
    kind: Literal["busy"] = "busy"
    rows: Sequence[LocatedEntry] = ()

    async def count(self) -> int:
        return len(self.rows)

    async def window(self, start: int, max: int) -> tuple[list[LocatedEntry], int]:
        return list(self.rows[start : start + max]), len(self.rows)

    async def after(
        self, cursor: str | None, max: int
    ) -> tuple[list[LocatedEntry], str | None, int]:
        start, size = int(cursor or 0), len(self.rows)
        end = start + (self.few(max) or 1)
        return list(self.rows[start:end]), str(end) if end < size else None, size

    def behind(self, seen: LocatedEntry | Row) -> str:
        assert isinstance(seen, LocatedEntry)
        return str(self.rows.index(seen) + 1)


async def next_members(places: Sequence[Place]) -> list[tuple[Place, bytes]]:
    """The element that is taken next, of each list and sorted set that has one."""
    ordered = [place for place in places if place.kind in ("list", "zset")]
    firsts = zip(ordered, await together(place.first() for place in ordered), strict=True)
    return [(place, member) for place, found in firsts for member in found]
