"""What must add up in a request queue; used by the tests after every step and by ``fsck``.

On a live queue the parts are read one after another while workers go on, so one check may
report a violation by mistake: repeat it. Reads by pages only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...model.entry import Request
from ...model.keys import Keys
from ...model.settings import PRIORITIES
from ...model.states import ZSETS
from ...redis.operation import Call, in_batches, together
from ...redis.parsers import integers
from ...redis.whole_keys import elements, members
from . import stream
from .records import RequestRecords

_FIELDS = ("again", "gen", "tok", "waiting", "trash")
_LIVE = ("open", "sealed")


async def violations(queue: RequestRecords[Any]) -> list[str]:
    """Every broken rule, in words."""
    keys = queue.keys
    problems: list[str] = []
    counted: dict[str, Counter[str]] = {}
    seen: Counter[str] = Counter()
    for state, part in ZSETS.items():
        ids = await members(keys[part])
        seen.update(ids)
        counted[state] = Counter(id.rpartition("/")[0] for id in ids)
    problems += [f"{id} is in {n} states" for id, n in seen.items() if n > 1]
    tokens: Counter[str] = Counter()
    listed_priorities = set(await members(keys["prios"]))
    ranked = [priority for priority in range(PRIORITIES) if str(priority) in listed_priorities]
    odd = listed_priorities - set(map(str, ranked))
    problems += [f"prios has {word!r}, which is no priority" for word in sorted(odd)]
    lists = [f"{keys['p_']}{priority}" for priority in range(PRIORITIES)]
    there, contents = await together(
        Call(("EXISTS", *lists), int, key=lists[0]),
        together(elements(lists[p]) for p in ranked),
    )
    for priority, listed in zip(ranked, contents, strict=True):
        tokens.update(f"{priority}|{word}" for word in listed)
    if there > sum(map(bool, contents)):
        problems.append("a priority has tokens and is not in prios")
    waiting = cancelled = 0
    open_ids, fin_ids = await members(keys["open"]), await members(keys["fin"])
    rids, opened = [*open_ids, *fin_ids], set(open_ids)
    for rid, (request, marks, stream_of) in zip(rids, await _looked_at(queue, rids), strict=True):
        if request is None:
            problems.append(f"{rid} is listed and has no record")
            continue
        if request.state == "cancelled":
            cancelled += marks[3]
        else:
            waiting += marks[3]
        by_state = {state: ids[rid] for state, ids in counted.items()}
        _check_counts(problems, rid, request, marks, by_state, rid in opened)
        listed_tokens = tokens[f"{request.priority}|{rid}|{marks[1]}"]
        _check_stream(problems, rid, request, marks, stream_of, listed_tokens)
    stat = keys["stat"]
    known = await Call(("HMGET", stat, "waiting", "cancelled"), integers, key=stat)
    _expect(problems, "queue", "waiting", known[0], waiting)
    _expect(problems, "queue", "cancelled", known[1], cancelled)
    return problems


def _check_counts(
    problems: list[str],
    rid: str,
    request: Request,
    marks: Sequence[int],
    counted: Mapping[str, int],
    open: bool,
) -> None:
    """A request's own counts, against the entries that were ``counted`` in each state.

    ``open``: it is listed with the requests that aren't done.
    """
    binned = marks[4]
    parts = (
        request.waiting
        + request.pending
        + request.delayed
        + request.done
        + request.dead
        + request.trash
    )
    _expect(problems, rid, "total", request.total, parts)
    _expect(problems, rid, "pending", request.pending, counted["pending"])
    _expect(problems, rid, "delayed", request.delayed, counted["delayed"])
    _expect(problems, rid, "dead", request.dead, counted["dead"])
    _expect(problems, rid, "trash", binned, counted["trash"])
    if (request.state in _LIVE) != open:
        problems.append(f"{rid} is {request.state} and listed in the wrong place")
    active = request.waiting + request.pending + request.delayed
    if request.state == "sealed" and active + request.moving == 0:
        problems.append(f"{rid} is finished and not done")
    if request.state == "done" and active:
        problems.append(f"{rid} is done with {active} to do")


def _check_stream(
    problems: list[str],
    rid: str,
    request: Request,
    marks: Sequence[int],
    stream_of: tuple[int, int, int, int],
    listed_tokens: int,
) -> None:
    """A request's stream, its pending list and its tokens, against its counts."""
    again, _, tok, rest, binned = marks
    length, pel, listed, later = stream_of
    if not (request.state == "done" and request.dead + binned == 0):
        gone = request.done + (request.trash - binned if request.state != "cancelled" else 0)
        if request.state == "cancelled":
            gone = request.total - rest - request.pending - request.delayed - request.dead
            gone -= binned
        _expect(problems, rid, "stream length", length, request.total - gone)
    _expect(problems, rid, "to run again", listed, again)
    _expect(problems, rid, "to run again later", later, request.delayed)
    _expect(problems, rid, "PEL", pel, request.pending)
    _expect(problems, rid, "tokens listed", listed_tokens, tok)
    if request.state in _LIVE and not request.paused:
        want = min(request.limit - request.pending, request.waiting)
        if tok < want:
            problems.append(f"{rid} has {tok} tokens where {want} are due: it could get stuck")


def _expect(problems: list[str], what: str, name: str, have: int, should: int) -> None:
    if have != should:
        problems.append(f"{what}: {name} is {have}, counted {should}")


async def _looked_at(queue: RequestRecords[Any], rids: list[str]) -> list[Any]:
    """Record, marks, stream and pending list of each request, 100 requests a round trip."""

    def all_of(rid: str) -> Any:
        marks = Call(("HMGET", queue.keys["r_"] + rid, *_FIELDS), integers, key=queue.keys["r_"])
        return together(queue.request.op(rid), marks, _stream(queue.keys, rid))

    return await in_batches(map(all_of, rids))


async def _stream(keys: Keys, rid: str) -> tuple[int, int, int, int]:
    """Number of entries in the stream, pending, to run again now, and to run again later."""
    key, again, later = keys["s_"] + rid, keys["again_"] + rid, keys["later_"] + rid
    length, pel, now, then = await together(
        Call(("XLEN", key), int, key=key),
        stream.pending(key),
        Call(("ZCARD", again), int, key=again),
        Call(("ZCARD", later), int, key=later),
    )
    return length, pel, now, then
