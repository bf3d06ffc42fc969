"""Places where a program keeps entries: lists, sorted sets, sets and hashes, read by pages.

Lists are read from the end where the next entry is taken. The cursor of a page of a list has
digests of its last elements: the next page goes on behind them although entries came and went at
both ends.
The cursor of a page of a sorted set has a score and a member; scores may be any numbers. Sets and
hashes have no order: they are read as the server scans them. An entry that is there all the time is
in a page, perhaps in two while the server resizes the key.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import Any, Literal, Protocol

from ..engine.state_scan import Position, ScoreRange, behind, positions, spelt
from ..engine.state_scan import page as zset_page
from ..model.entry import Entry
from ..redis.key_scan import literal
from ..redis.operation import Call, Description, both, together
from ..redis.parsers import number
from ..redis.parsers import spelt as score_text
from .long_records import LONG_RECORD, few, mean_bytes

SLACK = 200
"""elements looked through around the place where a page ended that isn't found there any more"""
PORTION = 500
"""elements that a scan is asked for"""
DEPTH = 10_000
"""how far into a list, from either end, an entry is looked for and can be removed"""

_SIZE = {"list": "LLEN", "set": "SCARD", "hash": "HLEN"}


@dataclass(frozen=True, slots=True)
class Row:
    """An element as it was read."""

    member: bytes
    """the element of a list or set, the field of a hash"""
    score: float = 0.0
    """its score in a sorted set, its rank in a list"""
    at: int = 0
    """its position from the left in a list; in a set or hash, the scan's cursor before it"""
    value: bytes = b""


@dataclass(frozen=True, slots=True)
class LocatedEntry:
    """An entry and where it was read, so that exactly this one can be found again."""

    entry: Entry
    place: Place
    member: bytes
    """its exact bytes; a ticket or a label where the place is ours"""
    at: int = 0
    score: float = 0.0

    async def rank(self) -> int:
        """How many elements of its place come before it."""
        if self.place.kind == "list":
            return int(self.score)
        key = self.place.key
        return await Call(("ZRANK", key, self.member), lambda rank: rank or 0, key=key)


class Read(Protocol):
    """Makes entries of elements, in one exchange; None: it isn't this queue's."""

    async def __call__(self, place: Place, rows: Sequence[Row], /) -> Sequence[Entry | None]: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A key with entries, or entries that were gathered elsewhere (``busy``)."""

    kind: Literal["list", "zset", "set", "hash", "held", "trash", "busy"]
    key: str
    called: str
    read: Read
    reverse: bool = False
    """the next entry is on the right"""
    rows: Sequence[LocatedEntry] = ()
    """the gathered entries"""
    whole: bool = True
    """whether records are read at any length: it is asked for by id, or for its payload"""
    problem: str | None = None
    """of gathered entries: which of them may be another queue's, and why"""
    mean: int = 0
    """bytes of an element on average; 0: not known"""

    def reads(self, bytes_: int) -> bool:
        """Whether a record of that size is read here."""
        return self.whole or bytes_ <= LONG_RECORD

    async def records(
        self,
        names: Sequence[bytes],
        size: Callable[[bytes], Call[int]],
        read: Callable[[Sequence[bytes]], Description[list[bytes | None]]],
    ) -> list[bytes | int | None]:
        """The records that ``read`` finds by their names; of one that is too long to be read here,
        its ``size``."""
        sizes = [0] * len(names) if self.whole else await together(map(size, names))
        short = [name for name, bytes_ in zip(names, sizes, strict=True) if self.reads(bytes_)]
        there = await read(short) if short else []
        found: dict[bytes, bytes | int | None] = dict(zip(short, there, strict=True))
        return [found.get(name, bytes_) for name, bytes_ in zip(names, sizes, strict=True)]

    async def weighed(self) -> Place:
        """The same place, with the size of its elements as far as the server tells it."""
        return replace(self, mean=await mean_bytes(self.key, self.size()))

    def few(self, max: int) -> int:
        """As many of ``max`` elements as one look reads."""
        return few(max, self.mean)

    def size(self) -> Call[int]:
        return Call((_SIZE.get(self.kind, "ZCARD"), self.key), int, key=self.key)

    async def count(self) -> int:
        """How many elements there are, also of other queues."""
        return len(self.rows) if self.kind == "busy" else await self.size()

    async def of_members(self, members: Sequence[bytes]) -> list[LocatedEntry]:
        """The entries of these members of a set or fields of a hash, as far as they are there."""
        if self.kind == "hash":
            values = await Call(("HMGET", self.key, *members), list[Any], key=self.key)
            fields = zip(members, values, strict=True)
            return await self.located([Row(m, value=v) for m, v in fields if v is not None])
        if self.kind == "set":
            there = await Call(("SMISMEMBER", self.key, *members), list[Any], key=self.key)
            known = [member for member, is_in in zip(members, there, strict=True) if is_in]
            return await self.located([Row(member) for member in known])
        scores = await together(
            Call(("ZSCORE", self.key, member), number, key=self.key) for member in members
        )
        found = zip(members, scores, strict=True)
        return await self.located([Row(m, score) for m, score in found if score is not None])

    async def of_elements(self, elements: Sequence[bytes]) -> list[LocatedEntry]:
        """The entries of these elements of a list, looked for `DEPTH` deep from either end."""

        def nearest(rank: int) -> Description[list[int | None]]:
            words = ("RANK", rank, "MAXLEN", DEPTH)
            return together(
                Call(("LPOS", self.key, element, *words), lambda reply: reply, key=self.key)
                for element in elements
            )

        size, (left, right) = await both(self.size(), both(nearest(1), nearest(-1)))
        rows = []
        for element, first, last in zip(elements, left, right, strict=True):
            at = last if first is None else first
            if at is not None:
                rows.append(Row(element, float(size - 1 - at if self.reverse else at), at))
        return await self.located(rows)

    async def window(self, start: int, max: int) -> tuple[list[LocatedEntry], int]:
        """Elements by rank, without those of other queues; and how many there are in all. The rank
        in a set or hash is that in a scan from its beginning, which ends after 10,000 elements."""
        if self.kind == "busy":
            return list(self.rows[start : start + max]), len(self.rows)
        if self.kind in ("set", "hash"):
            scanned, _, size = await self._scan_after(None, min(start + max, DEPTH))
            return await self.located(scanned[start:]), size
        if not (read := self.few(max) or int(self.whole)):
            return [], await self.size()
        if self.kind != "list":
            size, rows = await both(self.size(), positions(self.key, start, start + read - 1))
            return await self._seen(rows), size
        size, elements = await both(self.size(), self._slice(start, read))
        return await self.located(self._list_rows(elements, start, size)), size

    def first(self) -> Call[list[bytes]]:
        """The element of a list or sorted set that is taken next; none if it is empty."""
        if self.kind == "list":
            return self._slice(0, 1)
        return Call(("ZRANGE", self.key, 0, 0), list[bytes], key=self.key)

    def _slice(self, start: int, max: int) -> Call[list[bytes]]:
        if self.reverse:
            return Call(
                ("LRANGE", self.key, -start - max, -start - 1),
                lambda reply: reply[::-1], key=self.key,
            )  # fmt: skip
        return Call(("LRANGE", self.key, start, start + max - 1), list[bytes], key=self.key)

    def _list_rows(self, elements: Sequence[bytes], start: int, size: int) -> list[Row]:
        """Elements of a list from rank ``start`` on, each with its rank and position."""
        ranks = range(start, start + len(elements))
        return [
            Row(element, float(rank), size - 1 - rank if self.reverse else rank)
            for rank, element in zip(ranks, elements, strict=True)
        ]

    async def located(self, rows: Sequence[Row]) -> list[LocatedEntry]:
        """The entries of these rows, without those of other queues."""
        if not rows:
            return []
        entries = await self.read(self, rows)
        return [
            LocatedEntry(entry, self, row.member, row.at, row.score)
            for entry, row in zip(entries, rows, strict=True)
            if entry is not None
        ]

    async def _seen(self, rows: Sequence[Position]) -> list[LocatedEntry]:
        return await self.located([Row(member, score) for score, member in rows])

    async def after(
        self, cursor: str | None, max: int
    ) -> tuple[list[LocatedEntry], str | None, int]:
        """Up to ``max`` elements behind an earlier page, of large ones fewer, but one at least; the
        cursor to go on, and the size."""
        max = self.few(max) or 1
        if self.kind == "busy":
            start = int(cursor or 0)
            rows, size = await self.window(start, max)
            return rows, str(start + max) if start + max < size else None, size
        if self.kind == "list":
            return await self._list_after(cursor, max)
        if self.kind in ("set", "hash"):
            scanned, on, size = await self._scan_after(cursor, max)
            return await self.located(scanned), on, size
        size, (found, onward, _) = await both(
            self.size(), zset_page(self.key, self._span(cursor), None, max)
        )
        return await self._seen(found), onward and spelt(found[-1]), size

    async def _scan_after(self, cursor: str | None, max: int) -> tuple[list[Row], str | None, int]:
        """A scan returns as many elements as it likes: a page may end inside a portion, which is
        then read again, and goes on behind the page's last element in the order of their bytes."""
        scan, inside, coded = (cursor or "0").partition(":")
        at, last = int(scan), base64.b64decode(coded) if inside else None
        found: list[Row] = []
        size, (then, portion) = await both(self.size(), self._scanned(at))
        while True:
            rest = sorted(
                (row for row in portion if last is None or row.member > last),
                key=lambda row: row.member,
            )
            room = max - len(found)
            found += rest[:room]
            if len(rest) > room:
                return found, _scan_cursor(at, found[-1].member), size
            if not then or len(found) == max:
                return found, str(then) if then else None, size
            at, last = then, None
            then, portion = await self._scanned(at)

    def _scanned(self, at: int) -> Call[tuple[int, list[Row]]]:
        def read(reply: list[Any]) -> tuple[int, list[Row]]:
            then, found = int(reply[0]), reply[1]
            if self.kind == "set":
                return then, [Row(member, at=at) for member in found]
            if isinstance(found, dict):
                found = [part for field in found.items() for part in field]
            fields = zip(found[::2], found[1::2], strict=True)
            return then, [Row(field, at=at, value=value) for field, value in fields]

        verb = "HSCAN" if self.kind == "hash" else "SSCAN"
        return Call((verb, self.key, at, "COUNT", self.few(PORTION) or 1), read, key=self.key)

    def _span(self, cursor: str | None) -> ScoreRange:
        """What is left of a sorted set behind a cursor."""
        return ScoreRange(cursor)

    async def _list_after(
        self, cursor: str | None, max: int
    ) -> tuple[list[LocatedEntry], str | None, int]:
        begin, marks, slack = 0, list[str](), self.few(SLACK) or 1
        if cursor is not None:
            rank, _, words = cursor.partition(":")
            begin, marks = int(rank), words.split(",") if words else []
        low = begin - slack if begin > slack else 0
        size, elements = await both(self.size(), self._slice(low, begin - low + slack + max))
        start = _behind(elements, marks, begin - 1 - low) + low if marks else begin
        while marks and start == low and low > 0:  # further in front, or taken meanwhile
            begin, low = low, low - 5 * slack if low > 5 * slack else 0
            size, elements = await both(self.size(), self._slice(low, begin - low + slack + max))
            start = _behind(elements, marks, begin - low) + low
        page = elements[start - low : start - low + max]
        end = start + len(page)
        on = _list_cursor(end, page[-3:]) if page and end < size else None
        return await self.located(self._list_rows(page, start, size)), on, size

    def behind(self, seen: LocatedEntry) -> str:
        """The cursor of a page that ended with this entry."""
        if self.kind == "busy":
            return str(self.rows.index(seen) + 1)
        if self.kind == "list":
            return _list_cursor(int(seen.score) + 1, [seen.member])
        if self.kind in ("set", "hash"):
            return _scan_cursor(seen.at, seen.member)
        return spelt((seen.score, seen.member))

    async def matching(self, text: str) -> list[LocatedEntry]:
        """Elements of a set that contain ``text`` somewhere; the server does the looking."""
        found: list[LocatedEntry] = []
        cursor = 0
        while True:
            command = ("ZSCAN", self.key, cursor, "MATCH", f"*{literal(text)}*", "COUNT", 1000)
            cursor, rows = await Call(command, tuple[int, Any], key=self.key)
            found += await self.located([Row(member, float(score)) for member, score in rows])
            if not cursor:
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
        size, border = await both(self.size(), due)
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
        before = self.hidden - (len(found) - len(rows))  # in front of these
        return rows[before : before + max] if before > 0 else rows[:max], size if size > 0 else 0

    def _span(self, cursor: str | None) -> ScoreRange:
        border = behind(self.now)
        return ScoreRange(cursor, border) if self.due else ScoreRange(cursor or border)

    async def of_members(self, members: Sequence[bytes]) -> list[LocatedEntry]:
        found = await Place.of_members(self, members)
        return [row for row in found if (row.score <= self.now) is self.due]


async def next_members(places: Sequence[Place]) -> list[bytes]:
    """The element that is taken next, of each list and sorted set that has one."""
    firsts = await together(place.first() for place in places if place.kind in ("list", "zset"))
    return [member for found in firsts for member in found]


def _scan_cursor(at: int, last: bytes) -> str:
    return f"{at}:{base64.b64encode(last).decode()}"


def _list_cursor(rank: int, last: Sequence[bytes]) -> str:
    return f"{rank}:{','.join(_digest(element) for element in reversed(last))}"


def reachable(cursor: str | None, size: int) -> str | None:
    """A list's cursor, past what lies out of reach between its ends."""
    rank = int(cursor.partition(":")[0]) if cursor else 0
    return f"{size - DEPTH}:" if DEPTH <= rank < size - DEPTH else cursor


def _behind(elements: Sequence[bytes], marks: Sequence[str], near: int) -> int:
    """The position behind the first mark that is found; 0: none is found. Of several equal elements
    the one nearest to ``near`` counts."""
    digests = [_digest(element) for element in elements]
    for mark in marks:
        here = [n for n, digest in enumerate(digests) if digest == mark]
        if here:
            return min(here, key=lambda n: abs(n - near)) + 1
    return 0


def _digest(element: bytes) -> str:
    return sha1(element).hexdigest()[:16]
