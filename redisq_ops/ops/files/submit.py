"""Submits payloads from an iterator as requests, in constant memory.

A request grows by chunks, each with the digest of everything before it. So an interrupted
submission can be continued: the same input is read again and compared, and only what is missing is
sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, ClassVar

from redisq_ops.core.engine.optional_features import TakesEntries
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.batches import batches
from redisq_ops.core.model.errors import Exists, QueueClosed, QueueFull, TooLarge
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY
from redisq_ops.core.model.ulid import ulid
from redisq_ops.core.queues.request import RequestQueue, SubmittedRequest
from redisq_ops.core.queues.request.digest import Digest
from redisq_ops.core.queues.request.submission import (
    CHUNK,
    CHUNK_BYTES,
    cancelled,
    checked_request,
    cut,
    purged,
)
from redisq_ops.core.redis.operation import together

from ..deployment import Deployment
from .rejects import too_large

WINDOW = 2
"""chunks in one round trip; more would only delay the server's other clients"""
_DOUBTFUL = ("exists", "trash")
"""words of entries that are there, perhaps with other content"""
BITE = 20_000
"""payloads compared in one step of resuming"""
REQUEST_BYTES = 5_100
"""server memory of a request with one sub-request of at most 4 KB: used_memory grows by 5,111 bytes
for each of 100,000 on Valkey 9, by 5,094 on Redis 7.0. 4,480 bytes of it are the stream, which
allocates a node of 4 KB for its first entry."""


def lines(
    file: BinaryIO,
    most: int = MAX_PAYLOAD,
    split: int = 1,
    skip: Callable[[int, str], object] | None = None,
) -> Iterator[bytes | None]:
    r"""A payload per line, or per ``split`` lines joined by ``\n``, without the last ``\n``.

    All other bytes are kept, a carriage return too. A line, or a chunk of lines, over ``most``
    bytes raises `TooLarge`, which names the line. With ``skip`` it is left out instead: ``skip`` is
    called with the number of each such line and the reason, and None takes the payload's place. At
    most ``2 * most`` bytes are in memory.
    """
    number = 0
    while True:
        chunk: list[bytes] = []
        alone: set[int] = set()
        first, count, size = number + 1, 0, -1
        while count < split and (line := file.readline(most + 2)):
            number += 1
            body = line.removesuffix(b"\n")
            if len(body) > most:
                if skip is None:
                    what = f"line {number:,} is over the limit of {most:,} bytes (--max-payload)"
                    raise TooLarge(what)
                length = len(body) if line.endswith(b"\n") else len(body) + _skip_line(file, most)
                skip(number, too_large(length, most))
                alone.add(number)
                if split == 1:
                    yield None
                continue
            count += 1
            size += len(body) + 1
            if size <= most:
                chunk.append(body)
            elif skip is None:
                raise TooLarge(
                    f"with line {number:,} the chunk is over the limit of {most:,} bytes "
                    "(--max-payload)"
                )
            else:
                chunk.clear()
        if not count:
            return
        if skip is None or size <= most:
            yield b"\n".join(chunk)
            continue
        what = f"sub-request of {count:,} lines has "
        for one in range(first, number + 1):
            if one not in alone:
                skip(one, too_large(size, most, what))
        yield None


def _skip_line(file: BinaryIO, block: int) -> int:
    """Read the rest of a line; its number of bytes without the line end."""
    size = 0
    while part := file.readline(block):
        size += len(part)
        if part.endswith(b"\n"):
            return size - 1
    return size


@dataclass(slots=True)
class LineCounts:
    """The payloads in a file, and the lines that can't be submitted."""

    payloads: int = 0
    size: int = 0
    """bytes of the payloads"""
    lines: int = 0
    """lines of the payloads, and those that are left out"""
    rejects: int = 0
    """lines that are left out"""
    first: tuple[int, str] | None = None
    """the first of these: its number and the reason"""

    def reject(self, number: int, reason: str) -> None:
        self.lines += 1
        self.rejects += 1
        self.first = self.first or (number, reason)

    def of(self, payloads: Iterable[bytes | None]) -> LineCounts:
        """Count all payloads."""
        deque(self.counted(payloads), 0)
        return self

    def counted(self, payloads: Iterable[bytes | None]) -> Iterator[bytes | None]:
        """The payloads, each counted as it is read."""
        for payload in payloads:
            if payload is not None:
                self.payloads += 1
                self.lines += payload.count(b"\n") + 1
                self.size += len(payload)
            yield payload


async def opened(deployment: Deployment, name: str, kind: type[Any] = RequestQueue) -> Queue[Any]:
    """The queue of that name; else one of that kind, which its first use creates."""
    return await deployment.named(name) or kind(
        deployment.client,
        name,
        prefix=deployment.prefix,
        clock=deployment.clock,
        callers=deployment.callers,
    )


def memory(requests: int, bytes: int) -> int:
    """About how many bytes requests of one sub-request each will take on the server."""
    return requests * REQUEST_BYTES + max(0, bytes - requests * 4000)


class Submission:
    """One request with sub-requests from an iterator. Call `step` until it returns False.

    Raises `Exists`, before anything is sent, if the id has other content. If it is given up, the
    request stays open with what was sent. A step that failed because the server was away, or the
    queue full, can be called again: it sends the same. ``read``: payloads read so far; ``sent``:
    payloads that are known to be on the server.
    """

    unit: ClassVar[str] = "sub-request"

    def __init__(
        self,
        queue: RequestQueue[Any],
        payloads: Iterable[bytes],
        *,
        id: str,
        priority: int = PRIORITY,
        limit: int = LIMIT,
        op: str = "",
        seq: int = 0,
        most: int | None = None,
    ) -> None:
        """``op``: the import to which it belongs, which reopens a cancelled request of the same
        content; ``seq``: the number of the request in that import. ``most``: payloads in a step."""
        checked_request(id, priority, limit)
        self.queue = queue
        self.id = id
        self.read = 0
        self.sent = 0
        self.done: SubmittedRequest | None = None
        self.cancelled = False
        """whether the request was cancelled and is not yet reopened"""
        self._seq = seq
        self._parameters: dict[str, Any] = {"priority": priority, "limit": limit, "op": op}
        self._digest = Digest(priority, limit)
        self._payloads = iter(payloads)
        self._chunks = batches(self._payloads, most or CHUNK, CHUNK_BYTES, len)
        self._calls = WINDOW if most is None else 1
        self._ahead: list[bytes] | None = None
        self._window: list[dict[str, Any]] = []
        """calls that are not known to have arrived"""
        self._known: tuple[int, str] | None = None

    async def step(self) -> bool:
        """Compare or send some payloads; False when the request is complete and sealed."""
        known = await self.look()
        if self.read < known[0]:
            self._compare(*known)
        elif self.cancelled:
            await self.queue.control.op(
                self._parameters["op"], self._seq, "reopen", self.id, "open"
            )
            self.cancelled = False
        elif self.done is None:
            await self._send()
        return self.done is None

    async def rehearse(self) -> None:
        """Raise what the steps would raise as things are now. Reads the payloads, sends nothing."""
        known = await self.look()
        while self.read < known[0]:
            self._compare(*known)
        start, before = self.read + 1, str(self._digest)
        for payload in self._payloads:
            self._digest.add(payload)
            self.read += 1
        priority, limit = self._parameters["priority"], self._parameters["limit"]
        _whole(
            await self.queue.rehearse.op(
                self.id,
                start,
                self.read + 1 - start,
                before=before,
                after=str(self._digest),
                priority=priority,
                limit=limit,
            )
        )

    async def look(self) -> tuple[int, str]:
        """How many sub-requests there are already, and their digest."""
        if self._known is None:
            found = await self.queue.request.op(self.id)
            self.cancelled = found is not None and found.state == "cancelled"
            if self.cancelled and not self._parameters["op"]:
                raise cancelled(self.id)
            self._known = (found.total, found.digest) if found else (0, "")
        return self._known

    def _compare(self, total: int, digest: str) -> None:
        """Read again what the server has already, and compare the digests."""
        bite = min(BITE, total - self.read)
        for payload in islice(self._payloads, bite):
            self._digest.add(payload)
            self.read += 1
            bite -= 1
        if bite or (self.read == total and str(self._digest) != digest):
            raise Exists(f"request {self.id} exists with other content (or limit, or priority)")
        if self.read == total and not self.cancelled:
            self.sent = total

    def ready(self) -> int:
        """How many payloads the next step sends, after `look`; 0 if it compares."""
        compares = self._known is not None and self.read < self._known[0]
        if not (self._window or compares or self.cancelled):
            self._fill()
        return sum(len(call["payloads"]) for call in self._window)

    def _fill(self) -> None:
        if self._ahead is None:
            self._ahead = next(self._chunks, [])
        # The first chunk is sent alone: it may have to register the queue, in several round trips.
        most = self._calls if self.sent else 1
        while self._ahead is not None and len(self._window) < most:
            # Read one chunk ahead, because the last one seals the request.
            chunk, self._ahead = self._ahead, next(self._chunks, None)
            start, before = self.read + 1, str(self._digest)
            self._digest.extend(chunk)
            self.read += len(chunk)
            call = {"start": start, "payloads": chunk, "before": before, "after": str(self._digest)}
            self._window.append({**call, "seal": self._ahead is None})

    async def _send(self) -> None:
        self.ready()
        calls = [{**call, **self._parameters} for call in self._window]
        last = (await together(self.queue.append.op(self.id, **call) for call in calls))[-1]
        self._window = []
        if self._ahead is None:
            self.done = _whole(last)
        self.sent = self.read


async def submit_whole(
    queue: RequestQueue[Any], id: str, payloads: Sequence[bytes], priority: int, limit: int
) -> SubmittedRequest:
    """Submit a request that fits into one call."""
    digest = Digest(priority, limit)
    before = str(digest)
    digest.extend(payloads)
    submitted: SubmittedRequest = await queue.append.op(
        id, 1, payloads, before=before, after=str(digest), seal=True, priority=priority, limit=limit
    )
    return submitted


class Numbered:
    """Payloads with ids ``ID-1``, ``ID-2``, … A None among them takes a number, but is not sent."""

    unit: ClassVar[str]
    """what a payload becomes"""

    def __init__(self, payloads: Iterable[bytes | None], id: str) -> None:
        self.id = id
        self.read = 0
        self.sent = 0
        self.done: SubmittedRequest | None = None
        self.purged = 0
        """ids that were there before and have been purged or moved"""
        self.first_purged = ""
        self._word = "same"
        self._numbers: deque[int] = deque()
        self._chunks = cut(self._numbered(payloads))

    def _numbered(self, payloads: Iterable[bytes | None]) -> Iterator[bytes]:
        for number, payload in enumerate(payloads, 1):
            if payload is not None:
                self._numbers.append(number)
                yield payload

    def _named(self, chunk: Sequence[bytes]) -> list[tuple[str, bytes]]:
        return [(f"{self.id}-{self._numbers.popleft()}", payload) for payload in chunk]

    def _was_purged(self, id: str) -> None:
        self.purged += 1
        self.first_purged = self.first_purged or id


class EachLine(Numbered):
    """A request per payload, with ids ``ID-1``, ``ID-2``, …. Call `step` until it returns False.

    Repeating it skips what exists, also where it was purged or moved; raises `Exists` at the first
    id that has other content. A None among the payloads takes a number, but makes no request.
    """

    unit: ClassVar[str] = "request"

    def __init__(
        self,
        queue: RequestQueue[Any],
        payloads: Iterable[bytes | None],
        *,
        id: str,
        priority: int = PRIORITY,
        limit: int = LIMIT,
    ) -> None:
        checked_request(f"{id}-{10**9}", priority, limit)
        super().__init__(payloads, id)
        self.queue = queue
        self._parameters = {"priority": priority, "limit": limit}

    async def rehearse(self) -> None:
        """Raise what the steps would raise as things are now. Reads the payloads, sends nothing."""
        fresh, empty = 0, str(Digest(**self._parameters))
        for chunk in self._chunks:
            calls = []
            for name, payload in self._named(chunk):
                digest = Digest(**self._parameters)
                digest.add(payload)
                call = self.queue.rehearse.op(
                    name, 1, 1, before=empty, after=str(digest), **self._parameters
                )
                calls.append(call)
            fresh += self._counted(await together(calls))
        if fresh:  # whether there is room for all of them together
            await self.queue.rehearse.op(
                f"{self.id}-{ulid()}", 1, fresh, before=empty, after="", **self._parameters
            )

    def _counted(self, replies: Iterable[SubmittedRequest]) -> int:
        """Count purged requests; returns how many are new."""
        new = 0
        for one in replies:
            if one.word == "trash":
                self._was_purged(one.id)
            else:
                new += _whole(one).word == "ok"
        return new

    async def step(self) -> bool:
        """Send some requests; False when all are sent."""
        chunk = next(self._chunks, [])
        calls = [
            submit_whole(self.queue, name, [payload], **self._parameters)
            for name, payload in self._named(chunk)
        ]
        self.read += len(chunk)
        if self._counted(await together(calls)):
            self._word = "ok"
        self.sent = self.read
        if not calls:
            self.done = SubmittedRequest(self.id, self._word, self.sent, "sealed")
        return self.done is None


class EachEntry(Numbered):
    """An entry per payload, with ids ``ID-1``, ``ID-2``, …, in a queue whose entries have no
    requests. Call `step` until it returns False. Repeating it within a day skips what was added,
    also what is done by now, except in a queue that `pushes_again`."""

    unit: ClassVar[str] = "entry"

    def __init__(
        self,
        queue: TakesEntries[Any],
        payloads: Iterable[bytes | None],
        *,
        id: str,
        client: str | None = None,
        at_ms: int | None = None,
    ) -> None:
        checked_name(f"{id}-{10**9}", "entry id")
        super().__init__(payloads, id)
        self.queue = queue
        self._client, self._at_ms = client, at_ms
        self._upto: int | None = None
        """the number of the last payload that an earlier run added"""

    async def rehearse(self) -> None:
        """Raise what the steps would raise as things are now. Reads the payloads, sends nothing."""
        await self._add([])
        counts, settings = await together(self.queue.counts.op(), self.queue.settings.op())
        if counts.closed is not None:
            raise QueueClosed("the queue is draining and takes no new entries")
        fresh = 0
        for chunk in self._chunks:
            before, new = await self._parted(chunk)
            await self._there(before)
            fresh += len(new) - await self._there(new)
        most = int(settings.get("max_waiting") or 0)
        waiting = counts.waiting + counts.delayed * self.queue.bounds_delayed
        if most and waiting + fresh > most:
            raise QueueFull(f"{waiting} entries wait and max_waiting is {most}")

    async def step(self) -> bool:
        """Send some entries; False when all are sent."""
        chunk = next(self._chunks, [])
        before, new = await self._parted(chunk)
        words = await self._add(new)
        self.read += len(chunk)
        there = (pair for pair, word in zip(new, words, strict=True) if word in _DOUBTFUL)
        await self._there([*before, *there])
        if "ok" in words:
            self._word = "ok"
        if new and not self.queue.pushes_again:
            await self.queue.keep_submitted_lines.op(self.id, _number(new[-1][0]))
        self.sent = self.read
        if not chunk:
            self.done = SubmittedRequest(self.id, self._word, self.sent, "sealed")
        return self.done is None

    async def _parted(
        self, chunk: Sequence[bytes]
    ) -> tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]:
        """The entries that an earlier run added, and the others."""
        if self._upto is None:
            self._upto = await self.queue.submitted_lines.op(self.id)
        pairs = self._named(chunk)
        first = next((k for k, (id, _) in enumerate(pairs) if _number(id) > self._upto), len(pairs))
        return pairs[:first], pairs[first:]

    async def _add(self, pairs: Sequence[tuple[str, bytes]]) -> list[str]:
        at = None if self._at_ms is None else self._at_ms / 1000
        words: list[str] = await self.queue.add_entries.op(pairs, client=self._client, at=at)
        return words

    async def _there(self, pairs: Sequence[tuple[str, bytes]]) -> int:
        """How many of these are there already, those in the trash counted; raises `Exists` for one
        with other content."""
        if self.queue.pushes_again or not pairs:
            return 0
        there = 0
        found = await self.queue.get_many.op([id for id, _ in pairs])
        for (id, payload), entry in zip(pairs, found, strict=True):
            if entry is None or entry.state == "done":
                continue
            there += 1
            other_time = entry.state == "delayed" and entry.at_ms != self._at_ms
            if entry.payload != payload or entry.client != self._client or other_time:
                raise Exists(f"entry {id} exists with other content (or client, or time)")
            if entry.state == "trash":
                self._was_purged(id)
        return there


def _number(id: str) -> int:
    return int(id.rpartition("-")[2])


def _whole(submitted: SubmittedRequest) -> SubmittedRequest:
    """Raise for ``past`` (the request has more than was submitted) and ``trash`` (it was
    purged)."""
    if submitted.word == "past":
        raise Exists(f"request {submitted.id} exists with other content")
    if submitted.word == "trash":
        raise purged(submitted)
    return submitted
