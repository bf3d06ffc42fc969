"""The priority request queue.

A *request* is split into *sub-requests*; up to ``limit`` of them are worked on at once, requests of
a higher priority (0 first) go first, requests of one priority take turns. From article 000, with
its protocol mended (docs/faults.md says where and why).

Keys beside the common ones (see docs/request-queue.md): ``r:<id>`` the request's record,
``s:<id>`` its stream with group ``g``, ``p:<0–99>`` lists of tokens, ``prios`` the priorities that
may have some, ``open`` and ``fin`` requests by time, ``res:<id>:<k>`` results by thousands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha1
from typing import Any, ClassVar, Literal, cast

from ..errors import Exists, NotFound, QueueClosed
from ..holdings import HOLDINGS, Holdings, Load, holding
from ..io import C_co, Call, attempt, both, operation, together
from ..keys import checked_consumer
from ..queue import Queue
from ..reply import scored, words
from ..scan import Line, Span, page, spans
from ..settings import LIMIT, MAX_PAYLOAD, PRIORITIES, PRIORITY
from ..standing import OTHERS, Standing
from ..states import ZSETS
from ..values import Consumer, Counts, Entry, Level, Page, Request, State
from . import stream
from .standing import standing, tokens
from .submission import (
    CHUNK,
    Digest,
    Submitted,
    checked_limit,
    checked_payload,
    checked_priority,
    checked_request,
    cut,
)
from .waiting import waiting

_RECORD = (
    "state", "priority", "limit", "paused", "total", "waiting", "pending", "delayed", "done",
    "dead", "trash", "purged", "tok", "created", "added", "closed", "bytes", "dropped", "digest",
    "moving",
)  # fmt: skip

_MOVED = re.compile(r"(\.[0-9a-f]{8})?\.move-[0-9a-f]{10}$")

Control = Literal["cancel", "reopen", "pause", "resume", "limit", "priority"]


class RequestQueue(Queue[C_co]):
    """Requests of sub-requests with priorities and concurrency limits.

    >>> RequestQueue(None, "mail").keys["s_"]
    'rq:{mail}:s:'
    """

    kind: ClassVar[str] = "request"
    room: ClassVar[str] = "request"
    capabilities: ClassVar[frozenset[str]] = frozenset({"requests", "levels"})
    parts: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("prios", "open", "fin", "retire"), "zset"),
        **dict.fromkeys((f"p:{priority}" for priority in range(PRIORITIES)), "list"),
        "edited": "hash",
    }

    # --- producers -----------------------------------------------------------------------------

    @operation
    async def submit(
        self,
        payloads: Sequence[bytes],
        *,
        id: str,
        priority: int = PRIORITY,
        limit: int = LIMIT,
        max_payload: int = MAX_PAYLOAD,
    ) -> Submitted:
        """Submit a whole request: all ``payloads`` in order, sealed. Zero of them: done at once.

        The same id and content again (also after a crash half way) completes it or answers
        ``same``; another content raises `Exists` and changes nothing.
        """
        checked_request(id, priority, limit)
        for nth, payload in enumerate(payloads, 1):
            checked_payload(payload, nth, max_payload)
        await self._enrol()
        digest, start = await self._resumed(payloads, id, priority, limit)
        chunks = list(cut(payloads[start:])) or [[]]
        submitted = None
        for nth, chunk in enumerate(chunks, 1):
            before = str(digest)
            for payload in chunk:
                digest.add(payload)
            submitted = await self.append.op(
                id, start + 1, chunk, before=before, after=str(digest), seal=nth == len(chunks),
                priority=priority, limit=limit,
            )  # fmt: skip
            start += len(chunk)
        assert submitted is not None
        if submitted.word == "past":
            raise Exists(f"request {id} is there with other content")
        return submitted

    async def _resumed(
        self, payloads: Sequence[bytes], id: str, priority: int, limit: int
    ) -> tuple[Digest, int]:
        """The digest and number of what is there already, checked against ``payloads``."""
        digest = Digest(priority, limit)
        known = await self.request.op(id) if len(payloads) > CHUNK else None
        if known is None or known.total == 0:
            return digest, 0
        for payload in payloads[: known.total]:
            digest.add(payload)
        if known.total > len(payloads) or str(digest) != known.digest:
            raise Exists(f"request {id} is there with other content")
        # The last chunk is sent again even when all is there: its reply says `same`, or seals.
        return digest, known.total

    @operation
    async def append(
        self,
        id: str,
        start: int,
        payloads: Sequence[bytes],
        *,
        before: str,
        after: str,
        seal: bool = False,
        priority: int = PRIORITY,
        limit: int = LIMIT,
    ) -> Submitted:
        """Add sub-requests ``start…`` to a request, creating it at 1, and seal it if asked.

        ``before`` and ``after`` are `Digest` values around the chunk; a chunk is appended only
        behind the content it was cut from. Streaming producers call this; see also `submit`.
        """
        checked_request(id, priority, limit)
        await self._enrol()

        def read(reply: list[bytes]) -> Submitted:
            word, total, state = words(reply)
            if word == "exists":
                raise Exists(f"request {id} is there with other content ({total} sub-requests)")
            return Submitted(id, word, int(total), state)

        argv: dict[str, Any] = {
            "rid": id,
            "priority": priority,
            "limit": limit,
            "start": start,
            "before": before,
            "after": after,
            "seal": int(seal),
        }
        rows = [(payload,) for payload in payloads]
        return await self._script("submit").call(self.keys, self.clock, read, rows, **argv)

    # --- operators -----------------------------------------------------------------------------

    @operation
    def control(
        self, op: str, seq: int, verb: Control, id: str, value: str = ""
    ) -> Call[tuple[str, str]]:
        """Cancel, reopen, pause, resume, or change limit or priority of a live request.

        Returns (``ok`` or ``same``, the value before). Cancelling takes effect for new deliveries
        at once; running ones are fenced off by requeueing them (ops does, in bounded steps).
        """
        given = int(value) if value.isdecimal() else -1
        if verb == "limit":
            checked_limit(given)
        if verb == "priority":
            checked_priority(given)
        return self._script("control").call(
            self.keys,
            self.clock,
            lambda reply: (reply[0].decode(), reply[1].decode()),
            caller=op,
            seq=seq,
            verb=verb,
            rid=id,
            value=value,
        )

    @operation
    async def invert(
        self,
        op: str,
        seq: int,
        verb: str,
        args: Sequence[str],
        left: Callable[[list[str]], None] = lambda ids: None,
    ) -> int:
        if verb == "set":
            return await Queue.invert(self, op, seq, verb, args, left)
        id, *value = args
        try:
            word, _ = await self.control.op(op, seq, cast(Control, verb), id, *value)
        except (QueueClosed, NotFound):
            if verb != "cancel":
                raise
            found = await self.request.op(id)
            if found is None or found.state != "cancelled":
                left([id])  # what was in it is done
            return 0
        return int(word == "ok")

    def abroad(self, op: str, id: str) -> str:
        """A request of its own for each that the move takes from, named after both.

        >>> RequestQueue(None, "mail").abroad("move-0123456789", "r1/17")
        'r1.move-0123456789'
        """
        whole = id.partition("/")[0]
        own, most = _MOVED.sub("", whole), 127 - len(op)
        if own != whole or len(own) > most:  # what is left of it is perhaps another's, too
            digest = sha1(whole.encode()).hexdigest()[:8]
            own = f"{own[: most - 9]}.{digest}"
        return f"{own}.{op}"

    # --- looking -------------------------------------------------------------------------------

    @operation
    async def counts(self, now_ms: int | None = None) -> Counts:
        sizes, ((counters, (paused, closed)), oldest) = await both(
            together(
                Call(("ZCARD", self.keys[part]), int, key=self.keys[part])
                for part in ZSETS.values()
            ),
            both(
                both(self._counters("waiting", "cancelled", "done"), self._flags()),
                scored(self.keys["open"], "0", "0"),
            ),
        )
        pending, delayed, dead, trash = sizes
        waiting, cancelled, done = counters
        since = int(oldest[0][1]) if oldest and waiting else None
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

    @operation
    def requests_total(self, settled: bool = False) -> Call[int]:
        """How many requests are open, or settled and still kept."""
        key = self.keys["fin" if settled else "open"]
        return Call(("ZCARD", key), int, key=key)

    @operation
    async def request_spans(
        self,
        settled: bool,
        size: int,
        low_ms: int | None = None,
        high_ms: int | None = None,
    ) -> list[Span]:
        return await spans(self.keys["fin" if settled else "open"], size, low_ms, high_ms)

    @operation
    async def request_sheet(
        self, settled: bool, span: Span, cursor: str | None = None, max: int = 100
    ) -> tuple[list[tuple[str, Request | Exception | None]], str | None]:
        key = self.keys["fin" if settled else "open"]
        rows, onward, _ = await page(key, span, cursor, max)
        members = [member for _, member in rows]
        found = await together(self._readable(member) for member in members)
        ids = [member.decode("utf-8", "backslashreplace") for member in members]
        return list(zip(ids, found, strict=True)), onward

    async def _readable(self, member: bytes) -> Request | Exception | None:
        try:
            asked: Call[Request | None] = self._record(member.decode())
        except UnicodeDecodeError as error:  # no id that anybody could have submitted
            return error
        said: Request | Exception | None = await attempt(asked)
        return said

    @operation
    async def subrequests(
        self, id: str, start: int = 1, max: int = 100, payloads: bool = False
    ) -> list[Entry]:
        from .outcomes import entries

        return await entries(self, id, start, max, payloads)

    @operation
    async def request(self, id: str) -> Request | None:
        return await self._record(id)

    def _record(self, id: str) -> Call[Request | None]:
        key = self.keys["r_"] + id

        def read(reply: list[bytes | None]) -> Request | None:
            row = dict(zip(_RECORD, reply, strict=True))
            if row["state"] is None:
                return None
            n = {name: int(row[name] or 0) for name in _RECORD if name not in ("state", "digest")}
            state = row["state"].decode()
            trash, waiting = n["trash"] + n["purged"], n["waiting"]
            if state == "cancelled":
                trash, waiting = trash + waiting, 0
            return Request(
                id, state, n["priority"], n["limit"], bool(n["paused"]), n["total"], waiting,
                n["pending"], n["delayed"], n["done"], n["dead"], trash, n["tok"], n["created"],
                n["added"] or None, n["closed"] or None, n["bytes"], n["dropped"],
                (row["digest"] or b"").decode(), n["moving"],
            )  # fmt: skip

        return Call(("HMGET", key, *_RECORD), read, key=key)

    @operation
    async def unsettled(self, id: str, max: int = 100) -> list[tuple[str, State]]:
        """Sub-requests of a request that are pending or delayed: (id, state)."""
        key = self.keys["s_"] + id
        found: list[tuple[str, State]] = []
        after = "-"
        while len(found) < max:
            rows = await stream.held(key, after, "+", max)
            for row in rows:
                if row.consumer != "~waiting":
                    state: State = "delayed" if row.consumer == "~delayed" else "pending"
                    found.append((f"{id}/{row.number}", state))
            if len(rows) < max:
                break
            after = f"({rows[-1].number}-0"
        return found[:max]

    @operation
    def stream_of(self, id: str) -> Call[stream.Stream]:
        """A request's stream, as `redis-cli` would find it; empty when it is gone."""
        key = self.keys["s_"] + id
        return Call(("XLEN", key), lambda length: stream.Stream(key, int(length)), key=key)

    @operation
    async def held(self, id: str, numbers: Sequence[int]) -> list[stream.Held | None]:
        """How the stream's own pending list has sub-requests of a request; None: it doesn't."""
        key = self.keys["s_"] + id
        rows = await together(stream.held(key, f"{n}-0", f"{n}-0", 1) for n in numbers)
        return [found[0] if found else None for found in rows]

    async def _dismantle(self, max: int) -> int:
        gone = 0
        for part in ("open", "fin"):
            listed = await scored(self.keys[part], "0", str(max - 1))
            for id, _ in listed:
                request = await self.request.op(id)
                pieces = range((request.total if request else 0) // 1000 + 1)
                keys = [self.keys["s_"] + id, self.keys["r_"] + id]
                keys += [f"{self.keys['res_']}{id}:{piece}" for piece in pieces]
                gone += await Call(("UNLINK", *keys), int, key=keys[0])
                await together(
                    Call(("ZREM", self.keys[z], id), int, key=self.keys[z])
                    for z in (part, "retire")
                )
        return gone

    @operation
    def consumers(self, id: str) -> Call[list[Consumer]]:
        """The group's consumers; an empty list when the stream is gone."""
        return stream.consumers(self.keys["s_"] + id)

    @operation
    async def loads(self, group: str = "") -> list[Load]:
        """Of one request's group, or of those of the hundred oldest open requests."""
        found = [await self.request.op(group)] if group else await self.requests.op(0, OTHERS)
        requests = [request for request in found if request is not None]
        members = await together(self.consumers.op(request.id) for request in requests)
        loads = []
        for request, there in zip(requests, members, strict=True):
            reserved = {one.name: one.pending for one in there if one.reserved}
            lag = request.waiting - reserved.get("~waiting", 0)
            loads.append(Load(request.id, request.pending, max(0, lag), sum(reserved.values())))
        return loads

    @operation
    async def holdings(
        self,
        group: str = "",
        max: int = HOLDINGS,
        consumer: str = "",
        after: str | None = None,
    ) -> Holdings:
        """Of one request's group as many of the oldest as are among its first ``max`` unsettled
        ones, or all of one consumer's, by pages."""
        if not group:
            return await Queue.holdings(self, group, max, consumer, after)
        last = None
        if consumer:
            low = "-" if after is None else f"({after}"
            key = self.keys["s_"] + group
            request, rows = await both(
                self.request.op(group), stream.held(key, low, "+", max, consumer)
            )
            ids = [f"{group}/{row.number}" for row in rows]
            last = f"{rows[-1].number}-0" if len(rows) == max else None
        else:
            request, unsettled = await both(self.request.op(group), self.unsettled.op(group, max))
            ids = [id for id, state in unsettled if state == "pending"]
        entries, now = await both(together(self.get.op(id) for id in ids), self._now())
        found = [
            holding(entry, now)
            for entry in entries
            if entry is not None and entry.state == "pending" and consumer in ("", entry.consumer)
        ]
        return Holdings(tuple(found), request.pending if request else 0, last)

    @operation
    def strike(self, group: str, consumer: str) -> Call[str]:
        checked_consumer(consumer)
        return self._script("strike").call(
            self.keys, self.clock, bytes.decode, rid=group, consumer=consumer
        )

    @operation
    async def results(
        self, id: str, start: int = 1, max: int = 100
    ) -> list[tuple[int, bytes | None]]:
        """Results of sub-requests ``start …`` in order: (number, bytes, or None for none)."""
        numbers = range(start, start + max)
        base = f"{self.keys['res_']}{id}:"
        found = await together(
            Call(("HMGET", f"{base}{piece}", *ns), list[Any], key=base)
            for piece, ns in _pieces(numbers)
        )
        values = [value for part in found for value in part]
        return list(zip(numbers, values, strict=True))

    async def _holder(self, id: str) -> RequestQueue[Any]:
        """The queue that has a request: itself, or one of its shards."""
        return self

    async def purged(self, id: str, start: int, max: int) -> list[bool]:
        """Which of sub-requests ``start …`` were removed for good."""
        base = f"{self.keys['res_']}{id}:"
        found: list[list[bytes | None]] = await together(
            Call(("HMGET", f"{base}{piece}", *(f"-{n}" for n in ns)), list[Any], key=base)
            for piece, ns in _pieces(range(start, start + max))
        )
        return [mark is not None for part in found for mark in part]

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

    async def _payloads(self, ids: Sequence[str]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for payload in await self._contents(ids):
            if isinstance(payload, Exception):
                raise payload
            found.append(payload)
        return found

    async def _contents(self, ids: Sequence[str]) -> list[bytes | Exception | None]:
        if not ids:
            return []
        places = [id.rpartition("/") for id in ids]
        key = self.keys["edited"]
        found, edited = await both(
            together(stream.payload(self.keys["s_"] + rid, n) for rid, _, n in places),
            Call(("HMGET", key, *ids), list[bytes | None], key=key),
        )
        return [
            other if other is not None else payload
            for payload, other in zip(found, edited, strict=True)
        ]

    async def _get_waiting(self, id: str) -> Entry | None:
        rid, slash, n = id.rpartition("/")
        if not slash or not n.isdigit():
            return None
        request = await self.request.op(rid)
        if request is None or not 1 <= int(n) <= request.total:
            return None
        entry = (await self._entries("waiting", [(id, None)]))[0]
        if entry.payload is None:  # its stream entry is gone: settled, or swept from the trash
            (((_, result),), (purged,)) = await both(
                self.results.op(rid, int(n), 1), self.purged(rid, int(n), 1)
            )
            return None if purged else Entry(id, "done", payload=result)
        if request.state == "cancelled":
            return Entry(id, "trash", payload=entry.payload, failures=entry.failures)
        return entry

    async def _page_waiting(
        self, cursor: str | None, max: int, start: int | None, payloads: bool
    ) -> Page:
        total = (await self.counts.op()).waiting
        line = await self._line(cursor, max, start)
        entries = await self._entries("waiting", [(id, None) for id in line.names], payloads)
        return Page(tuple(entries), line.cursor, total)

    async def _line(self, cursor: str | None, max: int, start: int | None = None) -> Line:
        return await waiting(self, cursor, max, start)

    @operation
    async def standing(self, id: str = "") -> Standing:
        rid, _, n = id.partition("/")
        if not rid:
            askers, listed = await both(self._askers(), together(tokens(self)))
            return replace(askers, open=sum(listed))
        askers, own = await both(
            self._askers(), standing(self, rid, int(n) if n.isdecimal() else None)
        )
        return replace(
            own, asked_ms=askers.asked_ms, askers=askers.askers, askers_all=askers.askers_all
        )

    @operation
    async def invariants(self) -> list[str]:
        from .invariants import violations

        return await violations(self)


def found(request: Request | None, id: str, queue: str) -> Request:
    if request is None:
        raise NotFound(f"no request {id} in queue {queue}")
    return request


def _pieces(numbers: range) -> Iterator[tuple[int, range]]:
    """Sub-requests by the hashes that have their results."""
    for piece in range(numbers.start // 1000, (numbers.stop - 1) // 1000 + 1):
        yield piece, range(max(numbers.start, 1000 * piece), min(numbers.stop, 1000 * piece + 1000))
