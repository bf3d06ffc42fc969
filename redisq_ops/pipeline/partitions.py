"""Which parts a table is read in, and the reading of one part. No Spark in here.

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
from functools import partial
from typing import Any, TypeVar, cast

import pyarrow as pa

from redisq_ops.core.errors import Lost, NotFound, RedisqError, Refused, WrongKind
from redisq_ops.core.foreign import ForeignQueue
from redisq_ops.core.io import Description, attempt
from redisq_ops.core.kinds import layout
from redisq_ops.core.queue import Queue
from redisq_ops.core.registry import Registered, all_queues, find
from redisq_ops.core.request import RequestQueue
from redisq_ops.core.request.outcomes import outcomes
from redisq_ops.core.scan import Sheet, Span, clocked, timed
from redisq_ops.core.values import Entry, Page, Request, State
from redisq_ops.ops.deployment import Deployment

from . import decode
from .connection import client_of, look, patiently, unswept
from .decode import Place
from .options import Options
from .ranges import Range, before, planned
from .schemas import arrow

T = TypeVar("T")

STATES: dict[str, State] = {
    "dead": "dead", "pending": "pending", "delayed": "delayed", "waiting": "waiting",
}  # fmt: skip
BATCH = 8192
"""rows of an Arrow batch, about"""
FIRST, LEAST, MOST = 100, 1, 2000
"""rows of a call: at the begin, at least, at most"""
FIRST_WITH_PAYLOADS = 10
CALLS = 4
"""look-ups of a column that go in one exchange. What a reader waits for is mostly its turn on a
busy machine, not the server's work, and this is how often it waits; between two calls of one
exchange the server looks after others"""
WHOLE = 250
"""rows of a page that is read entry by entry"""
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
class Part:
    """What one task reads."""

    queue: str
    entry: Registered | None
    """None: another program's queue, found by its name"""
    shard: int = 0
    span: Span | None = None
    range: Range | None = None
    settled: bool | None = None
    """of a span of requests: which ones they are"""
    numbers: tuple[Numbers, ...] = ()


class Pace:
    """How many rows the next call is for: what keeps the server busy for about half of what is
    allowed. It grows by half at a time and falls to half: a call that was long because the server
    itself had to wait for a processor says little of the next one."""

    def __init__(self, most_us: int, size: int = FIRST, most: int = MOST) -> None:
        self.size = size
        self.slowest_us = 0
        self._most_us = most_us
        self._most = most

    def learn(self, rows: int, took_us: int) -> None:
        self.slowest_us = max(self.slowest_us, took_us)
        if took_us > self._most_us // 2 or rows >= self.size:
            aim = self.size * (self._most_us / 2) / max(1, took_us)
            aim = max(self.size / 2, min(aim, self.size * 1.5 + 1))
            self.size = max(LEAST, min(self._most, int(aim)))


# --- planning ----------------------------------------------------------------------------------


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
                raise NotFound(f"no queue {name!r} here (redisq ls shows what there is)")
            found.append(Found(queue, entry))
        return found
    for entry in await all_queues(options.prefix):
        try:
            found.append(Found(deployment.open(entry), entry))
        except Refused as error:  # one that is too new must not hide the others
            logger.warning("not read: %s", error)
    return found


async def plan(options: Options) -> list[Part]:
    """The parts of a table, by a few reads per shard."""
    parts: list[Part] = []
    for found in await queues(options):
        for shard, leaf in enumerate(found.queue.leaves):
            whole = Part(found.queue.name, found.entry, shard)
            parts += await _PLANS[options.table](options, leaf, whole)
    return parts


async def _entries(options: Options, leaf: Queue[Any], whole: Part) -> list[Part]:
    state = STATES[options.table]
    spans = await leaf.spans.op(state, options.rows, options.since_ms, options.until_ms)
    return [whole] if spans is None else [replace(whole, span=span) for span in spans]


async def _history(options: Options, leaf: Queue[Any], whole: Part) -> list[Part]:
    mark = options.known.get(f"{whole.queue}/{whole.shard}")
    found = await planned(leaf, options.since_ms, options.until_ms, options.rows, mark)
    return [replace(whole, range=one) for one in found]


async def _requests(options: Options, leaf: Queue[Any], whole: Part) -> list[Part]:
    if "requests" not in leaf.capabilities:
        return []
    if options.request is not None:
        there = await _named(options, options.request, leaf)
        one = Numbers(options.request, 1, 0)
        return [] if there is None else [replace(whole, numbers=(one,))]
    return [
        replace(whole, span=span, settled=settled)
        for settled in _which(options)
        for span in await leaf.request_spans.op(settled, options.rows)
    ]


async def _named(options: Options, id: str, leaf: Queue[Any]) -> Request | Exception | None:
    """The one request that is asked for; None too where it isn't of those that are meant."""
    there = await attempt(leaf.request.op(id))
    if isinstance(there, RedisqError) and not isinstance(there, WrongKind):
        raise there
    meant = not isinstance(there, Request) or there.settled in _which(options)
    return there if meant else None


def _numbered(id: str, record: Request | Exception | None) -> Numbers:
    if isinstance(record, Exception):
        return Numbers(id, 1, 1, f"the record of its request can't be read: {decode.why(record)}")
    return Numbers(id, 1, 0 if record is None else record.total)


def _which(options: Options) -> list[bool]:
    return {"open": [False], "settled": [True], "all": [False, True]}[options.requests]


async def _subrequests(options: Options, leaf: Queue[Any], whole: Part) -> list[Part]:
    """By numbers where requests are few enough to ask how large each is; by their age else."""
    if "requests" not in leaf.capabilities:
        return []
    if options.request is not None:
        one = _numbered(options.request, await _named(options, options.request, leaf))
        return [replace(whole, numbers=some) for some in _shared_out([one], options.rows)]
    parts: list[Part] = []
    for settled in _which(options):
        (everything,) = await leaf.request_spans.op(settled, 10**12) or [Span()]
        if everything.entries > NAMED:
            size = max(1, options.rows // 100)
            spans = await leaf.request_spans.op(settled, size)
            parts += [replace(whole, span=span, settled=settled) for span in spans]
            continue
        numbers, cursor, more = [], None, bool(everything.entries)
        while more:
            rows, cursor = await leaf.request_sheet.op(settled, everything, cursor, WHOLE)
            numbers += [_numbered(id, record) for id, record in rows]
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


_PLANS: dict[str, Callable[[Options, Queue[Any], Part], Any]] = {
    **dict.fromkeys(STATES, _entries),
    "history": _history,
    "requests": _requests,
    "subrequests": _subrequests,
    "results": _subrequests,
}


# --- reading -----------------------------------------------------------------------------------


class Reading:
    """Parts of one table as Arrow batches. It connects where it is used, and sends reads only."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.schema: pa.Schema = arrow(options.described, options.names)
        self.pace = Pace(
            options.max_call_us, FIRST_WITH_PAYLOADS if options.with_payloads else FIRST
        )

    def ask(self, make: Callable[[], Description[T]]) -> T:
        """One exchange, or a few; made anew for each try."""
        client = client_of(self.options.target(), self.options.replica)
        with unswept():
            return patiently(lambda: look(client, make()))

    def plan(self) -> list[Part]:
        return self.ask(lambda: plan(self.options))

    def leaf(self, part: Part) -> Queue[Any]:
        """The shard a part is of."""
        return _opened(part, self.options).leaves[part.shard]

    def happened(
        self, leaf: Queue[Any], after: str, until: str, size: int
    ) -> tuple[list[decode.RawEvent], int]:
        """A page of history, and the µs the server was at it."""
        key = leaf.keys["hist"]
        columns, took = self.ask(lambda: timed(key, {"rows": leaf.happened.op(after, until, size)}))
        return columns["rows"], took["rows"]

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part, some thousands at a time."""
        if part.range is not None and part.range.missed is not None:
            yield self._missing(part, part.range.after, part.range.missed)
        if part.range is not None and part.range.empty:
            return
        leaf = self.leaf(part)
        place = Place(part.queue, leaf.kind, part.shard, "requests" in leaf.capabilities)
        for batch in self._batches(part, leaf, place):
            if batch.num_rows:
                yield batch

    def _batches(self, part: Part, leaf: Queue[Any], place: Place) -> Iterator[pa.RecordBatch]:
        table = self.options.table
        if part.range is not None:
            return self._events(part, leaf, place, part.range)
        if table == "requests":
            return self._requests(part, leaf, place)
        if table in ("subrequests", "results"):
            return self._inside(part, leaf, place)
        if part.span is not None:
            return self._sheets(leaf, place, part.span)
        return self._pages(leaf, place)

    def _sheets(self, leaf: Queue[Any], place: Place, span: Span) -> Iterator[pa.RecordBatch]:
        """Entries of a sorted set, columns undecoded until there are enough of them."""
        state = STATES[self.options.table]
        want = decode.wanted(self.schema.names, self.options.with_payloads)
        cursor: str | None = None
        held: list[Sheet] = []
        rows, more = 0, True
        while more:
            step = self.pace.size
            page = self.ask(partial(leaf.sheet.op, state, span, cursor, step * CALLS, want, step))
            self.pace.learn(len(page.ids) // CALLS, page.call_us)
            cursor, more = page.cursor, page.cursor is not None
            if page.ids:
                held.append(page)
                rows += len(page.ids)
            if held and (rows >= BATCH or not more):
                yield decode.sheet(_joined(held), place, state, self.schema)
                held, rows = [], 0

    def _pages(self, leaf: Queue[Any], place: Place) -> Iterator[pa.RecordBatch]:
        """Entries of a layout that can't be cut, decoded by the core."""
        state, cursor, more = STATES[self.options.table], None, True
        payloads, pace = self.options.with_payloads, self._few()
        while more:
            # What a page of another program's layout costs doesn't go by its size.
            size = WHOLE if isinstance(leaf, ForeignQueue) else pace.size
            page: Page
            page, took = self._clocked(
                leaf, partial(leaf.page.op, state, cursor, size, None, payloads)
            )
            pace.learn(len(page.entries), took)
            read = [(entry, None) for entry in page.entries if self._in_time(entry)]
            yield decode.entries(read, place, self.schema, payloads)
            cursor, more = page.cursor, page.cursor is not None

    def _few(self) -> Pace:
        """For what is read entry by entry: the server reads its payload or result in any case."""
        return Pace(self.options.max_call_us, FIRST_WITH_PAYLOADS, WHOLE)

    def _clocked(self, leaf: Queue[Any], make: Callable[[], Description[T]]) -> tuple[T, int]:
        """What is said, and the µs the server was at the costliest call."""
        return self.ask(lambda: clocked(leaf.keys["cfg"], make()))

    def _in_time(self, entry: Entry) -> bool:
        """One whose time nobody knows is in any."""
        since, until = self.options.since_ms, self.options.until_ms
        at_ms = entry.since_ms if entry.state == "dead" else entry.at_ms
        if at_ms is None:
            return True
        return (since is None or at_ms >= since) and (until is None or at_ms <= until)

    def _events(
        self, part: Part, leaf: Queue[Any], place: Place, range: Range
    ) -> Iterator[pa.RecordBatch]:
        """Events of a range; where one isn't there any more, it was trimmed."""
        held: list[decode.RawEvent] = []
        after, seen, more = range.after, 0, True
        while more:
            # An event that is there says that nothing behind it was trimmed: the first one, and
            # from then on the last that was read.
            known = None if range.events is not None else after if seen else range.first
            size = self.pace.size + (1 if known else 0)
            rows, took = self.happened(leaf, before(known) if known else after, range.until, size)
            self.pace.learn(len(rows), took)
            more = len(rows) == size
            if known is not None:
                if not rows or rows[0][0].decode() != known:
                    where = "behind" if seen else "from"
                    what = f"events {where} {known} on were trimmed before they were read"
                    yield self._missing(part, known, what)
                elif seen:
                    rows = rows[1:]
            if rows:
                after = rows[-1][0].decode()
            seen += len(rows)
            held += rows
            if held and (len(held) >= BATCH or not more):
                yield decode.events(self._meant(held), place, self.schema)
                held = []
        if range.events is not None and seen < range.events:
            gone = range.events - seen
            yield self._missing(part, range.after, f"{gone} events were trimmed behind this one")

    def _meant(self, events: list[decode.RawEvent]) -> list[decode.RawEvent]:
        """Those of the time that was asked for; one that doesn't say when goes by its id."""
        since, until = self.options.since_ms, self.options.until_ms
        if since is None and until is None:
            return events
        low, high = since or 0, until if until is not None else 1 << 63
        return [event for event in events if low <= decode.when(event) <= high]

    def _missing(self, part: Part, after: str, what: str) -> pa.RecordBatch:
        """As ``onTrim`` says: an error, or a row that says so."""
        shard = f" (shard {part.shard})" if part.shard else ""
        said = f"history of queue {part.queue}{shard}, after {after}: {what}"
        if self.options.on_trim == "fail":
            raise Lost(f"{said}; option onTrim=report goes on, with a row that says so")
        logger.warning("%s", said)
        place = Place(part.queue, part.entry.kind if part.entry else None, part.shard, False)
        return decode.gap(place, what, after, self.schema)

    def _requests(self, part: Part, leaf: Queue[Any], place: Place) -> Iterator[pa.RecordBatch]:
        if part.span is None:
            name = part.numbers[0].request
            one = self.ask(lambda: attempt(leaf.request.op(name)))
            yield decode.requests([(name, one)], place, self.schema)
            return
        for rows in self._requests_of(part, leaf):
            yield decode.requests(rows, place, self.schema)

    def _requests_of(self, part: Part, leaf: Queue[Any]) -> Iterator[list[tuple[str, Any]]]:
        assert part.span is not None and part.settled is not None
        pace = Pace(self.options.max_call_us, most=WHOLE)
        cursor: str | None = None
        more = True
        while more:
            make = partial(leaf.request_sheet.op, part.settled, part.span, cursor, pace.size)
            (rows, cursor), took = self._clocked(leaf, make)
            pace.learn(len(rows), took)
            more = cursor is not None
            yield rows

    def _inside(self, part: Part, leaf: Queue[Any], place: Place) -> Iterator[pa.RecordBatch]:
        """What is in requests, request by request."""
        if part.span is None:
            for one in part.numbers:
                yield from self._numbers(one, leaf, place)
            return
        for rows in self._requests_of(part, leaf):
            for id, record in rows:
                yield from self._numbers(_numbered(id, record), leaf, place)

    def _numbers(self, one: Numbers, leaf: Queue[Any], place: Place) -> Iterator[pa.RecordBatch]:
        if one.wrong is not None:
            yield decode.unread(one.request, None, one.wrong, place, self.schema)
            return
        # Anew for each: what another request's sub-requests are like says nothing of these.
        pace, start, room = self._few(), one.first, one.last
        while start <= one.last:
            most = min(pace.size, room, one.last - start + 1)
            try:
                batch, took = self._some(one.request, start, most, leaf, place)
                pace.learn(most, took)
            except WrongKind as error:  # what is of another type is so for all of them
                what = f"its request's keys can't be read: {decode.why(error)}"
                yield decode.unread(one.request, None, what, place, self.schema)
                return
            except (ValueError, LookupError, TypeError, OverflowError) as error:
                room = most // 2
                if room:  # one of them, and the others are to be read
                    continue
                what = f"its record can't be read: {decode.why(error)}"
                batch = decode.unread(one.request, start, what, place, self.schema)
            yield batch
            start, room = start + most, one.last

    def _some(
        self, request: str, start: int, most: int, leaf: Queue[Any], place: Place
    ) -> tuple[pa.RecordBatch, int]:
        """Sub-requests ``start …`` of a request, or their results; and the µs of a call."""
        payloads = self.options.with_payloads
        if self.options.table == "results":
            requests = cast(RequestQueue[Any], leaf)
            came, took = self._clocked(leaf, partial(outcomes, requests, request, start, most))
            return decode.results(request, came, place, self.schema), took
        make = partial(leaf.subrequests.op, request, start, most, payloads)
        found, took = self._clocked(leaf, make)
        read = [(entry, None) for entry in found]
        return decode.entries(read, place, self.schema, payloads), took


def _joined(sheets: Sequence[Sheet]) -> Sheet:
    """One sheet of all their rows."""
    if len(sheets) == 1:
        return sheets[0]

    def column(name: str) -> Any:
        parts = [getattr(sheet, name) for sheet in sheets]
        if all(part is None for part in parts):
            return None
        # One page may have none: its ids were no names.
        filled = zip(parts, sheets, strict=True)
        return [value for part, sheet in filled for value in part or [None] * len(sheet.ids)]

    return Sheet(
        column("ids"), column("scores"), None, 0, column("lines"), column("errors"),
        column("payloads"), column("clients"), column("called"),
    )  # fmt: skip


def _opened(part: Part, options: Options) -> Queue[Any]:
    """The part's queue, as it was when the parts were made."""
    if part.entry is not None:
        return Deployment(prefix=options.prefix).open(part.entry)
    made = layout(part.queue.partition(":")[0])
    assert made is not None
    return made(None, part.queue, prefix=options.prefix)
