"""Pages over several places. A cursor is the number of a place and the cursor in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..model.cut_element import UNREAD
from ..model.entry import Entry, Page, PageQuery, State
from ..redis.operation import together
from .long_records import PAGE_BYTES
from .places import LocatedEntry, Place

PAGES = 20
"""reads of places for one page, at most"""
READ = 500
"""entries that one read of the latest ones of several places reads, or one of each place"""


async def page_of(places: Sequence[Place], query: PageQuery) -> Page:
    """The entries of these places, one place after the other."""
    if query.start is None:
        (found, on), sizes = await together(
            through(places, query), together(place.count() for place in places)
        )
        return Page(entries_of(found), on, sum(sizes))
    sizes = await together(place.count() for place in places)
    found, first = [], 0
    for place, size in zip(places, sizes, strict=True):
        low = query.start + len(found) - first
        if len(found) < query.max and 0 <= low < size and not place.too_long:
            found += (await place.window(low, query.max - len(found)))[0]
        first += size
    return Page(entries_of(found), None, sum(sizes))


async def latest_of(places: Sequence[Place], query: PageQuery) -> Page:
    """The latest entries of several places together, the latest last.

    A place's last entry is its latest one. Fewer than ``query.max`` where many others would have to
    be read: all that are left out are older than those that are here.
    """
    sizes = await together(place.count() for place in places)
    begins = list(sizes)
    found: list[list[LocatedEntry]] = [[] for _ in places]
    some = [at for at, place in enumerate(places) if sizes[at] and not place.too_long]
    share, latest = min(query.max, max(1, READ // max(1, len(some)))), list[LocatedEntry]()
    for _ in range(PAGES):
        firsts = [max(0, begins[at] - share) for at in some]
        read = await together(
            _between(places[at], first, begins[at]) for at, first in zip(some, firsts, strict=True)
        )
        for at, first, rows in zip(some, firsts, read, strict=True):
            begins[at], found[at] = first, rows + found[at]
        # Of a place that has more, everything that is older than what was read is missing.
        cut = [(_time(rows[0]), at) for at, rows in enumerate(found) if rows and begins[at]]
        border, at = max(cut, default=(0, 0))
        latest = [row for rows in found for row in rows if _time(row) >= border]
        if not cut or len(latest) >= query.max:
            break
        some, share = [at], min(READ, query.max - len(latest))
    return Page(entries_of(sorted(latest, key=_time)[-query.max :]), None, sum(sizes))


def _time(seen: LocatedEntry) -> int:
    """By what entries of several places are put in order (ms); 0: unknown."""
    entry = seen.entry
    return (entry.at_ms if entry.state == "delayed" else entry.since_ms) or 0


async def _between(place: Place, start: int, end: int) -> list[LocatedEntry]:
    """A place's entries by rank; in several reads if they are large."""
    found: list[LocatedEntry] = []
    for _ in range(PAGES):
        if start + len(found) >= end:
            break
        rows, _ = await place.window(start + len(found), end - start - len(found))
        if not rows:
            break
        found += rows
    return found


async def through(
    places: Sequence[Place], query: PageQuery, step: int | None = None
) -> tuple[list[LocatedEntry], str | None]:
    """The entries behind a cursor (only a few, if they are large), and the next page's cursor.
    ``step``: elements to read at a time once a read found entries of other queues."""
    at, _, then = (query.cursor or "0;").partition(";")
    index, inner = int(at), then or None
    found: list[LocatedEntry] = []
    found_less = False
    for _ in range(PAGES):
        room = query.max - len(found)
        if index >= len(places) or room <= 0:
            break
        place, asked = places[index], step if step and found_less else room
        if place.too_long:
            index, inner = index + 1, None
            continue
        rows, inner, _ = await place.after(inner, asked)
        found_less = len(rows) < asked
        if len(rows) > room:
            rows = rows[:room]
            inner = place.behind(rows[-1])
        found += rows
        index += inner is None
        if place.few(asked) < asked or sum(seen.read for seen in found) > PAGE_BYTES // 2:
            break
    return found, None if index >= len(places) else f"{index};{inner or ''}"


def with_unread(page: Page, state: State, query: PageQuery, read: int, mean: int) -> Page:
    """A window of large entries, of which at most ``read`` were read, with a line for each of the
    others. ``mean``: bytes of an entry on average."""
    if query.start is None or not query.glance or read >= query.max:
        return page
    # Ids are in the bytes that were not read, so ranks replace them.
    ranks = range(query.start + len(page.entries), min(query.start + query.max, page.total))
    why = f"not read in a list: about {mean / 2**20:,.1f} MiB each"
    unread = (Entry(f"{UNREAD}{rank + 1}", state, problem=why) for rank in ranks)
    return replace(page, entries=(*page.entries, *unread))


def entries_of(found: Sequence[LocatedEntry]) -> tuple[Entry, ...]:
    return tuple(seen.entry for seen in found)
