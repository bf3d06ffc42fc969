"""Reading a whole state side by side: where to cut it, and pages of it as the server has them.

`Queue.page` is for people: decoded entries, a total, any queue. Here millions of entries are read
by many processes, each its own *span*, a page of it a *sheet* whose columns nobody has decoded
yet. Only sorted sets are cut (what isn't waiting, of our own queues, and what waits by time); all
reads are ranges by rank, so equal scores cost nothing, and every page says how long the server
was at it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any, TypeVar

from .io import Call, Description, Replies, Round, both, together
from .reply import number

K = TypeVar("K")
T = TypeVar("T")

Position = tuple[float, bytes]
"""score and member; a page is what is behind one"""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a sorted set: what is behind ``after``, up to and with ``until``.

    Both are ``score:member`` (see `spelt`); None is its begin or end. ``entries``: how many it had
    when it was cut.
    """

    after: str | None = None
    until: str | None = None
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Sheet:
    """Some entries by columns, as the server has them. A column that wasn't asked for is None.

    ``lines`` are record lines (`record.FIELDS`), ``errors`` encoded `Failure`. An id that is no
    UTF-8 isn't one of ours: there is nothing in its columns.
    """

    ids: list[bytes]
    scores: list[float]
    cursor: str | None
    """where to go on; None: the end of the span"""
    call_us: int
    """what the costliest call of this page took the server, by its own clock; of several calls
    alike, the middle one: one of them is long because the server itself had to wait"""
    lines: list[bytes | None] | None = None
    errors: list[bytes | None] | None = None
    payloads: list[bytes | None] | None = None
    clients: list[bytes | None] | None = None
    called: list[str | None] | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a history goes: events ever added, how many are there, the first and last of these.

    The first that is there was the ``added - length + 1``-th.
    """

    added: int = 0
    length: int = 0
    first: str | None = None
    last: str = "0-0"


def reach(key: str) -> Call[Reach]:
    """Of a stream nobody deletes from but at its begin; empty where there is none."""

    def read(reply: Any) -> Reach:
        if reply is None:
            return Reach()
        row = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
        first = row[b"first-entry"]
        return Reach(
            int(row[b"entries-added"]), int(row[b"length"]),
            first[0].decode() if first else None, row[b"last-generated-id"].decode(),
        )  # fmt: skip

    return Call(("XINFO", "STREAM", key), read, key=key, absent="no such key")


def micros(key: str) -> Call[int]:
    """The clock of the server that has a key, in µs: between two of them is what a call took."""
    return Call(("TIME",), lambda t: int(t[0]) * 1_000_000 + int(t[1]), key=key)


def position(text: str) -> Position:
    score, _, member = text.partition(":")
    return float(score), member.encode("utf-8", "surrogateescape")


def spelt(place: Position) -> str:
    """What `position` reads, exactly: a member may be any bytes, a score any number."""
    score, member = place
    return f"{_score(score)}:{member.decode('utf-8', 'surrogateescape')}"


def _score(score: float) -> str:
    return f"{score:.17g}"


async def spans(key: str, size: int, low: float | None, high: float | None) -> list[Span]:
    """A sorted set's members with scores from ``low`` to ``high``, cut into even parts.

    The parts are of the moment: what comes behind the last one later isn't in any.
    """
    bottom = "-inf" if low is None else f"{low:.0f}"
    top = "+inf" if high is None else f"{high:.0f}"
    before, total = await together(
        [
            Call(("ZCOUNT", key, "-inf", "-inf" if low is None else f"({bottom}"), int, key=key),
            Call(("ZCOUNT", key, bottom, top), int, key=key),
        ]
    )
    parts = min(total, -(-total // max(1, size)))
    ends = [before + (i + 1) * total // parts - 1 for i in range(parts)]
    rows = await together(ranked(key, rank, rank) for rank in ends)
    made: list[Span] = []
    after = None if low is None else f"{bottom}:"
    for i, found in enumerate(rows):
        if found:  # else it shrank between the two looks, and the next part ends where it should
            share = (i + 1) * total // parts - i * total // parts
            made.append(Span(after, spelt(found[0]), share))
            after = made[-1].until
    return made


def ranked(key: str, first: int, last: int) -> Call[list[Position]]:
    """(score, member) by rank."""

    def read(reply: list[Any]) -> list[Position]:
        if reply and isinstance(reply[0], list):
            return [(float(score), member) for member, score in reply]
        return [(float(reply[i + 1]), reply[i]) for i in range(0, len(reply), 2)]

    return Call(("ZRANGE", key, first, last, "WITHSCORES"), read, key=key)


async def page(
    key: str, span: Span, cursor: str | None, max: int
) -> tuple[list[Position], str | None, int]:
    """Up to ``max`` members of a span, where to go on, and µs; one exchange if nothing moved.

    A cursor is ``rank@score:member``: the rank of what comes next, and the last one seen. That one
    is read again, to see whether the rank still holds; if not, the place is looked for.
    """
    end = None if span.until is None else position(span.until)
    rank, _, last = ("0", "", span.after) if cursor is None else cursor.partition("@")
    after = None if last is None else position(last)
    rows: list[Position] = []
    first, slowest = int(rank), 0
    if cursor is not None:
        rows, slowest = await _timed(key, ranked(key, first - 1, first + max))
        rows = rows[1:] if rows[:1] == [after] else []
    if not rows and after is not None:
        first, took = await _behind(key, after)
        slowest = slowest if slowest > took else took
    if not rows:
        rows, took = await _timed(key, ranked(key, first, first + max))
        slowest = slowest if slowest > took else took
    inside = [row for row in rows if end is None or row <= end]
    shown = inside[:max]
    onward = None
    if len(inside) > max:
        onward = f"{first + max}@{spelt(shown[-1])}"
    return shown, onward, slowest


async def _behind(key: str, place: Position) -> tuple[int, int]:
    """The rank of the first member behind a place, and µs.

    Where the place's own member is gone, it is bisected: a bulk change gives thousands one score.
    """
    score, member = place
    (low, high), (rank, there) = await both(
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
        rows, took = await _timed(key, ranked(key, middle, middle))
        slowest = slowest if slowest > took else took
        if rows and rows[0] <= place:
            low = middle + 1
        else:
            high = middle
    return low, slowest


async def _timed(key: str, call: Call[T]) -> tuple[T, int]:
    """What a call says, and the µs the server was at it."""
    began, (said, ended) = await both(micros(key), both(call, micros(key)))
    return said, ended - began


class _Exchange:
    """A round as it goes out."""

    def __init__(self, calls: Round) -> None:
        self._calls = calls

    def __await__(self) -> Generator[Round, Replies, Replies]:
        return (yield self._calls)


async def _alone(call: Call[T]) -> T:
    return await call


async def clocked(key: str, asked: Description[T]) -> tuple[T, int]:
    """What a description says, however many rounds it takes, and the µs the server was at the
    costliest of its calls; calls alike, one behind the other, count as one."""
    description = _alone(asked) if isinstance(asked, Call) else asked
    clock, slowest = micros(key), 0
    try:
        calls: Round = description.send(None)
        while True:
            looks: list[Call[Any]] = [clock]
            for call, then in zip_longest(calls, calls[1:]):
                looks.append(call)
                if then is None or then.command[0] != call.command[0]:
                    looks.append(clock)
            said = list(zip(looks, await _Exchange(tuple(looks)), strict=True))
            times = [clock.result(reply) for call, reply in said if call is clock]
            slowest = max(slowest, *(b - a for a, b in pairwise(times)))
            calls = description.send([reply for call, reply in said if call is not clock])
    except StopIteration as stop:
        return stop.value, slowest
    finally:
        description.close()


async def timed(
    key: str, columns: Mapping[K, Description[Any]]
) -> tuple[dict[K, Any], dict[K, int]]:
    """Columns of a page, read in one exchange, and the µs the server was at each of them."""
    looks: list[Description[Any]] = [micros(key)]
    for description in columns.values():
        looks += [description, micros(key)]
    said = await together(looks)
    took = [b - a for a, b in pairwise(said[::2])]
    return dict(zip(columns, said[1::2], strict=True)), dict(zip(columns, took, strict=True))
