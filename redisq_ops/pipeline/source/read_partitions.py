"""Split a table into parts, one per Spark partition. Uses no Spark.

A *part* is what one task reads: a span of a sorted set, a range of a history stream, some requests,
or a whole state if its layout can't be split. Parts are planned once, from counts and a few ranks;
so the parts of one read never overlap, and a repeated task reads the same range. An entry that
changes its state during a read may be read in both states or in neither: a table is not a snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redisq_ops.core.engine.optional_features import (
    HasDoneEntries,
    HasPeriodicEntries,
    HasRequests,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import Registered, all_queues, find
from redisq_ops.core.engine.state_scan import ScoreRange
from redisq_ops.core.model.entry import Request, State
from redisq_ops.core.model.errors import NotFound, RedisqError, Refused, Unreadable, WrongKind
from redisq_ops.core.redis.operation import attempt, together
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.hint import hint
from redisq_ops.ops.required_features import with_done, with_periodic

from .arrow_batch import describe_error
from .history_ranges import HistoryRange, plan_ranges
from .options import Options

ENTRY_STATES: dict[str, State] = {
    "dead": "dead",
    "pending": "pending",
    "delayed": "delayed",
    "waiting": "waiting",
    "finished": "done",
}
PAGE_ROWS = 500
"""rows per page of requests, and per page of entries read one by one"""
TOGETHER = {"counts": 200, "tasks": 10, "schedules": 50}
"""tables about queues -> shards, or queues, that one task reads"""
MAX_SIZED_REQUESTS = 10_000
"""up to this many requests per shard, the size of each is read to split its sub-requests"""

logger = logging.getLogger("redisq_ops.pipeline")


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Sub-requests ``first`` to ``last`` of a request.

    ``problem``: why the request's size can't be read.
    """

    request: str
    first: int
    last: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class TablePart:
    """What one task reads."""

    queue: str
    entry: Registered | None
    """None: a queue of another program, found by name"""
    shard: int = 0
    span: ScoreRange | None = None
    range: HistoryRange | None = None
    settled: bool | None = None
    """for a span of requests: whether settled or open ones"""
    numbers: tuple[NumberRange, ...] = ()
    ids: tuple[str, ...] = ()
    """entries to look up"""
    rows: int | None = None
    """number of rows, if they are only counted"""
    shards: tuple[TablePart, ...] = ()
    """for a table of `TOGETHER`: the shards or queues"""


@dataclass(frozen=True, slots=True)
class OpenedQueue:
    """A queue to read, and its entry in the registry."""

    queue: Queue[Any]
    entry: Registered | None


async def open_queues(options: Options) -> list[OpenedQueue]:
    """The queues that the options select; `NotFound` if a named one does not exist."""
    deployment = Deployment(prefix=options.prefix)
    found = []
    if options.queue:
        for name in dict.fromkeys(options.queue):
            entry = await find(name, options.prefix)
            queue = await deployment.foreign(name) if entry is None else deployment.open(entry)
            if queue is None:
                near = await deployment.similar(name)
                raise NotFound(f"no queue {name!r}{near} ({hint('ls')} lists the queues)")
            found.append(OpenedQueue(queue, entry))
        return found
    for entry in await all_queues(options.prefix):
        try:
            found.append(OpenedQueue(deployment.open(entry), entry))
        except Refused as error:  # a queue of a newer format must not hide the others
            logger.warning("queue skipped: %s", error)
    return found


def _without_duplicates(options: Options, found: list[OpenedQueue]) -> list[OpenedQueue]:
    """Leave out queues of another program that are also read as part of its whole deployment.

    So each entry is read once. The history is different: each queue has its own.
    """
    if options.queue or options.table == "history":
        return found
    wholes = [opened.queue for opened in found if opened.queue.whole]
    return [one for one in found if not any(whole.covers(one.queue) for whole in wholes)]


async def plan_parts(options: Options) -> list[TablePart]:
    """The parts of a table; takes a few reads per shard."""
    parts: list[TablePart] = []
    for found in _without_duplicates(options, await open_queues(options)):
        if not _is_kept(options, found.queue):
            continue
        if options.table in ("tasks", "schedules"):
            parts.append(TablePart(found.queue.name, found.entry))
            continue
        for shard, shard_queue in enumerate(found.queue.shard_queues):
            shard_part = TablePart(found.queue.name, found.entry, shard)
            parts += await _PLANNERS[options.table](options, shard_queue, shard_part)
    if (most := TOGETHER.get(options.table)) is not None:
        return [
            replace(parts[first], shards=tuple(parts[first : first + most]))
            for first in range(0, len(parts), most)
        ]
    return parts


def _is_kept(options: Options, queue: Queue[Any]) -> bool:
    """Whether the queue keeps what the table lists. `WrongKind` for a queue that was named and
    doesn't: no rows would mean that there is nothing."""
    feature = {"finished": HasDoneEntries, "schedules": HasPeriodicEntries}.get(options.table)
    if feature is None or isinstance(queue, feature):
        return True
    if options.queue:
        (with_done if feature is HasDoneEntries else with_periodic)(queue)
    return False


async def _count_parts(
    options: Options, shard_queue: Queue[Any], shard_part: TablePart
) -> list[TablePart]:
    return [shard_part]


async def _entry_parts(
    options: Options, shard_queue: Queue[Any], shard_part: TablePart
) -> list[TablePart]:
    state = ENTRY_STATES[options.table]
    if options.id:
        return await _looked_up(options, shard_queue, shard_part)
    if options.request is not None:
        return await _subrequest_parts(options, shard_queue, shard_part)
    if options.counts_rows and shard_queue.has_columns:
        counts = await shard_queue.counts.op()
        rows = None if counts.problem else counts.of(state)
        if rows is not None:
            return [replace(shard_part, rows=rows)] if rows else []
    spans = await shard_queue.score_ranges.op(
        state, options.rows, options.since_ms, options.until_ms
    )
    return [shard_part] if spans is None else [replace(shard_part, span=span) for span in spans]


async def counts_only(options: Options) -> bool:
    """Whether a read takes counters and no rows. Another program's counters may count what is no
    entry, so its entries are read."""
    if options.table not in ENTRY_STATES or not options.counts_rows:
        return False
    return all(opened.queue.has_columns for opened in await open_queues(options))


async def _looked_up(
    options: Options, shard_queue: Queue[Any], shard_part: TablePart
) -> list[TablePart]:
    """A part with the entries of the option ``id`` that the shard has; no part without any."""
    found = await together(attempt(shard_queue.get.op(id)) for id in options.id)
    ids = tuple(id for id, entry in zip(options.id, found, strict=True) if entry is not None)
    return [replace(shard_part, ids=ids)] if ids else []


async def _history_parts(
    options: Options, shard_queue: Queue[Any], shard_part: TablePart
) -> list[TablePart]:
    mark = (options.marks or {}).get(f"{shard_part.queue}/{shard_part.shard}")
    found = await plan_ranges(shard_queue, options.since_ms, options.until_ms, options.rows, mark)
    return [replace(shard_part, range=history_range) for history_range in found]


async def _request_parts(
    options: Options, shard_queue: Queue[Any], shard_part: TablePart
) -> list[TablePart]:
    if not isinstance(shard_queue, HasRequests):
        return []
    if options.request is not None:
        record = await _named_request(options, options.request, shard_queue)
        no_numbers = NumberRange(options.request, 1, 0)
        return [] if record is None else [replace(shard_part, numbers=(no_numbers,))]
    return [
        replace(shard_part, span=span, settled=settled)
        for settled in _settled_flags(options)
        for span in await shard_queue.request_ranges.op(settled, options.rows)
    ]


async def _named_request(
    options: Options, id: str, shard_queue: HasRequests[Any]
) -> Request | Exception | None:
    """The request of the option ``request``; None if missing or excluded by ``requests``."""
    record = await attempt(shard_queue.request.op(id))
    if isinstance(record, RedisqError) and not isinstance(record, (WrongKind, Unreadable)):
        raise record
    selected = not isinstance(record, Request) or record.settled in _settled_flags(options)
    return record if selected else None


def all_numbers(id: str, record: Request | Exception | None) -> NumberRange:
    """The range of all sub-requests of a request."""
    if isinstance(record, Exception):
        return NumberRange(
            id, 1, 1, f"the record of its request can't be read: {describe_error(record)}"
        )
    return NumberRange(id, 1, 0 if record is None else record.total)


def _settled_flags(options: Options) -> list[bool]:
    return {"open": [False], "settled": [True], "all": [False, True]}[options.requests]


async def _subrequest_parts(
    options: Options, shard_queue: Queue[Any], shard_part: TablePart
) -> list[TablePart]:
    """Parts by number if requests are few enough to read the size of each, else by age."""
    if not isinstance(shard_queue, HasRequests):
        return []
    if options.id:
        return await _looked_up(options, shard_queue, shard_part)
    if options.request is not None:
        record = await _named_request(options, options.request, shard_queue)
        request_numbers = all_numbers(options.request, record)
        return [replace(shard_part, numbers=lot) for lot in _lots([request_numbers], options.rows)]
    parts: list[TablePart] = []
    for settled in _settled_flags(options):
        (whole_span,) = await shard_queue.request_ranges.op(settled, 10**12) or [ScoreRange()]
        if whole_span.entries > MAX_SIZED_REQUESTS:
            size = max(1, options.rows // 100)
            spans = await shard_queue.request_ranges.op(settled, size)
            parts += [replace(shard_part, span=span, settled=settled) for span in spans]
            continue
        numbers, cursor, more = [], None, bool(whole_span.entries)
        while more:
            rows, cursor = await shard_queue.read_request_range.op(
                settled, whole_span, cursor, PAGE_ROWS
            )
            numbers += [all_numbers(id, record) for id, record in rows]
            more = cursor is not None
        parts += [replace(shard_part, numbers=lot) for lot in _lots(numbers, options.rows)]
    return parts


def _lots(numbers: Sequence[NumberRange], size: int) -> Iterator[tuple[NumberRange, ...]]:
    """Lots of about ``size`` sub-requests; a large request is in several lots."""
    lot: list[NumberRange] = []
    capacity = size
    for request_numbers in numbers:
        first = request_numbers.first
        while first <= request_numbers.last:
            last = min(request_numbers.last, first + capacity - 1)
            lot.append(replace(request_numbers, first=first, last=last))
            capacity -= last - first + 1
            first = last + 1
            if not capacity:
                yield tuple(lot)
                lot, capacity = [], size
    if lot:
        yield tuple(lot)


_PLANNERS: dict[str, Callable[[Options, Queue[Any], TablePart], Any]] = {
    **dict.fromkeys(ENTRY_STATES, _entry_parts),
    "counts": _count_parts,
    "history": _history_parts,
    "requests": _request_parts,
    "subrequests": _subrequest_parts,
    "results": _subrequest_parts,
}
