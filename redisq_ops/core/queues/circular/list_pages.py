"""Pages of the list that stay exact while ids are pushed and taken.

Every element has a number: how many elements were ever taken, plus its distance from the end that
is taken from. Pushes happen at the other end, so an element keeps its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...engine.state_scan import Unread
from ...model import record
from ...model.keys import Keys
from ...redis.operation import Call, together
from .element_names import name_of

WINDOW = 500
_MOST = 20
_TRIES = 5


@dataclass(frozen=True, slots=True)
class ListPosition:
    """A reader's position: the number of the next element, and the number at which to stop.

    Without an end the reader of a list that rotates would go on for ever.
    """

    at: int
    end: int

    def __str__(self) -> str:
        return f"{self.at}:{self.end}"

    @classmethod
    def decoded(cls, text: str) -> ListPosition:
        at, _, end = text.partition(":")
        return cls(int(at), int(end))


@dataclass(frozen=True, slots=True)
class _Marks:
    popped: int
    returned: int
    sentinel: bytes | None

    @property
    def first(self) -> int:
        """The number of the next element."""
        return self.popped - self.returned


def _marks(keys: Keys) -> Call[_Marks]:
    def read(reply: list[bytes | None]) -> _Marks:
        popped, returned, sentinel = reply
        return _Marks(int(popped or 0), int(returned or 0), sentinel and b"*" + sentinel)

    key = keys["stat"]
    return Call(("HMGET", key, "popped", "returned", "sentinel"), read, key=key)


async def waiting(
    keys: Keys, rotates: bool, place: ListPosition | None, start: int, max: int
) -> tuple[list[bytes], ListPosition | None, list[Unread]]:
    """Up to ``max`` waiting elements, the next one first; where to go on; and the elements that
    were passed although nobody can say whether they wait.

    Without a ``place`` it begins at element ``start``; in a list that rotates at the ``start``-th
    waiting element, up to which it reads window by window, some thousands of elements per call.
    """
    key = keys["queue"]
    marks, length = await together(_marks(keys), Call(("LLEN", key), int, key=key))
    if place is None:
        skipped = 0 if rotates else start
        place = ListPosition(marks.first + skipped, marks.first + length)
    skip = start if rotates else 0
    found: list[bytes] = []
    unread: list[Unread] = []
    at, walked = place.at, 0
    while at < place.end and len(found) < max and (walked < _MOST or skip):
        walked += 1
        size = min(WINDOW if rotates else max - len(found), place.end - at)
        at, marks, elements = await _window(keys, marks, at, size)
        if not elements:
            break
        for raw, waits in zip(elements, await _waits(keys, elements, marks, rotates), strict=True):
            at += 1
            if isinstance(waits, Exception):
                unread.append(Unread("id", name_of(raw).encode(), waits))
            elif waits and skip:
                skip -= 1
            elif waits:
                found.append(raw)
                if len(found) == max:
                    break
    over = at >= place.end or (not elements if walked else True)
    return found, None if over else ListPosition(at, place.end), unread


async def _window(
    keys: Keys, marks: _Marks, at: int, size: int
) -> tuple[int, _Marks, Sequence[bytes]]:
    """Elements from number ``at`` on, or from a later one where they were taken meanwhile."""
    key = keys["queue"]
    for _ in range(_TRIES):
        at = max(at, marks.first)
        low = at - marks.first
        window = Call(("LRANGE", key, -low - size, -low - 1), list[bytes], key=key)
        before, elements, after = await together(_marks(keys), window, _marks(keys))
        same = before.first == after.first == marks.first
        marks = after
        if same:
            break
    return at, marks, elements[::-1]


async def _waits(
    keys: Keys, elements: Sequence[bytes], marks: _Marks, rotates: bool
) -> list[bool | Exception]:
    """Whether each element is a waiting entry; an exception where that can't be read."""
    spent, lines, delays = await together(
        Call((command, keys[part], *elements), list[bytes | None], key=keys[part])
        for command, part in (("HMGET", "spent"), ("HMGET", "meta"), ("ZMSCORE", "delay"))
    )
    over = {raw: _number(n) for raw, n in zip(elements, spent, strict=True) if n}
    lost = await _lost(keys, elements, lines) if rotates else ()
    replies: list[bool | Exception] = []
    for raw, line, delay in zip(elements, lines, delays, strict=True):
        more = over.get(raw, 0)
        if isinstance(more, Exception):
            replies.append(more)
        elif more:  # of equal elements the first ones are removed first
            over[raw] = more - 1
            replies.append(False)
        elif raw in lost:
            replies.append(ValueError("its record can't be read"))
        elif not rotates:
            replies.append(True)
        else:
            held = line is not None and not line.startswith(b"- ")
            replies.append(raw != marks.sentinel and not held and delay is None)
    return replies


def _number(text: bytes) -> int | Exception:
    try:
        return int(text)
    except ValueError as error:
        return error


async def _lost(
    keys: Keys, elements: Sequence[bytes], lines: Sequence[bytes | None]
) -> frozenset[bytes]:
    """Elements whose record has a wrong number of words, and that aren't delivered either."""
    odd = [
        raw
        for raw, line in zip(elements, lines, strict=True)
        if line is not None and line.count(b" ") + 1 != len(record.FIELDS)
    ]
    if not odd:
        return frozenset()
    key = keys["lease"]
    leases = await Call(("ZMSCORE", key, *odd), list[Any], key=key)
    return frozenset(raw for raw, lease in zip(odd, leases, strict=True) if lease is None)
