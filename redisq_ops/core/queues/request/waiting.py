"""What waits in a request queue, page by page: no list has it, each request's stream has its own.

Of a request wait those that are to run again (in a sorted set of their numbers), and behind
them what was never delivered: the stream from the reading position on, without what was purged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...engine.state_scan import Position, Unread, WaitingIds, positions
from ...model.entry import PageQuery
from ...redis.operation import Call, attempt, both, together
from ...redis.parsers import integers, number, spelt
from . import stream

if TYPE_CHECKING:
    from .records import RequestRecords

_REQUESTS = 50
"""open requests that are looked up at a time"""


async def waiting(queue: RequestRecords[Any], query: PageQuery) -> WaitingIds:
    """Waiting sub-requests of open requests: oldest request first, by number.

    The cursor is ``created:request/number``, without a number behind a request that can't be read.
    A window by rank isn't offered: ``start`` only skips from the front, ``max`` + ``start`` at
    most.
    """
    created, place = (None, "") if query.cursor is None else query.cursor.split(":", 1)
    after, _, behind = place.encode("utf-8", "surrogateescape").rpartition(b"/")
    start = query.start or 0
    want = start + query.max
    found: list[tuple[Position, int | Exception]] = []
    more, begin, skip = True, created or "-inf", 0
    while len(found) <= want and more:  # one behind the page says that it isn't the last
        requests = await positions(
            queue.keys["open"], begin, "+inf", "BYSCORE", "LIMIT", skip, _REQUESTS
        )
        more = len(requests) == _REQUESTS
        skip += len(requests)
        for request in requests:
            if created and request < (float(created), after):
                continue
            again = request[1] == after
            if again and not behind:
                continue
            numbers = await attempt(
                _numbers(queue, request[1], int(behind) if again else 0, want - len(found) + 1)
            )
            some = [numbers] if isinstance(numbers, Exception) else numbers
            found += [(request, one) for one in some]
            if len(found) > want:
                break
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


async def _numbers(queue: RequestRecords[Any], request: bytes, behind: int, max: int) -> list[int]:
    """Numbers of a request's waiting sub-requests after ``behind``, in order."""
    rid = request.decode()
    key, record_key = queue.keys["s_"] + rid, queue.keys["r_"] + rid
    trash = queue.keys["trash"]
    marks = Call(("HMGET", record_key, "waiting", "again", "read"), integers, key=record_key)
    (left, again, read), numbers = await both(
        marks, stream.again(queue.keys["again_"] + rid, f"({behind}", "+inf", max)
    )
    if not left:
        return []
    low = read if read > behind else behind
    while len(numbers) < max and left > again:
        page = await stream.numbers(key, f"({low}-0", "+", max)
        if not page:
            break
        scores = await together(
            Call(("ZSCORE", trash, f"{rid}/{n}"), number, key=trash) for n in page
        )
        numbers += [n for n, at in zip(page, scores, strict=True) if at is None]
        low = page[-1]
    return numbers[:max]
