"""What comes before a request or a sub-request, and who has its tokens.

Three round trips, whatever is in the queue: lists are searched 1,000 elements deep, at most 100
other requests are read, and a number that isn't exact for that reason says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...model import record
from ...model.entry import Request
from ...model.queue_position import DEPTH, HOLDERS, OTHERS, Ahead, Holder, QueuePosition
from ...model.settings import PRIORITIES
from ...redis.operation import Call, together
from ...redis.parsers import integers, moment, number, scored, scores_of
from . import stream

if TYPE_CHECKING:
    from .records import RequestRecords

_ROWS = 100


def tokens(queue: RequestRecords[Any]) -> list[Call[int]]:
    """How many tokens lie in the list of each priority."""
    lists = [f"{queue.keys['p_']}{priority}" for priority in range(PRIORITIES)]
    return [Call(("LLEN", key), int, key=key) for key in lists]


async def queue_position(queue: RequestRecords[Any], rid: str, n: int | None) -> QueuePosition:
    """The position of a request, or of its sub-request ``n``."""
    keys = queue.keys
    group, record_key = keys["s_"] + rid, keys["r_"] + rid
    marks = Call(("HMGET", record_key, "gen", "again", "read"), integers, key=record_key)
    request, (gen, again, read), listed, oldest, members = await together(
        queue._record(rid),
        marks,
        together(tokens(queue)),
        scored(keys["open"], "0", str(OTHERS - 1)),
        stream.consumers(group),
    )
    if request is None:
        return QueuePosition(open=sum(listed))
    mine = f"{keys['p_']}{request.priority}"
    word = f"{rid}|{gen}"
    place = Call(("LPOS", mine, word, "RANK", -1, "MAXLEN", DEPTH), number, key=mine)
    # What runs again comes before what was never delivered, by number.
    again_key = keys["again_"] + rid
    returned = Call(("ZCOUNT", again_key, "-inf", f"({n or 1}"), int, key=again_key)
    busy = [one.name for one in members if one.pending]
    at, first, late, held, others = await together(
        place,
        returned,
        stream.again(keys["later_"] + rid, "-inf", "+inf", _ROWS),
        together(stream.held(group, "-", "+", _ROWS // 5, name) for name in busy[:HOLDERS]),
        together(queue._record(name) for name, _ in oldest if name != rid),
    )
    ids = [f"{rid}/{row.number}" for rows in held for row in rows]
    holders, due = await together(
        _holders(queue, ids), _scores(queue, "delay", [f"{rid}/{number}" for number in late])
    )
    own = None
    if n is not None:
        there = first if n <= read else again + n - 1 - read
        own = Ahead("entries of its request", there, n <= read or not request.trash)
    ahead = tuple(_ahead(request, listed, at, own))
    before = _before(request, own.number if own else 0, others)
    before = max(before, sum(one.number for one in ahead))  # an entry for each token, at least
    return QueuePosition(
        here=True,
        open=sum(listed),
        ahead=ahead,
        before=before,
        request=request,
        holders=tuple(sorted(holders, key=lambda holder: holder.since_ms or 0)),
        holders_all=len(holders) >= request.pending,
        next_ms=min((ms for at in due if (ms := moment(at)) is not None), default=None),
    )


def _ahead(
    request: Request, listed: Sequence[int], at: float | None, own: Ahead | None
) -> Iterator[Ahead]:
    higher = sum(listed[: request.priority])
    if higher:
        yield Ahead("tokens of higher priorities", higher)
    if request.tokens:  # taken from the right
        size = listed[request.priority]
        before = size - 1 - int(at) if at is not None else min(size, DEPTH)
        if before > 0:
            yield Ahead("tokens of other requests of its priority", before, at is not None)
    if own is not None and own.number:
        yield own


def _before(request: Request, own: int, others: Sequence[Request | None]) -> int:
    """About how many entries are handed out first: of requests with tokens and a higher priority
    all, and of each with the same priority as many as of this one, since they take turns."""
    before = own
    for other in others:
        if other is None or other.paused or not other.tokens:
            continue
        if other.priority < request.priority:
            before += other.waiting
        elif other.priority == request.priority:
            before += min(other.waiting, own)
    return before


async def _holders(queue: RequestRecords[Any], ids: Sequence[str]) -> list[Holder]:
    if not ids:
        return []
    meta = queue.keys["meta"]
    scores, lines = await together(
        _scores(queue, "lease", ids), Call(("HMGET", meta, *ids), list[Any], key=meta)
    )
    found = []
    for id, score, line in zip(ids, scores, lines, strict=True):
        entry = record.readable(id, "pending", score, line)
        if score is not None:  # else it was settled between the two looks
            found.append(Holder(id, entry.consumer, entry.since_ms, entry.at_ms))
    return found


async def _scores(queue: RequestRecords[Any], part: str, ids: Sequence[str]) -> list[float | None]:
    if not ids:
        return []
    return await scores_of(queue.keys[part], ids)
