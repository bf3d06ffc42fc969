"""Taking a step of a bulk move back where it went into lists, however long they are.

What the step put there is looked for by pages first. It is then taken out a portion a call: each
call walks once from an end of a list to the deepest of its portion, and what it may look at in all
is bounded, so that deep entries come in smaller portions.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ...model.entry import Entry
from ...redis.parsers import words
from ..places import DEPTH, Place, Row, reachable
from .job import digest

if TYPE_CHECKING:
    from .queue import RubyJobQueue

PAGE = 500
ROUNDS = 10
"""looks for what a step put into lists, while they change too fast for one"""
LOOKS = 16_000
"""elements a call may look at: half a millisecond"""
ROW = 400
"""what an entry costs beside that, as that many elements; one that isn't in a list half of it"""
SEEK = 25
"""elements passed at the cost of one, on the way to a position"""


@dataclass(frozen=True, slots=True)
class Put:
    """An entry of a step: the list it was put into and the digest of its bytes, both empty where it
    went elsewhere; and its position from the left, with the list's size then. ``deep``: it may lie
    where nobody looked."""

    key: str = ""
    sha: str = ""
    at: int | Literal["deep"] | None = None
    size: int = 0

    @property
    def row(self) -> tuple[str, int | str]:
        return self.sha, "" if self.at is None else self.at


async def undo(
    queue: RubyJobQueue[Any], op: str, step: int, *, by: str, seq: int
) -> tuple[int, ...]:
    """How many were put back, and how many touched; and where some are left, how many."""
    said: tuple[int, ...] = ()
    for _ in range(ROUNDS):
        puts = await look(queue, op, step)
        deep = sum(put.at == "deep" for put in puts)
        while puts or not said:
            n = portion(puts)
            said = await queue._script("undo").call(
                queue.keys, queue.clock, _numbers, [put.row for put in puts[:n]],
                caller=by, seq=seq, op=op, step=step, **queue._about(),
            )  # fmt: skip
            puts = _behind(puts, n) if said[2] else []
        if said[2] <= deep:
            break
    return said if said[2] else said[:2]


def portion(puts: Sequence[Put]) -> int:
    """How many of them, from the first on, one call may take out: at least one, if there is any."""
    walks: dict[tuple[str, bool], int] = {}
    rest = 0
    for n, put in enumerate(puts):
        rest += ROW if isinstance(put.at, int) else ROW // 2
        if isinstance(put.at, int):
            left = put.at < put.size - put.at
            near = put.at + 1 if left else put.size - put.at
            walks[put.key, left] = max(near, walks.get((put.key, left), 0))
            rest += near // SEEK
        if n and sum(walks.values()) + rest > LOOKS:
            return n
    return len(puts)


def _behind(puts: Sequence[Put], n: int) -> list[Put]:
    """The others, when the first ``n`` have left their lists."""
    gone = [(put.key, put.at) for put in puts[:n] if isinstance(put.at, int)]
    return [
        replace(put, at=put.at - sum(key == put.key and at < put.at for key, at in gone))
        if isinstance(put.at, int)
        else put
        for put in puts[n:]
    ]


async def look(queue: RubyJobQueue[Any], op: str, step: int) -> list[Put]:
    """What a step moved and wasn't undone, in its order, and where it is now.

    A list is read by pages from the end where new jobs come: they are the last to be taken.
    """
    puts = await _moved(queue, op, step)
    lists: defaultdict[str, defaultdict[str, deque[int]]] = defaultdict(lambda: defaultdict(deque))
    for n, put in enumerate(puts):
        if put.key:
            lists[put.key][put.sha].appendleft(n)  # of equal ones the last went in last
    for key, missing in lists.items():
        place = Place("list", key, "", _unread, queue.side == "LEFT")
        inner, size, more, left = None, 0, True, sum(map(len, missing.values()))
        while left and more:
            found, inner, size = await place.after(inner, PAGE)
            for seen in found:
                sha = digest(seen.member)
                if missing.get(sha):
                    n = missing[sha].popleft()
                    puts[n] = Put(key, sha, seen.at, size)
                    left -= 1
            inner, more = reachable(inner, size), inner is not None
        if size > 2 * DEPTH:  # they may lie where nobody looked
            for n in (n for rest in missing.values() for n in rest):
                puts[n] = Put(key, puts[n].sha, "deep", size)
    return puts


async def _moved(queue: RubyJobQueue[Any], op: str, step: int) -> list[Put]:
    puts: list[Put] = []
    while True:
        said = await queue._script("undo_places").call(
            queue.keys, queue.clock, words, op=op, step=step, behind=len(puts)
        )
        puts += [Put(key, sha) for key, sha in zip(said[1::2], said[2::2], strict=True)]
        if said[0] == "0":
            return puts


def _numbers(reply: list[Any]) -> tuple[int, ...]:
    return tuple(map(int, reply))


async def _unread(place: Place, rows: Sequence[Row], /) -> Sequence[Entry]:
    """Elements of which only the bytes matter."""
    return [Entry("", "waiting")] * len(rows)
