"""Reads of a request queue: requests, sub-requests, and who works on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engine.queue import Queue
from ...engine.state_scan import ScoreRange, WaitingIds, page, score_ranges
from ...model.consumer_load import (
    GroupLoad,
    PendingPage,
    PendingQuery,
    pending_delivery,
)
from ...model.entry import (
    Consumer,
    Counts,
    Entry,
    EntryOutcome,
    Level,
    Limit,
    Page,
    PageQuery,
    Request,
    State,
)
from ...model.errors import BadInput
from ...model.queue_position import OTHERS, QueuePosition
from ...model.settings import PRIORITIES
from ...model.states import ZSETS
from ...redis.operation import C_co, Call, operation, together
from ...redis.parsers import moment, scored, words
from . import stream
from .position import queue_position, tokens
from .records import RequestRecords, found
from .waiting_pages import waiting

if TYPE_CHECKING:
    from .outcomes import SubRequestOutcome

_PAGE = 250
"""sub-requests whose results are read at once"""
_DIGITS = 18
"""a stream's ids have at most 64 bits"""


class RequestReads(RequestRecords[C_co]):
    """The reads of a request queue."""

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        reads: list[Call[Any]] = [
            *(
                Call(("ZCARD", self.keys[part]), int, key=self.keys[part])
                for part in ZSETS.values()
            ),
            self._counters("waiting", "cancelled", "done"),
            self._flags(),
            scored(self.keys["open"], "0", "0"),
        ]
        *sizes, (waiting, cancelled, done), (paused, closed), oldest = await together(reads)
        pending, delayed, dead, trash = sizes
        since = moment(oldest[0][1]) if oldest and waiting else None
        return Counts(
            waiting, pending, delayed, dead, trash + cancelled, done, since, paused, closed
        )

    @operation
    async def requests(
        self, start: int = 0, max: int = 100, settled: bool = False
    ) -> list[Request]:
        key = self.keys["fin" if settled else "open"]
        rev = ("REV",) if settled else ()
        rows = await scored(key, str(start), str(start + max - 1), *rev)
        found = await together(self._record(id) for id, _ in rows)
        return [request for request in found if request is not None]

    async def _limits_reached(self, max: int) -> list[Limit]:
        return [
            Limit("request", request.id, request.limit, request.waiting)
            for request in await self.requests.op(0, max)
            if request.waiting and not request.paused and request.pending >= request.limit
        ]

    @operation
    def requests_total(self, settled: bool = False) -> Call[int]:
        """Number of open requests, or of finished ones that are still kept."""
        key = self.keys["fin" if settled else "open"]
        return Call(("ZCARD", key), int, key=key)

    @operation
    async def request_ranges(
        self, settled: bool, size: int, low_ms: int | None = None, high_ms: int | None = None
    ) -> list[ScoreRange]:
        key = self.keys["fin" if settled else "open"]
        return await score_ranges(key, size, low_ms, high_ms)

    @operation
    async def read_request_range(
        self, settled: bool, span: ScoreRange, cursor: str | None = None, max: int = 100
    ) -> tuple[list[tuple[str, Request | Exception | None]], str | None]:
        key = self.keys["fin" if settled else "open"]
        rows, onward, _ = await page(key, span, cursor, max)
        members = [member for _, member in rows]
        found = await together(self._readable(member) for member in members)
        ids = [member.decode("utf-8", "backslashreplace") for member in members]
        return list(zip(ids, found, strict=True)), onward

    @operation
    async def subrequests(
        self, id: str, start: int = 1, max: int = 100, payloads: bool = False
    ) -> list[Entry]:
        from .outcomes import entries

        return await entries(self, id, start, max, payloads)

    @operation
    async def unsettled(self, id: str, max: int = 100) -> list[tuple[str, State]]:
        """Up to ``max`` sub-requests of a request that are pending or delayed: (id, state)."""
        pending, delayed = await together(
            stream.held(self.keys["s_"] + id, "-", "+", max),
            stream.again(self.keys["later_"] + id, "-inf", "+inf", max),
        )
        states: list[tuple[int, State]] = [(row.number, "pending") for row in pending]
        states += [(number, "delayed") for number in delayed]
        return [(f"{id}/{number}", state) for number, state in sorted(states)[:max]]

    @operation
    def stream_of(self, id: str) -> Call[stream.Stream]:
        """The key and the length of a request's stream, as `redis-cli` shows them."""
        key = self.keys["s_"] + id
        return Call(("XLEN", key), lambda length: stream.Stream(key, int(length)), key=key)

    @operation
    async def held(self, id: str, numbers: Sequence[int]) -> list[stream.PendingSubRequest | None]:
        """The rows that the stream's pending list has for these sub-requests, or None for each."""
        key = self.keys["s_"] + id
        rows = await together(stream.held(key, f"{n}-0", f"{n}-0", 1) for n in numbers)
        return [found[0] if found else None for found in rows]

    @operation
    def consumers(self, id: str) -> Call[list[Consumer]]:
        """The consumers of a request, by name; empty when its stream is gone."""
        return stream.consumers(self.keys["s_"] + id)

    @operation
    async def group_loads(self, group: str = "") -> list[GroupLoad]:
        """Pending and waiting entries of one request, or of each of the 100 oldest open ones."""
        found = [await self.request.op(group)] if group else await self.requests.op(0, OTHERS)
        requests = [request for request in found if request is not None]
        returned = await together(self._retry_counts.op(request.id) for request in requests)
        return [
            GroupLoad(one.id, one.pending, max(0, one.waiting - again), again + later)
            for one, (again, later) in zip(requests, returned, strict=True)
        ]

    @operation
    async def _retry_counts(self, id: str) -> tuple[int, int]:
        """Number of a request's sub-requests that wait for a retry: (due now, later)."""
        keys = (self.keys["again_"] + id, self.keys["later_"] + id)
        again, later = await together(Call(("ZCARD", key), int, key=key) for key in keys)
        return again, later

    async def _pending_deliveries(self, query: PendingQuery) -> PendingPage:
        """Of one request (``group``): those among its first ``max`` unsettled sub-requests, or with
        ``consumer`` a page of that consumer's."""
        group, max, consumer = query.group, query.max, query.consumer
        if not group:
            return await Queue._pending_deliveries(self, query)
        last = None
        if consumer:
            key = self.keys["s_"] + group
            request, rows = await together(
                self.request.op(group), stream.held(key, query.low, "+", max, consumer)
            )
            ids = [f"{group}/{row.number}" for row in rows]
            last = f"{rows[-1].number}-0" if len(rows) == max else None
        else:
            request, unsettled = await together(
                self.request.op(group), self.unsettled.op(group, max)
            )
            ids = [id for id, state in unsettled if state == "pending"]
        entries, now = await together(together(self.get.op(id) for id in ids), self._now())
        found = [
            pending_delivery(entry, now)
            for entry in entries
            if entry is not None and entry.state == "pending" and consumer in ("", entry.consumer)
        ]
        return PendingPage(tuple(found), request.pending if request else 0, last)

    @operation
    async def results(
        self, id: str, start: int = 1, max: int | None = None
    ) -> list[SubRequestOutcome]:
        """Every sub-request of a request with its state, and its result or what made it dead.

        In order of number, from ``start`` (1 is the first) on; ``max``: at most that many. They are
        read in pages; all results of a request have at most 64 MiB together. They are kept for 24
        hours after the request ended (setting ``keep_ms``). Raises `NotFound`.

            for part in queue.results("monday"):
                print(part.number, part.state, part.result or part.error)
        """
        from .outcomes import outcomes

        if start < 1:
            raise BadInput(f"start must be at least 1, not {start}")
        total = found(await self.request.op(id), id, self.name).total
        end = total if max is None else min(total, start + max - 1)
        holder = await self._holder(id)
        rows: list[SubRequestOutcome] = []
        for low in range(start, end + 1, _PAGE):
            rows += await outcomes(holder, id, low, min(_PAGE, end - low + 1))
        return rows

    @operation
    async def outcomes(self, ids: Sequence[str]) -> list[EntryOutcome]:
        """What became of sub-requests, by their ids: an `EntryOutcome` for each, in their order.

        (outcome,) = queue.outcomes(["monday/2"])
        """
        found = await self.get_many.op(ids)
        return [EntryOutcome.of(id, entry) for id, entry in zip(ids, found, strict=True)]

    @operation
    async def levels(self) -> list[Level]:
        lists = [f"{self.keys['p_']}{priority}" for priority in range(PRIORITIES)]
        lengths = await together(Call(("LLEN", key), int, key=key) for key in lists)
        heads = await together(
            Call(("LRANGE", lists[p], -5, -1), words, key=lists[p])
            for p, length in enumerate(lengths)
            if length
        )
        tops = iter(heads)

        def next_requests() -> tuple[str, ...]:
            return tuple(dict.fromkeys(word.partition("|")[0] for word in reversed(next(tops))))

        return [
            Level(priority, length, next_requests())
            for priority, length in enumerate(lengths)
            if length
        ]

    async def _get_waiting(self, id: str) -> Entry | None:
        rid, slash, n = id.rpartition("/")
        if not slash or not n.isdigit():
            return None
        request = await self.request.op(rid)
        if request is None or not 1 <= int(n) <= request.total:
            return None
        entry = (await self._entries("waiting", [(id, None)]))[0]
        # Without its stream entry it was settled, or swept from the trash.
        if entry.payload is None and not entry.unread:
            ((result,), (purged,)) = await together(
                self._results(rid, int(n), 1), self._purged_numbers(rid, int(n), 1)
            )
            return None if purged else Entry(id, "done", record=result)
        if request.state == "cancelled":
            return Entry(
                id, "trash", payload=entry.payload, failures=entry.failures, problem=entry.problem
            )
        return entry

    async def _page_waiting(self, query: PageQuery) -> Page:
        line, (total,) = await together(self._waiting_ids(query), self._counters("waiting"))
        entries = await self._entries("waiting", [(id, None) for id in line.names], query.payloads)
        return Page(tuple(entries), line.cursor, total, problem=line.problem)

    async def _waiting_ids(self, query: PageQuery) -> WaitingIds:
        return await waiting(self, query)

    @operation
    async def queue_position(self, id: str = "") -> QueuePosition:
        rid, _, n = id.partition("/")
        if not rid:
            askers, listed = await together(self._recent_consumers(), together(tokens(self)))
            return replace(askers, open=sum(listed))
        # Anything but a number that a stream id can have is no sub-request.
        number = int(n) if n.isdecimal() and len(n) <= _DIGITS else None
        askers, own = await together(self._recent_consumers(), queue_position(self, rid, number))
        return replace(
            own, asked_ms=askers.asked_ms, askers=askers.askers, askers_all=askers.askers_all
        )
