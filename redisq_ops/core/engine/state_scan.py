"""Parallel reads of a whole state: ranges of it, and pages of a range as the server has them.

`Queue.page` is for people: decoded entries and a total. Here many processes read millions of
entries, each its own `ScoreRange`, in pages of columns that are not decoded (`ColumnPage`). Only
sorted sets have ranges: what isn't waiting, of our own queues, and what waits by time. All reads
are by rank, so equal scores cost nothing, and every page says how long the server took for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from math import inf, nextafter
from typing import Any, Literal, TypeVar

from ..model.errors import RedisqError
from ..model.quoting import legal, text
from ..redis.commands import RoundTrip, coroutine_of
from ..redis.operation import Call, Description, Round, together
from ..redis.parsers import number, pairs
from ..redis.parsers import spelt as _score

K = TypeVar("K")
T = TypeVar("T")

_MARGINS = (0, 0, 10, 100, 1_000)
"""members that may leave a set between two reads; the next margin is tried when more did"""

Position = tuple[float, bytes]
"""score and member; a page begins after one"""


@dataclass(frozen=True, slots=True)
class ScoreRange:
    """A range of a sorted set: after ``after``, up to and with ``until``.

    Both are ``score:member`` (see `spelt`); None is the beginning or end of the set. ``entries``:
    number of entries in the range when it was made.
    """

    after: str | None = None
    until: str | None = None
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Unread:
    """A waiting entry that can't be read, or a request or client none of whose entries can."""

    what: Literal["id", "request", "client"]
    name: bytes
    error: Exception

    def __str__(self) -> str:
        why = f": {self.error}" if isinstance(self.error, RedisqError) else ""
        return f"{self.what} {legal(self.name)} is corrupt, and what waits of it unknown{why}"


@dataclass(frozen=True, slots=True)
class WaitingIds:
    """Ids of some entries that wait in lists or streams, in their order."""

    ids: list[bytes]
    cursor: str | None
    clients: list[str] | None = None
    """the client of each, where lists belong to clients"""
    unread: tuple[Unread, ...] = ()
    unmet: Mapping[bytes, bytes] = field(default_factory=dict)
    """id -> payload, of ids that another program pushed and no take has seen yet"""

    @property
    def names(self) -> list[str]:
        """The ids as text."""
        return [text(id) for id in self.ids]

    @property
    def problem(self) -> str | None:
        """What can't be read, in words; the rest is here."""
        return "; ".join(map(str, self.unread)) or None


@dataclass(frozen=True, slots=True)
class ColumnPage:
    """Entries by columns, as the server has them. A column that wasn't asked for is None.

    ``lines``: record lines (`record.FIELDS`); ``errors``: encoded `Failure`; ``payloads``: an
    exception stands for a corrupt one. The columns of an id that isn't UTF-8 are empty.
    """

    ids: list[bytes]
    scores: list[float | None]
    cursor: str | None
    """the cursor for the next page; None: the end of the range"""
    call_us: int
    """µs that the slowest call of this page took the server, by its own clock; for several calls of
    one kind their median, because one of them may be long by chance"""
    lines: list[bytes | None] | None = None
    errors: list[bytes | None] | None = None
    payloads: list[bytes | Exception | None] | None = None
    clients: list[bytes | str | None] | None = None
    called: list[str | None] | None = None
    unread: tuple[Unread, ...] = ()
    """entries that are missing here because they can't be read"""


@dataclass(frozen=True, slots=True)
class HistoryExtent:
    """How far a history goes: events ever added, events in it now, ids of the first and the last.

    The first one in it was the ``added - length + 1``-th that was added.
    """

    added: int = 0
    length: int = 0
    first: str | None = None
    last: str = "0-0"


def history_extent(key: str) -> Call[HistoryExtent]:
    """The extent of a stream from which only the oldest events are removed."""

    def read(reply: Any) -> HistoryExtent:
        if reply is None:
            return HistoryExtent()
        row = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
        first = row[b"first-entry"]
        return HistoryExtent(
            int(row[b"entries-added"]),
            int(row[b"length"]),
            first[0].decode() if first else None,
            row[b"last-generated-id"].decode(),
        )

    return Call(("XINFO", "STREAM", key), read, key=key, absent="no such key")


def micros(key: str) -> Call[int]:
    """The clock (µs) of the server that has a key; two of them measure the calls between."""
    return Call(("TIME",), lambda t: int(t[0]) * 1_000_000 + int(t[1]), key=key)


def position(text: str) -> Position:
    score, _, member = text.partition(":")
    return float(score), member.encode("utf-8", "surrogateescape")


def spelt(place: Position) -> str:
    """The text that `position` reads back exactly, for any bytes and any score."""
    score, member = place
    return f"{_score(score)}:{member.decode('utf-8', 'surrogateescape')}"


def behind(score: float) -> str:
    """The position behind all members with a score."""
    return f"{_score(nextafter(score, inf))}:"


async def score_ranges(
    key: str, size: int, low: float | None, high: float | None
) -> list[ScoreRange]:
    """Ranges of about ``size`` members each, of those with scores from ``low`` to ``high``.

    Members that are added after the end of the last range later are in none.
    """
    bottom = "-inf" if low is None else _score(low)
    top = "+inf" if high is None else _score(high)
    before, total = await together(
        [
            Call(("ZCOUNT", key, "-inf", f"({bottom}"), int, key=key),
            Call(("ZCOUNT", key, bottom, top), int, key=key),
        ]
    )
    parts = min(total, -(-total // max(1, size)))
    ends = [before + (i + 1) * total // parts - 1 for i in range(parts)]
    rows = await together(positions(key, rank, rank) for rank in ends)
    made: list[ScoreRange] = []
    after = None if low is None else f"{bottom}:"
    for i, found in enumerate(rows):
        if found:  # else the set shrank between the two reads; the next range covers this one
            share = (i + 1) * total // parts - i * total // parts
            made.append(ScoreRange(after, spelt(found[0]), share))
            after = made[-1].until
    return made


def positions(key: str, *range_: str | int) -> Call[list[Position]]:
    """(score, member) of a range (of ranks, or BYSCORE); members may be any bytes."""

    def read(reply: list[Any]) -> list[Position]:
        return [(score, member) for member, score in pairs(reply)]

    return Call(("ZRANGE", key, *range_, "WITHSCORES"), read, key=key, cut=True)


async def page(
    key: str, span: ScoreRange, cursor: str | None, max: int, step: int | None = None
) -> tuple[list[Position], str | None, int]:
    """Up to ``max`` members of a range, the next cursor, and µs; one round trip if nothing moved.

    A cursor is ``rank@score:member``: the rank of the next member, and the last member seen. The
    member before that rank is read too: unless it is after the last one seen, no member was
    skipped; otherwise the position is searched. A call reads ``step`` members, and the page ends
    where members moved between two calls.
    """
    end = None if span.until is None else position(span.until)
    rank, _, last = ("0", "", span.after) if cursor is None else cursor.partition("@")
    after = None if last is None else position(last)
    first, slowest = int(rank), 0
    if cursor is None and after is not None:
        first, slowest = await _behind(key, after)
    low, rows, whole = 0, list[Position](), True
    for margin in _MARGINS:
        low = first - 1 - margin if first > 1 + margin else 0
        rows, whole, took = await _stretch(key, low, first + max, 1 + (step or max))
        slowest = slowest if slowest > took else took
        begun = after is None or not low or (rows and rows[0] <= after)
        if begun and (rows or whole):
            break
        if after is not None:
            first, took = await _behind(key, after)
            slowest = slowest if slowest > took else took
    begin = 0 if after is None else bisect_right(rows, after)
    inside = rows[begin:] if end is None else rows[begin : bisect_right(rows, end)]
    shown = inside[:max]
    passed = bool(rows) and end is not None and rows[-1] >= end
    over = passed or (whole and len(rows) <= first + max - low)
    seen = spelt(shown[-1]) if shown else last
    if seen is None or (over and len(inside) <= max):
        return shown, None, slowest
    return shown, f"{low + begin + len(shown)}@{seen}", slowest


async def _stretch(key: str, low: int, high: int, step: int) -> tuple[list[Position], bool, int]:
    """Members by rank, whether all were read, and µs. Each call begins with the last member of the
    call before; if it doesn't, ranks moved between the two."""
    ranks = range(low, max(high, low + 1), step)
    calls = {at: positions(key, at, min(at + step, high)) for at in ranks}
    parts, times = await timed(key, calls)
    rows, *rest = parts.values()
    took = sorted(times.values())[(len(times) - 1) // 2]
    for nth, part in enumerate(rest, 1):
        if part[:1] != rows[-1:]:
            # Ranks moved: this is the end only where the next call found nothing.
            return rows, len(rows) <= nth * step and not part, took
        rows += part[1:]
    return rows, True, took


async def _behind(key: str, place: Position) -> tuple[int, int]:
    """The rank of the first member after a position, and µs.

    Where the position's own member is gone, it is bisected: a bulk change gives thousands of
    members one score.
    """
    score, member = place
    (low, high), (rank, there) = await together(
        together(
            Call(("ZCOUNT", key, "-inf", bound), int, key=key)
            for bound in (f"({_score(score)}", _score(score))
        ),
        together(Call((verb, key, member), number, key=key) for verb in ("ZRANK", "ZSCORE")),
    )
    if rank is not None and there == score:
        return int(rank) + 1, 0
    slowest = 0
    while member and low < high:
        middle = (low + high) // 2
        rows, took = await _timed(key, positions(key, middle, middle))
        slowest = slowest if slowest > took else took
        if rows and rows[0] <= place:
            low = middle + 1
        else:
            high = middle
    return low, slowest


async def _timed(key: str, call: Call[T]) -> tuple[T, int]:
    """A call's result, and the µs it took the server."""
    began, results, ended = await together(micros(key), call, micros(key))
    return results, ended - began


async def clocked(key: str, asked: Description[T]) -> tuple[T, int]:
    """A description's result, and the µs of its slowest call in any round; several calls of one
    kind in a row count as one."""
    description = coroutine_of(asked)
    clock, slowest = micros(key), 0
    try:
        calls: Round = description.send(None)
        while True:
            looks: list[Call[Any]] = [clock]
            for call, then in zip_longest(calls, calls[1:]):
                looks.append(call)
                if then is None or then.command[0] != call.command[0]:
                    looks.append(clock)
            results = list(zip(looks, await RoundTrip(tuple(looks)), strict=True))
            times = [clock.result(reply) for call, reply in results if call is clock]
            slowest = max(slowest, *(b - a for a, b in pairwise(times)))
            calls = description.send([reply for call, reply in results if call is not clock])
    except StopIteration as stop:
        return stop.value, slowest
    finally:
        description.close()


async def timed(
    key: str, columns: Mapping[K, Description[Any]]
) -> tuple[dict[K, Any], dict[K, int]]:
    """Columns of a page, read in one round trip, and the µs each of them took the server."""
    looks: list[Description[Any]] = [micros(key)]
    for description in columns.values():
        looks += [description, micros(key)]
    results = await together(looks)
    took = [b - a for a, b in pairwise(results[::2])]
    return dict(zip(columns, results[1::2], strict=True)), dict(zip(columns, took, strict=True))
