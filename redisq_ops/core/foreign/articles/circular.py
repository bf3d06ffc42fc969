"""Article 002's list: ids, and ``id*time`` for those in progress.

Kind ``raw-circular``.

The list rotates: a consumer moves an element from the tail to the head and marks it, so places
change with every poll. Pages may repeat or miss elements that move meanwhile, and a look-up reads a
thousand elements from each end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...model.cut_element import is_cut, length, unread_name
from ...model.entry import Checkup, Counts, Entry, Page, PageQuery, State, not_read
from ...model.quoting import legal, raw_of, text
from ...redis.operation import C_co, Call, operation, together
from ...redis.whole_keys import has_type
from ..list_place import ListPlace
from ..places import Place, Row
from .base import STALE_MS, RawLayout, hours, named

WHOLE = 1000
"""to count, a list of up to so many elements is read whole; of a longer one, half at each end"""
THOROUGH = 10_000
MARK = re.compile(rb"(.+)\*(\d{1,13})(?:\.\d+)?", re.DOTALL)
_SINCE_MS = 10**12
"""2001: a mark with an earlier time is no time"""
_MS_FROM = 10**11
SENTINEL = b"-1"


@dataclass(frozen=True, slots=True)
class Element:
    """An element of the list: an id, and since when (ms) it is in progress; None: it isn't."""

    id: bytes
    since_ms: int | None

    @classmethod
    def read(cls, raw: bytes) -> Element:
        marked = MARK.fullmatch(raw)
        if marked is None:
            return cls(raw, None)
        time = int(marked[2])
        return cls(marked[1], time if time >= _MS_FROM else time * 1000)

    @property
    def entry(self) -> Entry:
        if is_cut(self.id):
            return Entry(unread_name(self.id), "waiting", problem=not_read(length(self.id)))
        if self.since_ms is None:
            return Entry(legal(self.id), "waiting", payload=self.id)
        return Entry(
            legal(self.id), "pending", since_ms=self.since_ms, payload=self.id, called="processing"
        )


class RawCircularQueue(RawLayout[C_co]):
    """One rotating list."""

    kind: ClassVar[str] = "raw-circular"
    one_key: ClassVar[bool] = True
    layout_faults: ClassVar[tuple[str, ...]] = (
        "two consumers that find the same time-out both take the entry: one job, two marks",
        "an id with an asterisk looks as if it had been in progress since 1970",
        "times are the consumers' own: one whose clock is ahead takes what others are at",
        "attempts are not counted: what kills its consumer goes round for ever",
    )

    @operation
    def exists(self) -> Call[bool]:
        return has_type(self.key, "list")

    def _window(self, first: int, last: int) -> Call[list[Element]]:
        """Elements from the tail, where the next one is taken: 0 is the tail."""

        def read(reply: Sequence[bytes]) -> list[Element]:
            return [Element.read(raw) for raw in reversed(reply)]

        return Call(("LRANGE", self.key, -1 - last, -1 - first), read, key=self.key, cut=True)

    def _length(self) -> Call[int]:
        return Call(("LLEN", self.key), int, key=self.key)

    async def _ends(self, most: int) -> tuple[list[Element], int]:
        """``most`` elements, half of them from each end, or all; and the list's size."""
        size = await self._length()
        if size <= most:
            return await self._window(0, most), size
        tail, head = await together(
            self._window(0, most // 2 - 1), self._window(size - most // 2, size - 1)
        )
        return tail + head, size

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        """Of a list of more than 1,000 elements only the ends are read. Then the number in progress
        is unknown, and all that were not seen in progress count as *waiting*."""
        seen, size = await self._ends(WHOLE)
        marked = sum(element.since_ms is not None for element in seen)
        whole = size <= len(seen)
        unknown: frozenset[State] = frozenset({"done"} if whole else {"done", "pending"})
        return Counts(max(0, size - marked), marked if whole else 0, 0, 0, 0, 0, unknown=unknown)

    async def _page(self, state: State, query: PageQuery) -> Page:
        if state not in ("waiting", "pending"):
            return Page((), None, 0)

        def of_state(seen: Sequence[Element]) -> list[Entry | None]:
            return [e.entry if (e.since_ms is None) == (state == "waiting") else None for e in seen]

        async def read(place: Place, rows: Sequence[Row], /) -> list[Entry | None]:
            return of_state([Element.read(row.member) for row in rows])

        if query.start is not None:
            seen, _ = await self._ends(WHOLE)
            entries = [entry for entry in of_state(seen) if entry is not None]
            window = entries[query.start : query.start + query.max]
            return Page(tuple(window), None, len(entries))
        place = ListPlace(text(self.key), "", read, reverse=True)
        found, on, _ = await place.after(query.cursor, query.max)
        known = query.cursor is None and on is None
        return Page(tuple(row.entry for row in found), on, len(found), known)

    @operation
    async def get(self, id: str) -> Entry | None:
        """Checks a thousand elements from each end."""
        raw = raw_of(id)
        seen, _ = await self._ends(2 * WHOLE)
        entries = (element.entry for element in seen)
        return next((entry for entry in entries if raw_of(entry.id) == raw), None)

    @operation
    async def checkup(self, thorough: bool = False) -> Checkup:
        most = THOROUGH if thorough else WHOLE
        seen: list[Element] = []
        size = await self._length()
        while len(seen) < min(size, most):
            page = await self._window(len(seen), len(seen) + WHOLE - 1)
            seen += page
            if len(page) < WHOLE:
                break
        now = await self._now()
        unseen = []
        if size > len(seen):
            unseen.append(f"only {len(seen):,} of {size:,} elements, from the tail")
        read = [element for element in seen if not is_cut(element.id)]
        if len(read) < len(seen):
            unseen.append(f"{len(seen) - len(read):,} elements are too long to be read")
        return Checkup(tuple(_flaws(read, now)), "; ".join(unseen) or None)


def _flaws(seen: Sequence[Element], now_ms: int) -> list[str]:
    flaws = []
    of = f"of {len(seen):,} elements"
    odd = [e for e in seen if b"*" in e.id or (e.since_ms or _SINCE_MS) < _SINCE_MS]
    marked = [(e, e.since_ms) for e in seen if e.since_ms is not None and e.since_ms >= _SINCE_MS]
    if odd:
        flaws.append(
            f"{len(odd):,} {of} have an id with an asterisk ({named([e.id for e in odd])}): "
            "consumers take what follows it for the time when work began"
        )
    old = [(e, since) for e, since in marked if now_ms - since > STALE_MS]
    if old:
        longest = hours(now_ms - min(since for _, since in old))
        flaws.append(
            f"{len(old):,} {of} have been in progress for more than an hour "
            f"({named([e.id for e, _ in old])}; the longest {longest}): their consumers are gone"
        )
    ahead = sum(since > now_ms + 60_000 for _, since in marked)
    if ahead:
        flaws.append(f"{ahead:,} {of} have a mark from the future: a consumer's clock is wrong")
    # What moved between two windows was read twice; with the same mark it is the same.
    read = [e for e, _ in marked] if len(seen) <= WHOLE else {e for e, _ in marked}
    twice = [name for name, n in Counter(e.id for e in read).items() if n > 1]
    if twice:
        flaws.append(
            f"{len(twice):,} {of} are marked more than once ({named(twice)}): one job, "
            "two consumers"
        )
    if any(e.id == SENTINEL for e, _ in marked):
        flaws.append("the sentinel -1 is marked: it is handed out as a job")
    return flaws
