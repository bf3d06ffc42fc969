"""Submits rows as requests, in one task and without Spark.

The rows come sorted: request by request, and each request in the order of the input. A request is
submitted by the core's resumable submission: each chunk carries the digest of all chunks before it,
so a chunk sent again, by a repeated task or a second copy of it, changes nothing. Memory holds a
few chunks, however long a request is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice
from typing import Any, TypeVar, cast

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.errors import BadInput, Exists, QueueFull, RedisqError, TooLarge
from redisq_ops.core.queues.request import RequestQueue, SubmittedRequest
from redisq_ops.core.queues.request.submission import (
    CHUNK,
    CHUNK_BYTES,
    Purged,
    checked_payload,
    cut,
    purged,
)
from redisq_ops.core.redis.operation import (
    BlockingClient,
    Call,
    attempt,
    together,
)
from redisq_ops.core.redis.scripts import script
from redisq_ops.ops.files.submit import Submission, opened, submit_whole
from redisq_ops.ops.required_features import requests_of

from ..source.connection import Server, run_retrying
from .input_split import DatasetOptions

T = TypeVar("T")
REQUESTS_PER_ROUND = 16
"""small requests per round trip"""
_BYTES_PER_ROUND = 256 * 1024
SAMPLES = 5
MAX_WAIT_S = 600.0
"""how long a task waits for capacity in a full queue before it fails"""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
RequestRows = tuple[str | None, int | None, Sequence[bytes | None]]
"""consecutive rows of one request: its id, the first row's priority, all payloads"""


@dataclass(frozen=True, slots=True)
class SmallRequest:
    """A request that fits in one chunk."""

    id: str
    priority: int
    payloads: list[bytes]


class SubmitCounts:
    """Outcomes of a task's requests."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.entries = 0
        self.samples: dict[str, list[str]] = {}

    def add(self, word: str, entries: int = 0, reason: str = "") -> None:
        self.requests[word] += 1
        self.entries += entries
        if reason and len(self.samples.setdefault(word, [])) < SAMPLES:
            self.samples[word].append(reason)


@dataclass(frozen=True, slots=True)
class RequestWriter:
    """Submits sorted rows to a queue; one per task, or used directly.

    Outcomes: ``ok`` (submitted) · ``same`` (existed already) · ``exists`` (the id exists with other
    content; nothing was changed) · ``trash`` (existed, but some of it was purged or moved)
    · ``invalid`` (an unusable id, priority or payload).
    ``skip``: leave invalid rows out instead.
    """

    server: Server
    options: DatasetOptions
    rate_name: str
    """name of the job's shared rate, if it has one: see `reserve`"""
    max_wait_s: float = MAX_WAIT_S
    sleep: Callable[[float], None] = time.sleep
    on_progress: Callable[[int], object] | None = None
    """called after each round trip with the number of entries submitted so far"""
    skip: bool = False
    max_away_s: float | None = None
    on_refused: Callable[[str | None, RedisqError], object] = lambda id, error: None
    """called for each request that is not submitted, with its id and why"""

    def write(self, request_rows: Iterable[RequestRows]) -> SubmitCounts:
        return _TaskWriter(self).submit_all(request_rows)


class _TaskWriter:
    def __init__(self, writer: RequestWriter) -> None:
        self.options, self.writer = writer.options, writer
        self.client: BlockingClient = writer.server.client
        self.retrying = partial(
            run_retrying, self.client, max_away_s=writer.max_away_s, sleep=writer.sleep
        )
        find = partial(opened, writer.server.deployment(), writer.options.queue)
        found = self.retrying(find)
        self.queue: RequestQueue[Any] = requests_of(found)
        rate = writer.options.rate
        self.max_step = max(1, int(rate)) if rate else 500
        self.counts = SubmitCounts()
        self.small: list[SmallRequest] = []
        self.bytes = 0

    def submit_all(self, request_rows: Iterable[RequestRows]) -> SubmitCounts:
        for id, group in groupby(request_rows, key=lambda rows: rows[0]):
            self._submit_request(id, group)
        self._flush()
        return self.counts

    def _submit_request(self, id: str | None, request_rows: Iterator[RequestRows]) -> None:
        """Submit one request, or add it to the small ones that are submitted together."""
        try:
            small = self._small_or_submitted(id, request_rows)
        except Purged as error:
            self._refuse("trash", id, error)
        except Exists as error:
            self._refuse("exists", id, error)
        except (BadInput, TooLarge) as error:
            if not self.writer.skip:
                self._refuse("invalid", id, error)
        else:
            if small is not None:
                self._add_small(small)

    def _refuse(self, word: str, id: str | None, error: RedisqError) -> None:
        reason = str(error)
        if word == "invalid" and id is not None:
            reason = f"{id[:140]}: {reason}"
        self.counts.add(word, 0, reason)
        self.writer.on_refused(id, error)

    def _small_or_submitted(
        self, id: str | None, request_rows: Iterator[RequestRows]
    ) -> SmallRequest | None:
        """A request of one chunk, with the priority of its first row; a longer one is submitted."""
        first, second = next(request_rows), next(request_rows, None)
        priority = first[1]
        first_rows = [first] if second is None else [first, second]
        rows = chain.from_iterable(rows[2] for rows in chain(first_rows, request_rows))
        self.options.check_request(id, priority)
        assert id is not None and priority is not None
        if second is None and (chunk := self._one_chunk(first[2])) is not None:
            return SmallRequest(id, priority, chunk)
        chunks = cut(self._payloads(rows))
        head = list(islice(chunks, 2))
        if len(head) == 1:
            return SmallRequest(id, priority, head[0])
        if head:
            self._submit_chunks(id, priority, chain.from_iterable(chain(head, chunks)))
        return None

    def _one_chunk(self, rows: Sequence[bytes | None]) -> list[bytes] | None:
        """The rows, if they form one chunk without changes, as for most requests; checked without a
        loop over rows. None if `cut` and `_payloads` have to process them.
        """
        if self.options.split > 1 or len(rows) > CHUNK or None in rows:
            return None
        # A cast instead of a check per row: no row is None here.
        payloads = cast("list[bytes]", rows if isinstance(rows, list) else list(rows))
        sizes = list(map(len, payloads))
        if sum(sizes) > CHUNK_BYTES or max(sizes) > self.options.max_payload:
            return None
        return payloads

    def _payloads(self, rows: Iterator[bytes | None]) -> Iterator[bytes]:
        """Validated payloads of sub-requests; per-row work is kept to a minimum."""
        max_payload, split = self.options.max_payload, self.options.split
        if self.writer.skip:
            rows = (row for row in rows if row is not None and len(row) <= max_payload)
        payloads = rows if split == 1 else map(_join_lines, _groups_of(rows, split))
        if self.writer.skip:
            payloads = (p for p in payloads if p is not None and len(p) <= max_payload)
        for number, payload in enumerate(payloads, 1):
            if payload is None:
                raise BadInput(f"sub-request {number}: a row without a payload")
            if len(payload) > max_payload:
                checked_payload(payload, number, max_payload)
            yield payload

    # --- requests of one chunk -----------------------------------------------------------------

    def _add_small(self, request: SmallRequest) -> None:
        self.small.append(request)
        self.bytes += sum(map(len, request.payloads))
        entries = sum(len(each.payloads) for each in self.small)
        if (
            len(self.small) == REQUESTS_PER_ROUND
            or self.bytes > _BYTES_PER_ROUND
            or entries >= self.max_step
        ):
            self._flush()

    def _flush(self) -> None:
        pending, self.small, self.bytes = self.small, [], 0
        if not pending:
            return
        self._await_rate(sum(len(each.payloads) for each in pending))
        full = QueueFullWait(self.writer.max_wait_s, self.writer.sleep)
        for request, reply in full.replies(pending, self._submit_round):
            if isinstance(reply, Exception) and not isinstance(reply, Exists):
                raise reply
            if isinstance(reply, Exception) or reply.word == "past":
                error = Exists(f"request {request.id} exists with other content")
                self._refuse("exists", request.id, error)
            elif reply.word == "trash":
                self._refuse("trash", request.id, purged(reply))
            else:
                self.counts.add(reply.word, len(request.payloads))
        self._report_progress()

    def _submit_round(
        self, requests: Sequence[SmallRequest]
    ) -> Sequence[SubmittedRequest | Exception]:
        limit = self.options.limit
        return self.retrying(
            lambda: together(
                attempt(submit_whole(self.queue, each.id, each.payloads, each.priority, limit))
                for each in requests
            )
        )

    # --- requests of many chunks ---------------------------------------------------------------

    def _submit_chunks(self, id: str, priority: int, payloads: Iterator[bytes]) -> None:
        """Submit a request chunk by chunk."""
        limit, rate = self.options.limit, self.options.rate
        most = None if rate is None else min(CHUNK, self.max_step)
        job = Submission(self.queue, payloads, id=id, priority=priority, limit=limit, most=most)
        self.retrying(job.look)
        while job.done is None:
            self._await_rate(job.ready())
            full = QueueFullWait(self.writer.max_wait_s, self.writer.sleep)
            while True:
                try:
                    self.retrying(job.step)
                    break
                except QueueFull as error:
                    full.error = error
                    full.wait()
            self._report_progress(job.sent)
        self.counts.add(job.done.word, job.sent)

    def _await_rate(self, n: int) -> None:
        """Wait until the job's rate allows ``n`` entries."""
        if (rate := self.options.rate) is not None:
            name, burst = self.writer.rate_name, min(self.max_step, 500)
            if wait_ms := self.retrying(partial(reserve, self.queue, name, n, rate, burst)):
                self.writer.sleep(wait_ms / 1000)

    def _report_progress(self, under_way: int = 0) -> None:
        if self.writer.on_progress is not None:
            self.writer.on_progress(self.counts.entries + under_way)


class QueueFullWait:
    """Waits for capacity in a full queue with growing pauses; raises after ``max_wait_s``."""

    def __init__(self, max_wait_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._max_wait_s, self._sleep = max_wait_s, sleep
        self.error: QueueFull | None = None
        self._pause, self._waited = _FIRST_PAUSE_S, 0.0

    def replies(
        self, pending: Sequence[T], send: Callable[[Sequence[T]], Sequence[Any]]
    ) -> Iterator[tuple[T, Any]]:
        """What the queue replies to each of ``pending``; those for which it is full are sent again
        after a wait."""
        while pending:
            refused = []
            for one, reply in zip(pending, send(pending), strict=True):
                if isinstance(reply, QueueFull):
                    refused.append(one)
                    self.error = reply
                else:
                    yield one, reply
            if refused:
                self.wait(progressed=len(refused) < len(pending))
            pending = refused

    def wait(self, progressed: bool = False) -> None:
        if progressed:
            self._pause, self._waited = _FIRST_PAUSE_S, 0.0
        if self._waited >= self._max_wait_s:
            assert self.error is not None
            raise self.error
        self._sleep(self._pause)
        self._waited += self._pause
        self._pause = min(_LONGEST_PAUSE_S, self._pause * 2)


def reserve(queue: Queue[Any], name: str, n: int, rate: float, burst: int) -> Call[int]:
    """Reserve ``n`` entries (at most ``burst``) of a shared rate: the ms to wait before using them.

    The reservation is on the server under ``name``, shared by all tasks, ``rate`` in entries per
    second. The server forgets it a minute after its last use.
    """
    loaded = script(queue.package, "rate_limit")
    return loaded.call(queue.keys, queue.clock, int, name=name, n=n, rate=rate, burst=burst)


def _groups_of(rows: Iterator[bytes | None], size: int) -> Iterator[list[bytes | None]]:
    while part := list(islice(rows, size)):
        yield part


def _join_lines(lines: list[bytes | None]) -> bytes | None:
    return None if None in lines else b"\n".join(cast(list[bytes], lines))  # none is None
