"""Lists where a program keeps entries, read from the end where the next entry is taken.

The cursor of a page has digests of the page's last elements. The next page begins behind them, even
if entries came and went at both ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..redis.operation import Call, Description, together
from .places import LocatedEntry, Place, Row, digest

SLACK = 200
"""elements searched on either side of the place where a page ended, if its last ones moved"""
DEPTH = 10_000
"""how far into a list, from either end, an entry is looked for and can be removed"""


@dataclass(frozen=True, slots=True)
class ListPlace(Place):
    """A list with entries."""

    kind: Literal["list"] = "list"
    reverse: bool = False
    """the next entry is on the right"""

    def size(self) -> Call[int]:
        return Call(("LLEN", self.key), int, key=self.key)

    async def rows_of(self, members: Sequence[bytes]) -> list[Row]:
        """These elements, looked for `DEPTH` deep from either end."""

        def nearest(rank: int) -> Description[list[int | None]]:
            words = ("RANK", rank, "MAXLEN", DEPTH)
            return together(
                Call(("LPOS", self.key, element, *words), lambda reply: reply, key=self.key)
                for element in members
            )

        size, (left, right) = await together(self.size(), together(nearest(1), nearest(-1)))
        rows = []
        for element, first, last in zip(members, left, right, strict=True):
            at = last if first is None else first
            if at is not None:
                rows.append(Row(element, float(size - 1 - at if self.reverse else at), at))
        return rows

    def finds(self, row: LocatedEntry) -> bool:
        return row.score < DEPTH

    async def window(self, start: int, max: int) -> tuple[list[LocatedEntry], int]:
        if not (read := self.few(max) or int(self.whole)):
            return [], await self.size()
        size, elements = await together(self.size(), self._slice(start, read))
        return await self.located(await self._fitting(self._rows(elements, start, size))), size

    def first(self) -> Call[list[bytes]]:
        return self._slice(0, 1)

    def _slice(self, start: int, max: int) -> Call[list[bytes]]:
        if self.reverse:
            return Call(
                ("LRANGE", self.key, -start - max, -start - 1),
                lambda reply: reply[::-1],
                key=self.key,
                cut=True,
            )
        return Call(
            ("LRANGE", self.key, start, start + max - 1), list[bytes], key=self.key, cut=True
        )

    def _rows(self, elements: Sequence[bytes], start: int, size: int) -> list[Row]:
        """Elements of a list from rank ``start`` on, each with its rank and position."""
        ranks = range(start, start + len(elements))
        return [
            Row(element, float(rank), size - 1 - rank if self.reverse else rank)
            for rank, element in zip(ranks, elements, strict=True)
        ]

    async def after(
        self, cursor: str | None, max: int
    ) -> tuple[list[LocatedEntry], str | None, int]:
        max = self.few(max) or 1
        rank, _, words = (cursor or "0:").partition(":")
        begin, marks = int(rank), words.split(",") if words else []
        low, start = begin - len(marks), begin
        size, elements = await together(self.size(), self._slice(low, len(marks) + max))
        if list(map(digest, elements[: len(marks)])) != marks[::-1]:  # the elements moved
            slack = self.few(SLACK) or 1
            low = begin - slack if begin > slack else 0
            size, elements = await together(
                self.size(), self._slice(low, begin - low + slack + max)
            )
            start = _behind(elements, marks, begin - 1 - low) + low
        while marks and start == low and low > 0:  # not found: further in front, or taken
            begin, low = low, low - 5 * slack if low > 5 * slack else 0
            size, elements = await together(
                self.size(), self._slice(low, begin - low + slack + max)
            )
            start = _behind(elements, marks, begin - low) + low
        page = elements[start - low : start - low + max]
        end = start + len(page)
        on = _list_cursor(end, page[-3:]) if page and end < size else None
        return *await self._page_of(self._rows(page, start, size), on), size

    def behind(self, seen: LocatedEntry | Row) -> str:
        return _list_cursor(int(seen.score) + 1, [seen.member])


def _list_cursor(rank: int, last: Sequence[bytes]) -> str:
    return f"{rank}:{','.join(digest(element) for element in reversed(last))}"


def reachable(cursor: str | None, size: int) -> str | None:
    """A list's cursor; a rank deeper than `DEPTH` from both ends becomes the next one in reach."""
    rank = int(cursor.partition(":")[0]) if cursor else 0
    return f"{size - DEPTH}:" if DEPTH <= rank < size - DEPTH else cursor


def _behind(elements: Sequence[bytes], marks: Sequence[str], near: int) -> int:
    """The position behind the first mark that is found; 0: none is found. Of several equal elements
    the one nearest to ``near`` counts."""
    for mark in marks:
        if near < len(elements) and digest(elements[near]) == mark:
            return near + 1
    digests = list(map(digest, elements))
    for mark in marks:
        here = [n for n, found in enumerate(digests) if found == mark]
        if here:
            return min(here, key=lambda n: abs(n - near)) + 1
    return 0
