"""The state and the outcome of each sub-request of a request, in order of number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...model.entry import Entry, Failure, State
from ...model.errors import Unreadable
from ...model.states import ZSETS
from ...redis.operation import Call, together
from ...redis.parsers import moment, scores_of
from . import stream

if TYPE_CHECKING:
    from .records import RequestRecords


@dataclass(frozen=True, slots=True)
class SubRequestOutcome:
    """One sub-request: its state, and its result or what made it dead."""

    number: int
    state: State
    result: bytes | None = None
    reason: str | None = None
    error: Failure | None = None
    at_ms: int | None = None
    """`Entry.at_ms`"""
    problem: str | None = None
    """why reason and error are unknown: its record is corrupt"""


async def outcomes(
    queue: RequestRecords[Any], id: str, start: int, max: int
) -> list[SubRequestOutcome]:
    """Sub-requests ``start …``; a round trip, and one more each for dead and for removed ones."""
    queue = await queue._holder(id)
    keys = queue.keys
    record, again_key = keys["r_"] + id, keys["again_"] + id
    marks = Call(
        ("HMGET", record, "state", "total", "waiting", "read", "purged"), list[Any], key=record
    )
    (state, total, waiting, read, purged), results, again, scores = await together(
        marks,
        queue._results(id, start, max),
        stream.again(again_key, str(start), str(start + max - 1), max),
        together(
            scores_of(keys[part], [f"{id}/{n}" for n in range(start, start + max)])
            for part in ZSETS.values()
        ),
    )
    undelivered: State = "waiting" if int(waiting or 0) and state != b"cancelled" else "trash"
    returned = set(again)
    found = []
    removed = await queue._purged_numbers(id, start, max) if int(purged or 0) else [False] * max
    rows = zip(results, removed, *scores, strict=True)
    for n, (result, gone, *ranks) in enumerate(rows, start):
        if n > int(total or 0):
            break
        named = [(name, at) for name, at in zip(ZSETS, ranks, strict=True) if at is not None]
        if named:
            where, at = named[0]
            found.append(SubRequestOutcome(n, where, result, at_ms=moment(at)))
        else:
            idle = n > int(read or 0) or n in returned
            ended: State = "trash" if gone else undelivered if idle else "done"
            found.append(SubRequestOutcome(n, ended, result))
    dead: list[tuple[str, float | None]] = [
        (f"{id}/{o.number}", None) for o in found if o.state == "dead"
    ]
    entries = iter(await queue._entries("dead", dead, payloads=False))
    return [o if o.state != "dead" else _with_reason(o, next(entries)) for o in found]


def _with_reason(dead: SubRequestOutcome, entry: Entry) -> SubRequestOutcome:
    reason, error, problem = entry.reason, entry.error, entry.problem
    return replace(dead, result=None, reason=reason, error=error, problem=problem)


async def entries(
    queue: RequestRecords[Any], id: str, start: int, max: int, payloads: bool
) -> list[Entry]:
    """Sub-requests ``start …`` as entries, whatever their state; done ones have no record. Raises
    the error of the first corrupt one: callers then ask again for fewer."""
    queue = await queue._holder(id)
    found = await outcomes(queue, id, start, max)
    rows: list[tuple[str, float | None]] = [(f"{id}/{o.number}", o.at_ms) for o in found]
    known = await queue._entries("waiting", rows, False)
    for entry in known:
        if entry.problem:
            raise Unreadable(entry.problem)
    if payloads:
        contents = await queue._payloads([entry.id for entry in known])
        pairs = zip(known, contents, strict=True)
        known = [replace(entry, payload=content) for entry, content in pairs]
    return [
        replace(entry, state=o.state, since_ms=o.at_ms if o.state in _SINCE else entry.since_ms)
        for o, entry in zip(found, known, strict=True)
    ]


_SINCE = ("dead", "trash")
