"""Undo of a step that put entries into lists, however long these are.

Python looks for the entries by pages. The script then removes them in portions: each call walks
once from an end of a list to the deepest entry of its portion. A call may look at a bounded number
of elements, so portions of deep entries are smaller.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import Any, Literal

from ..engine.operator_changes import UndoStep
from ..model.entry import Entry
from ..redis.parsers import words
from .list_place import DEPTH, ListPlace, reachable
from .placed_queue import PlacedQueue
from .places import Place, Row

PAGE = 500
ROUNDS = 10
"""searches for one undo at most, if lists change too fast for a single search"""
LOOKS = 16_000
"""elements a call may look at: half a millisecond"""
ROW = 400
"""further cost of an entry in a list, in elements; any other entry costs half of it"""
SEEK = 25
"""passing so many elements on the way to a position costs as much as looking at one"""


@dataclass(frozen=True, slots=True)
class MovedEntry:
    """An entry of a step: the list it went to and the SHA-1 of its bytes there, both empty if it
    went elsewhere. ``at``: its position from the left in a list of ``size``; None: it isn't there;
    ``deep``: it may be deep inside the list, where nobody looked."""

    key: str = ""
    sha: str = ""
    at: int | Literal["deep"] | None = None
    size: int = 0

    @property
    def row(self) -> tuple[str, int | str]:
        return self.sha, "" if self.at is None else self.at


async def undo(queue: PlacedQueue[Any], undo: UndoStep) -> tuple[int, ...]:
    """Undo a step. Returns how many entries were put back, how many were left alone because others
    had touched them, and how many are still to be undone, if any."""
    found: tuple[int, ...] = ()
    for _ in range(ROUNDS):
        moved = await look(queue, undo.op, undo.step)
        deep = sum(entry.at == "deep" for entry in moved)
        while moved or not found:
            n = portion(moved)
            found = await queue._call_script(
                "undo",
                lambda reply: tuple(map(int, reply)),
                [entry.row for entry in moved[:n]],
                caller=undo.by,
                seq=undo.seq,
                op=undo.op,
                step=undo.step,
                queue=queue.own_name,
            )
            moved = _rest(moved, n) if found[2] else []
        if found[2] <= deep:
            break
    return found if found[2] else found[:2]


async def undo_edit(queue: PlacedQueue[Any], undo: UndoStep) -> tuple[int, ...]:
    """As `undo`, of a step of an edit. Nothing is removed, so entries are reached at any depth."""
    rows: list[tuple[str, int | str]] = []
    for _ in range(ROUNDS):
        back, touched, rest, *ids = await queue._call_script(
            "undo_edit",
            words,
            rows,
            caller=undo.by,
            seq=undo.seq,
            op=undo.op,
            step=undo.step,
        )
        if rest == "0":
            break
        rows = [entry.row for entry in await look(queue, undo.op, undo.step, through=True)]
    undo.left(ids)
    found = int(back), int(touched), int(rest)
    return found if found[2] else found[:2]


def portion(moved: Sequence[MovedEntry]) -> int:
    """How many of these entries, from the first on, one call may handle; one at least, if any."""
    walks: dict[tuple[str, bool], int] = {}
    rest = 0
    for n, entry in enumerate(moved):
        rest += ROW if isinstance(entry.at, int) else ROW // 2
        if isinstance(entry.at, int):
            left = entry.at < entry.size - entry.at
            near = entry.at + 1 if left else entry.size - entry.at
            walks[entry.key, left] = max(near, walks.get((entry.key, left), 0))
            rest += near // SEEK
        if n and sum(walks.values()) + rest > LOOKS:
            return n
    return len(moved)


def _rest(moved: Sequence[MovedEntry], n: int) -> list[MovedEntry]:
    """The entries behind the first ``n``, with positions as after these left their lists."""
    gone = [(entry.key, entry.at) for entry in moved[:n] if isinstance(entry.at, int)]
    return [
        replace(entry, at=entry.at - sum(key == entry.key and at < entry.at for key, at in gone))
        if isinstance(entry.at, int)
        else entry
        for entry in moved[n:]
    ]


async def look(
    queue: PlacedQueue[Any], op: str, step: int, *, through: bool = False
) -> list[MovedEntry]:
    """The entries of a step that aren't undone yet, in the step's order, and where they are now.

    A list is read by pages from the end where new entries come: workers reach these last.
    ``through``: all of it, also where nothing can be removed.
    """
    moved = await _moved(queue, op, step)
    lists: defaultdict[str, defaultdict[str, deque[int]]] = defaultdict(lambda: defaultdict(deque))
    for n, entry in enumerate(moved):
        if entry.key:
            lists[entry.key][entry.sha].appendleft(n)  # the last of equal ones is met first
    for key, missing in lists.items():
        place = ListPlace(key, "", _bytes_only, reverse=queue.next_end == "LEFT")
        inner, size, more, left = None, 0, True, sum(map(len, missing.values()))
        page = min(PAGE, left)
        while left and more:
            found, inner, size = await place.after(inner, page)
            page = min(PAGE, 2 * page)
            for seen in found:
                sha = sha1(seen.member).hexdigest()
                if missing.get(sha):
                    moved[missing[sha].popleft()] = MovedEntry(key, sha, seen.at, size)
                    left -= 1
            more = inner is not None
            inner = inner if through else reachable(inner, size)
        if size > 2 * DEPTH and not through:  # the rest may be deep inside
            for n in (n for rest in missing.values() for n in rest):
                moved[n] = MovedEntry(key, moved[n].sha, "deep", size)
    return moved


async def _moved(queue: PlacedQueue[Any], op: str, step: int) -> list[MovedEntry]:
    moved: list[MovedEntry] = []
    while True:
        more, *found = await queue._call_script(
            "undo_places", words, op=op, step=step, behind=len(moved)
        )
        moved += [MovedEntry(key, sha) for key, sha in zip(found[::2], found[1::2], strict=True)]
        if more == "0":
            return moved


async def _bytes_only(place: Place, rows: Sequence[Row], /) -> Sequence[Entry]:
    return [Entry("", "waiting")] * len(rows)
