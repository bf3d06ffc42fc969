"""Which parts a table is read in. No Spark in here.

A *part* is what one task reads: a span of a sorted set, a range of a history stream, some
requests, or a whole state where its layout can't be cut. It is decided once, from counts and a few
ranks; so the parts of one read never overlap, and a task that is run again reads the same range.
What moves from one state to another meanwhile may be met in both or in neither: a table is not of
one moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redisq_ops.core.engine.optional_features import HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered, all_queues, find
from redisq_ops.core.engine.state_scan import ScoreRange
from redisq_ops.core.model.entry import Request, State
from redisq_ops.core.model.errors import NotFound, RedisqError, Refused, Unreadable, WrongKind
from redisq_ops.core.redis.operation import attempt
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.hint import hint

from .batch import why
from .options import Options
from .ranges import Range, planned

STATES: dict[str, State] = {
    "dead": "dead", "pending": "pending", "delayed": "delayed", "waiting": "waiting",
}  # fmt: skip
WHOLE = 250
"""rows of a page of requests, or of what is read entry by entry"""
NAMED = 10_000
"""requests of a shard whose sizes are looked up when its sub-requests are shared out"""

logger = logging.getLogger("redisq_ops.pipeline")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Sub-requests ``first`` to ``last`` of a request.

    ``wrong``: how many it has can't be read, for this reason.
    """

    request: str
    first: int
    last: int
    wrong: str | None = None


@dataclass(frozen=True, slots=True)
class TablePart:
    """What one task reads."""

    queue: str
    entry: Registered | None
    """None: another program's queue, found by its name"""
    shard: int = 0
    span: ScoreRange | None = None
    range: Range | None = None
    settled: bool | None = None
    """of a span of requests: which ones they are"""
    numbers: tuple[Numbers, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A queue to read, and how it was found."""

    queue: Queue[Any]
    entry: Registered | None


async def queues(options: Options) -> list[Found]:
    """The queues that are meant. One that is named and isn't there is `NotFound`."""
    deployment = Deployment(prefix=options.prefix)
    found = []
    if options.queue:
        for name in dict.fromkeys(options.queue):
            entry = await find(name, options.prefix)
            queue = await deployment.foreign(name) if entry is None else deployment.open(entry)
            if queue is None:
                raise NotFound(f"no queue {name!r} here ({hint('ls')} shows what there is)")
            found.append(Found(queue, entry))
        return found
    for entry in await all_queues(options.prefix):
        try:
            found.append(Found(deployment.open(entry), entry))
        except Refused as error:  # one that is too new must not hide the others
            logger.warning("not read: %s", error)
    return found


def _apart(options: Options, found: list[Found]) -> list[Found]:
    """Each entry in one queue only: without those of another program's queues of which the whole
    deployment is read too. What was done here to each of them is in its own history."""
    if options.queue or options.table == "history":
        return found
    wholes = [one.queue for one in found if one.queue.whole]
    return [one for one in found if not any(whole.covers(one.queue) for whole in wholes)]


async def plan(options: Options) -> list[TablePart]:
    """The parts of a table, by a few reads per shard."""
    parts: list[TablePart] = []
    for found in _apart(options, await queues(options)):
        for shard, leaf in enumerate(found.queue.shard_queues):
            whole = TablePart(found.queue.name, found.entry, shard)
            parts += await _PLANS[options.table](options, leaf, whole)
    return parts


async def _entries(options: Options, leaf: Queue[Any], whole: TablePart) -> list[TablePart]:
    state = STATES[options.table]
    spans = await leaf.score_ranges.op(state, options.rows, options.since_ms, options.until_ms)
    return [whole] if spans is None else [replace(whole, span=span) for span in spans]


async def _history(options: Options, leaf: Queue[Any], whole: TablePart) -> list[TablePart]:
    mark = options.known.get(f"{whole.queue}/{whole.shard}")
    found = await planned(leaf, options.since_ms, options.until_ms, options.rows, mark)
    return [replace(whole, range=one) for one in found]


async def _requests(options: Options, leaf: Queue[Any], whole: TablePart) -> list[TablePart]:
    if not isinstance(leaf, HasRequests):
        return []
    if options.request is not None:
        there = await _named(options, options.request, leaf)
        one = Numbers(options.request, 1, 0)
        return [] if there is None else [replace(whole, numbers=(one,))]
    return [
        replace(whole, span=span, settled=settled)
        for settled in _which(options)
        for span in await leaf.request_ranges.op(settled, options.rows)
    ]


async def _named(options: Options, id: str, leaf: HasRequests[Any]) -> Request | Exception | None:
    """The one request that is asked for; None too where it isn't of those that are meant."""
    there = await attempt(leaf.request.op(id))
    if isinstance(there, RedisqError) and not isinstance(there, (WrongKind, Unreadable)):
        raise there
    meant = not isinstance(there, Request) or there.settled in _which(options)
    return there if meant else None


def numbered(id: str, record: Request | Exception | None) -> Numbers:
    """All of a request's sub-requests."""
    if isinstance(record, Exception):
        return Numbers(id, 1, 1, f"the record of its request can't be read: {why(record)}")
    return Numbers(id, 1, 0 if record is None else record.total)


def _which(options: Options) -> list[bool]:
    return {"open": [False], "settled": [True], "all": [False, True]}[options.requests]


async def _subrequests(options: Options, leaf: Queue[Any], whole: TablePart) -> list[TablePart]:
    """By numbers where requests are few enough to ask how large each is; by their age else."""
    if not isinstance(leaf, HasRequests):
        return []
    if options.request is not None:
        one = numbered(options.request, await _named(options, options.request, leaf))
        return [replace(whole, numbers=some) for some in _shared_out([one], options.rows)]
    parts: list[TablePart] = []
    for settled in _which(options):
        (everything,) = await leaf.request_ranges.op(settled, 10**12) or [ScoreRange()]
        if everything.entries > NAMED:
            size = max(1, options.rows // 100)
            spans = await leaf.request_ranges.op(settled, size)
            parts += [replace(whole, span=span, settled=settled) for span in spans]
            continue
        numbers, cursor, more = [], None, bool(everything.entries)
        while more:
            rows, cursor = await leaf.read_request_range.op(settled, everything, cursor, WHOLE)
            numbers += [numbered(id, record) for id, record in rows]
            more = cursor is not None
        parts += [replace(whole, numbers=some) for some in _shared_out(numbers, options.rows)]
    return parts


def _shared_out(numbers: Sequence[Numbers], size: int) -> Iterator[tuple[Numbers, ...]]:
    """Lots of about ``size`` sub-requests; a large request is in several."""
    lot: list[Numbers] = []
    room = size
    for one in numbers:
        first = one.first
        while first <= one.last:
            last = min(one.last, first + room - 1)
            lot.append(replace(one, first=first, last=last))
            room -= last - first + 1
            first = last + 1
            if not room:
                yield tuple(lot)
                lot, room = [], size
    if lot:
        yield tuple(lot)


_PLANS: dict[str, Callable[[Options, Queue[Any], TablePart], Any]] = {
    **dict.fromkeys(STATES, _entries),
    "history": _history,
    "requests": _requests,
    "subrequests": _subrequests,
    "results": _subrequests,
}
