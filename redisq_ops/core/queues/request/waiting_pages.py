"""Pages of the waiting sub-requests of a request queue: each request has its own in its stream.

The waiting sub-requests of a request are first those that are to run again (a sorted set of their
numbers), then those never delivered: the stream from the reading position on, without purged ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...engine.state_scan import Position, Unread, WaitingIds, positions
from ...model.entry import PageQuery
from ...redis.operation import Call, Description, attempt, together
from ...redis.parsers import number, spelt
from . import stream

if TYPE_CHECKING:
    from .records import RequestRecords

_REQUESTS = 500
"""open requests that are looked up at a time, at most"""


async def waiting(queue: RequestRecords[Any], query: PageQuery) -> WaitingIds:
    """Waiting sub-requests of open requests: oldest request first, by number.

    The cursor is ``created:request/number``, without a number behind a request that can't be read.
    A window by rank isn't offered: ``start`` only skips from the front, ``max`` + ``start`` at
    most. The number of requests doesn't change the number of round trips, unless hundreds of the
    oldest ones have nothing waiting, or purged entries are in between.
    """
    created, place = (None, "") if query.cursor is None else query.cursor.split(":", 1)
    after, _, behind = place.encode("utf-8", "surrogateescape").rpartition(b"/")
    start = query.start or 0
    want = start + query.max
    found: list[tuple[Position, int | Exception]] = []
    more, begin, skip, batch = True, created or "-inf", 0, min(_REQUESTS, want + 1)
    while len(found) <= want and more:
        requests = await positions(
            queue.keys["open"], begin, "+inf", "BYSCORE", "LIMIT", skip, batch
        )
        more = len(requests) == batch
        skip += len(requests)
        if created:
            first = (float(created), after)
            requests = [one for one in requests if one > first or (one == first and behind)]
        marks = await together(attempt(_marks(queue, id)) for _, id in requests)
        rest = deque(zip(requests, marks, strict=True))
        while rest and len(found) <= want:
            # As many requests at once as fill the page, by their own counts of what waits.
            chosen: list[Position] = []
            reads: list[Description[list[int] | Exception]] = []
            missing = want + 1 - len(found)
            while rest and missing > 0:
                request, mark = rest.popleft()
                low = int(behind) if behind and request[1] == after else 0
                if isinstance(mark, Exception) or mark.waiting:
                    chosen.append(request)
                    reads.append(attempt(_numbers(queue, request[1], mark, low, missing)))
                if not low:  # how much of `after` was on earlier pages is unknown
                    missing -= 1 if isinstance(mark, Exception) else mark.waiting
            for request, numbers in zip(chosen, await together(reads), strict=True):
                some = [numbers] if isinstance(numbers, Exception) else numbers
                found += [(request, one) for one in some]
    page = found[start:want]
    last = _cursor(*page[-1]) if page and len(found) > want else None
    return WaitingIds(
        [b"%b/%d" % (id, n) for (_, id), n in page if not isinstance(n, Exception)],
        last,
        unread=tuple(Unread("request", id, n) for (_, id), n in page if isinstance(n, Exception)),
    )


def _cursor(request: Position, number: int | Exception) -> str:
    at, id = request
    place = "" if isinstance(number, Exception) else number
    return f"{spelt(at)}:{id.decode('utf-8', 'surrogateescape')}/{place}"


@dataclass(frozen=True, slots=True)
class _Marks:
    """A request's counts of sub-requests, and how far its stream was read."""

    waiting: int
    again: int
    trash: int
    read: int


async def _marks(queue: RequestRecords[Any], request: bytes) -> _Marks:
    key = queue.keys["r_"] + request.decode()
    return await Call(
        ("HMGET", key, "waiting", "again", "trash", "read"),
        lambda reply: _Marks(*(int(v or 0) for v in reply)),
        key=key,
    )


async def _numbers(
    queue: RequestRecords[Any], request: bytes, marks: _Marks | Exception, behind: int, max: int
) -> list[int]:
    """Numbers of a request's waiting sub-requests after ``behind``, in order."""
    if isinstance(marks, Exception):
        raise marks
    rid, trash = request.decode(), queue.keys["trash"]
    key, low = queue.keys["s_"] + rid, marks.read if marks.read > behind else behind
    numbers, unread = await together(
        stream.again(queue.keys["again_"] + rid, f"({behind}", "+inf", max),
        together([stream.numbers(key, f"({low}-0", max)] if marks.waiting > marks.again else []),
    )
    page = unread[0] if unread else []
    if not marks.trash:
        return [*numbers, *page][:max]
    while page and len(numbers) < max:
        scores = await together(
            Call(("ZSCORE", trash, f"{rid}/{n}"), number, key=trash) for n in page
        )
        numbers += [n for n, at in zip(page, scores, strict=True) if at is None]
        goes_on = len(page) == max and len(numbers) < max
        page = await stream.numbers(key, f"({page[-1]}-0", max) if goes_on else []
    return numbers[:max]
