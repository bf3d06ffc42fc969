"""What waits in a request queue, page by page: no list has it, each request's stream has its own.

Of a request wait those that are to run again (in the group's list, under ``~waiting``), and behind
them what was never delivered: the stream from the reading position on, without what was purged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..io import Call, both, together
from ..reply import number, scored
from ..values import Page
from . import stream

if TYPE_CHECKING:
    from .queue import RequestQueue

_REQUESTS = 50
"""open requests that are looked up at a time"""


async def waiting(
    queue: RequestQueue[Any], cursor: str | None, max: int, start: int | None, payloads: bool
) -> Page:
    """Waiting sub-requests of open requests: oldest request first, by number.

    The cursor is ``created:request/number``. A window by rank isn't offered: ``start`` only skips
    from the front, ``max`` + ``start`` at most.
    """
    total = (await queue.counts.op()).waiting
    created, position = (None, "") if cursor is None else cursor.split(":", 1)
    rid, _, behind = position.rpartition("/")
    want = max + (start or 0)
    ids: list[str] = []
    more, begin, skip = True, created or "-inf", 0
    while len(ids) < want and more:
        requests = await scored(
            queue.keys["open"], begin, "+inf", "BYSCORE", "LIMIT", str(skip), str(_REQUESTS)
        )
        more = len(requests) == _REQUESTS
        skip += len(requests)
        for request, at in requests:
            if created and (at, request) < (float(created), rid):
                continue
            low = int(behind) if request == rid and behind else 0
            found = await _numbers(queue, request, low, want - len(ids) + 1)
            ids += [f"{at:.0f}:{request}/{n}" for n in found]
            if len(ids) > want:
                break
    page = ids[start or 0 : want]
    rows = [(item.split(":", 1)[1], None) for item in page]
    entries = await queue._entries("waiting", rows, payloads)
    last = page[-1] if page and len(ids) > want else None
    return Page(tuple(entries), last, total)


async def _numbers(queue: RequestQueue[Any], rid: str, behind: int, max: int) -> list[int]:
    """Numbers of a request's waiting sub-requests after ``behind``, in order."""
    key, record_key = queue.keys["s_"] + rid, queue.keys["r_"] + rid
    trash = queue.keys["trash"]
    marks = Call(
        ("HMGET", record_key, "waiting", "again", "read"),
        lambda reply: [int(v or 0) for v in reply],
        key=record_key,
    )
    again_rows = stream.held(key, f"({behind}-0", "+", max, "~waiting")
    (left, again, read), reserved = await both(marks, again_rows)
    if not left:
        return []
    numbers = [row.number for row in reserved]
    low = read if read > behind else behind
    while len(numbers) < max and left > again:
        page = await stream.entries(key, f"({low}-0", "+", max)
        if not page:
            break
        scores = await together(
            Call(("ZSCORE", trash, f"{rid}/{n}"), number, key=trash) for n, _ in page
        )
        numbers += [n for (n, _), at in zip(page, scores, strict=True) if at is None]
        low = page[-1][0]
    return numbers[:max]
