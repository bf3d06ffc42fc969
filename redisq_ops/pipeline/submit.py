"""A dataset becomes requests and sub-requests, by many tasks, each request whole in one of them.

Rows come to a task sorted: request by request, and within one as they stood in the input. A request
goes in by the core's own resumable submission: every chunk carries the digest of all before it, so
one that is sent again, from a task that begins anew or from a second copy of it, changes nothing,
and a request is as far as its last chunk whoever brought it there. Memory holds a few chunks,
however long a request is.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, cast

from redisq_ops.core.engine.registry import refuse_reserved_name
from redisq_ops.core.model.errors import BadInput, Exists, QueueFull, RedisqError, TooLarge
from redisq_ops.core.queues.request import RequestQueue, SubmittedRequest
from redisq_ops.core.queues.request.submission import (
    CHUNK,
    CHUNK_BYTES,
    Digest,
    checked_payload,
    cut,
)
from redisq_ops.core.redis.operation import BlockingClient, Description, attempt, run, together
from redisq_ops.ops.change.control import requests_of
from redisq_ops.ops.files.submit import opened

from .dataset import DatasetOptions, arranged
from .rate_limiter import PATIENCE_S, RateLimiter
from .screening import Screened, screened
from .writing import SAYS, Said, Server, batch, collected, sent, stopped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TOGETHER = 16
"""small requests that go in one exchange"""
_TOGETHER_BYTES = 256 * 1024
_SAMPLES = 5
_AGAIN_S, _LONGEST_S = 0.05, 2.0

Row = tuple[str | None, int | None, bytes | None]
"""request, priority, payload"""
Run = tuple[str | None, int | None, Sequence[bytes | None]]
"""rows of one request that follow each other: the first one's priority, all their payloads"""


# --- writing: a task's part, without Spark -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Small:
    """A request of one chunk."""

    id: str
    priority: int
    payloads: list[bytes]


class Tally:
    """What came of a task's requests."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.entries = 0
        self.samples: dict[str, list[str]] = {}

    def add(self, word: str, entries: int = 0, why: str = "") -> None:
        self.requests[word] += 1
        self.entries += entries
        if why and len(self.samples.setdefault(word, [])) < _SAMPLES:
            self.samples[word].append(why)

    def said(self, unit: int) -> list[Said]:
        rows = [
            Said(unit, word, n, "\n".join(self.samples.get(word, ())))
            for word, n in self.requests.items()
        ]
        return [*rows, Said(unit, "entries", self.entries)]


@dataclass(frozen=True, slots=True)
class Writer:
    """Puts sorted rows into a queue; one a task, or called by itself.

    Words: ``ok`` (it is there now) · ``same`` (it was) · ``exists`` (the id is there with other
    content, nothing was changed) · ``invalid`` (an id, priority or payload that can't be used).
    ``skip``: leaves out what is invalid instead, of a request the rows.
    """

    server: Server
    asked: DatasetOptions
    line: str
    """the name of the job's line, where it has a rate: see `bucket`"""
    patience_s: float = PATIENCE_S
    sleep: Callable[[float], None] = time.sleep
    told: Callable[[int], object] | None = None
    """is told how many entries are there after each exchange"""
    skip: bool = False

    def write(self, rows: Iterable[Row]) -> Tally:
        """Rows one by one."""
        return self.write_runs((id, priority, [payload]) for id, priority, payload in rows)

    def write_runs(self, runs: Iterable[Run]) -> Tally:
        return _Writing(self).all(runs)


class _Writing:
    def __init__(self, writer: Writer) -> None:
        self.asked, self.writer = writer.asked, writer
        self.client: BlockingClient = writer.server.client
        find = partial(opened, writer.server.deployment(), writer.asked.queue)
        found = sent(self.client, find)
        self.queue: RequestQueue[Any] = requests_of(found)
        rate = writer.asked.rate
        self.bite = max(1, int(rate)) if rate else 500
        self.pace = RateLimiter(
            self.queue, writer.line, rate, min(self.bite, 500), sleep=writer.sleep
        )
        self.tally = Tally()
        self.small: list[Small] = []
        self.bytes = 0

    def all(self, runs: Iterable[Run]) -> Tally:
        for id, group in groupby(runs, key=lambda run: run[0]):
            self._request(id, group)
        self._flush()
        return self.tally

    def _request(self, id: str | None, runs: Iterator[Run]) -> None:
        """One request; its priority is its first row's."""
        first, second = next(runs), next(runs, None)
        priority = first[1]
        begin = [first] if second is None else [first, second]
        rows = chain.from_iterable(run[2] for run in chain(begin, runs))
        try:
            self.asked.checked(id, priority)
            assert id is not None and priority is not None
            if second is None and (one := self._one_chunk(first[2])) is not None:
                self._gather(Small(id, priority, one))
                return
            chunks = cut(self._payloads(rows))
            head = list(islice(chunks, 2))
            if not head:
                return
            if len(head) < 2:
                self._gather(Small(id, priority, head[0]))
                return
            entries, word = self._grow(id, priority, chain(head, chunks))
            self.tally.add(word, entries)
        except Exists as error:
            self.tally.add("exists", 0, str(error))
        except (BadInput, TooLarge) as error:
            if self.writer.skip:
                return
            self.tally.add("invalid", 0, str(error) if id is None else f"{id[:140]}: {error}")

    def _one_chunk(self, rows: Sequence[bytes | None]) -> list[bytes] | None:
        """Rows that are a chunk as they are, which most are: told without a line of work for each.
        None: `cut` and `_payloads` have to look."""
        if self.asked.split > 1 or len(rows) > CHUNK or None in rows:
            return None
        whole = cast("list[bytes]", rows if isinstance(rows, list) else list(rows))
        sizes = list(map(len, whole))
        if sum(sizes) > CHUNK_BYTES or max(sizes) > self.asked.max_payload:
            return None
        return whole

    def _payloads(self, rows: Iterator[bytes | None]) -> Iterator[bytes]:
        """Sub-requests, each looked at: a line of work for every row there is, so no more of it
        than needed."""
        most, split = self.asked.max_payload, self.asked.split
        if self.writer.skip:
            rows = (row for row in rows if row is not None and len(row) <= most)
        payloads = rows if split == 1 else map(_joined, _parted(rows, split))
        if self.writer.skip:
            payloads = (one for one in payloads if one is not None and len(one) <= most)
        for number, payload in enumerate(payloads, 1):
            if payload is None:
                raise BadInput(f"sub-request {number}: a row without a payload")
            if len(payload) > most:
                checked_payload(payload, number, most)
            yield payload

    # --- requests of one chunk, some together --------------------------------------------------

    def _gather(self, request: Small) -> None:
        self.small.append(request)
        self.bytes += sum(map(len, request.payloads))
        many = sum(len(each.payloads) for each in self.small)
        if len(self.small) == TOGETHER or self.bytes > _TOGETHER_BYTES or many >= self.bite:
            self._flush()

    def _flush(self) -> None:
        left, self.small, self.bytes = self.small, [], 0
        if not left:
            return
        self.pace.wait(self.client, sum(len(each.payloads) for each in left), room=False)
        full = _Full(self.writer)
        while left:
            said = sent(self.client, partial(self._together, left))
            unfit: list[Small] = []
            for request, reply in zip(left, said, strict=True):
                if isinstance(reply, QueueFull):
                    unfit.append(request)
                    full.error = reply
                elif isinstance(reply, Exists):
                    why = f"request {request.id} is there with other content"
                    self.tally.add("exists", 0, why)
                elif isinstance(reply, Exception):
                    raise reply
                elif reply.word == "past":
                    why = f"request {request.id} is there with other content"
                    self.tally.add("exists", 0, why)
                else:
                    self.tally.add(reply.word, len(request.payloads))
            if unfit:
                full.wait(moved=len(unfit) < len(left))
            left = unfit
        self._tell()

    def _together(self, some: list[Small]) -> Description[list[SubmittedRequest | Exception]]:
        return together([self._attempted(each) for each in some])

    async def _attempted(self, request: Small) -> SubmittedRequest | Exception:
        return await attempt(self._whole(request))

    def _whole(self, request: Small) -> Description[SubmittedRequest]:
        digest = Digest(request.priority, self.asked.limit)
        before = str(digest)
        digest.extend(request.payloads)
        call: Description[SubmittedRequest] = self.queue.append.op(
            request.id, 1, request.payloads, before=before, after=str(digest), seal=True,
            priority=request.priority, limit=self.asked.limit,
        )  # fmt: skip
        return call

    # --- requests of many chunks ---------------------------------------------------------------

    def _grow(self, id: str, priority: int, chunks: Iterator[list[bytes]]) -> tuple[int, str]:
        """How many entries it has, and ``ok`` or ``same``; what is there already is compared."""
        known = sent(self.client, partial(self.queue.request.op, id))
        if known is not None and known.state == "cancelled":
            raise Exists(f"request {id} was cancelled; undo that or choose another id")
        total, there = (known.total, known.digest) if known is not None else (0, "")
        digest, at, word = Digest(priority, self.asked.limit), 0, "same"
        other = Exists(f"request {id} is there with other content (or limit, or priority)")
        for chunk, last in _marked(self._bites(chunks)):
            begun = min(len(chunk), total - at)
            if begun > 0:
                digest.extend(chunk[:begun])
                at += begun
                if at == total and str(digest) != there:
                    raise other
                chunk = chunk[begun:]
                if not last and not chunk:
                    continue
            if last and at + len(chunk) < total:
                raise other
            before = str(digest)
            digest.extend(chunk)
            self.pace.wait(self.client, len(chunk), room=False)
            call = {"before": before, "after": str(digest), "seal": last, "priority": priority}
            said = self._appended(id, at + 1, chunk, call)
            if last and said.word == "past":
                raise other
            word = "ok" if said.word == "ok" else word
            at += len(chunk)
            self._tell(at)
        return at, word

    def _bites(self, chunks: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
        for chunk in chunks:
            for start in range(0, len(chunk), self.bite):
                yield chunk[start : start + self.bite]

    def _appended(
        self, id: str, start: int, chunk: list[bytes], call: dict[str, Any]
    ) -> SubmittedRequest:
        full = _Full(self.writer)
        while True:
            try:
                append = partial(self.queue.append.op, id, start, chunk, limit=self.asked.limit)
                submitted: SubmittedRequest = sent(self.client, partial(append, **call))
                return submitted
            except QueueFull as error:
                full.error = error
                full.wait()

    def _tell(self, under_way: int = 0) -> None:
        if self.writer.told is not None:
            self.writer.told(self.tally.entries + under_way)


class _Full:
    """Waits for room in a full queue, each time longer, and at some time no more."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.error: QueueFull | None = None
        self._pause, self._waited = _AGAIN_S, 0.0

    def wait(self, moved: bool = False) -> None:
        if moved:
            self._pause, self._waited = _AGAIN_S, 0.0
        if self._waited >= self.writer.patience_s:
            assert self.error is not None
            raise self.error
        self.writer.sleep(self._pause)
        self._waited += self._pause
        self._pause = min(_LONGEST_S, self._pause * 2)


def _marked(items: Iterator[list[bytes]]) -> Iterator[tuple[list[bytes], bool]]:
    """Each with whether it is the last."""
    ahead = next(items, None)
    while ahead is not None:
        item, ahead = ahead, next(items, None)
        yield item, ahead is None


@dataclass(frozen=True, slots=True)
class SubmitTasks:
    """The same as what Spark's tasks do."""

    writer: Writer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        unit = context.partitionId() if context is not None else 0
        try:
            writing = self.writer.write_runs(runs(batches))
            yield batch(writing.said(unit))
        except RedisqError as error:
            yield batch([stopped(unit, error)])


def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[Run]:
    """The rows of batches, cut where the request changes; a thousand at a time are Python's."""
    import pyarrow.compute as pc

    for each in batches:
        names, priorities, payloads = each.columns
        start = 0
        for end in pc.run_end_encode(names).run_ends.to_pylist():
            id = names[start].as_py()
            for low in range(start, end, 1000):
                some = payloads.slice(low, min(1000, end - low))
                yield id, priorities[low].as_py(), some.to_pylist()
            start = end


def _parted(rows: Iterator[bytes | None], size: int) -> Iterator[list[bytes | None]]:
    while part := list(islice(rows, size)):
        yield part


def _joined(lines: list[bytes | None]) -> bytes | None:
    return None if None in lines else b"\n".join(cast(list[bytes], lines))


# --- the job -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """What a job came to, over all its tasks."""

    requests: dict[str, int]
    entries: int
    samples: dict[str, list[str]]
    rejects: int = 0
    """rows that can't be submitted, and were left out"""
    corrupt: int = 0
    """those of them that can't be read at all"""

    @property
    def refused(self) -> int:
        return sum(n for word, n in self.requests.items() if word not in ("ok", "same"))

    @property
    def exit_code(self) -> int:
        """0 all is there; 3 some; 1 none of it."""
        if not self.refused:
            return 3 if self.rejects else 0
        return 3 if sum(self.requests.values()) > self.refused else 1


def submit(
    spark: SparkSession,
    server: Server,
    frame: DataFrame,
    asked: DatasetOptions,
    line: str,
    told: Callable[[int], object] | None = None,
    progress: Callable[[], object] = lambda: None,
    rejected: Callable[[Screened], object] | None = None,
) -> Done:
    """Submit a dataset; run it again and it adds what is missing, which is nothing once it ended.

    `BadInput` where there are no rows. Where rows can't be submitted, raises `TooLarge` or
    `BadInput` before anything is sent; ``rejected`` is called with them instead, and the others are
    sent. Raises what a task refused for, after all others ended.
    """
    looked = screened(spark, frame, asked, progress)
    if not looked.rows and not looked.rejects:
        raise BadInput("the input has no rows: nothing to submit")
    if rejected is None:
        looked.checked()
    else:
        rejected(looked)
    queue = run(server.client, opened(server.deployment(), asked.queue))
    refuse_reserved_name(requests_of(queue).name, RequestQueue.kind)
    tasks = SubmitTasks(Writer(server, asked, line, told=told, skip=bool(looked.rejects)))
    said = collected(spark, arranged(frame, asked).mapInArrow(tasks, SAYS), progress)
    for error in (each.error for each in said):
        if error is not None:
            raise error
    requests: Counter[str] = Counter()
    samples: dict[str, list[str]] = {}
    for each in said:
        if each.word != "entries":
            requests[each.word] += each.n
            if each.detail:
                samples.setdefault(each.word, []).extend(each.detail.split("\n"))
    entries = sum(each.n for each in said if each.word == "entries")
    named = {word: why[:_SAMPLES] for word, why in samples.items()}
    return Done(dict(requests), entries, named, len(looked.rejects), looked.corrupt)
