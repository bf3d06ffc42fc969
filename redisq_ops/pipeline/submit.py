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

from redisq_ops.core.errors import BadInput, Exists, QueueFull, RedisqError, TooLarge
from redisq_ops.core.io import BlockingClient, Description, attempt, run, together
from redisq_ops.core.registry import unreserved
from redisq_ops.core.request import RequestQueue, Submitted
from redisq_ops.core.request.queue import Digest, checked_payload, checked_request, cut
from redisq_ops.core.settings import LIMIT, MAX_PAYLOAD, PRIORITY
from redisq_ops.ops.control import requests_of
from redisq_ops.ops.submission import opened

from .bucket import PATIENCE_S, Pace
from .writing import SAYS, Said, Server, batch, collected, sent, stopped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("text", "csv", "json", "parquet")
PARTS = 8
TOGETHER = 16
"""small requests that go in one exchange"""
_TOGETHER_BYTES = 256 * 1024
_SAMPLES = 5
_FILE, _BLOCK, _ROW = "_redisq_file", "_redisq_block", "_redisq_row"
_CORRUPT = "_corrupt_record"
"""the column in which Spark keeps a row it can't read"""
_AGAIN_S, _LONGEST_S = 0.05, 2.0

Row = tuple[str | None, int | None, bytes | None]
"""request, priority, payload"""
Run = tuple[str | None, int | None, Sequence[bytes | None]]
"""rows of one request that follow each other: the first one's priority, all their payloads"""


@dataclass(frozen=True, slots=True)
class Asked:
    """How rows become requests.

    ``id``: the column with the request's id. Without one, requests are ``name-1``, ``name-2`` …
    of ``rows`` rows each, in the order of the input. ``priority``: a number or a column.
    """

    queue: str
    id: str | None = None
    name: str | None = None
    rows: int = 100_000
    payload: str | None = None
    """the column whose bytes are sent as they are; None: the row as JSON, of text its line"""
    order: tuple[str, ...] = ()
    """columns that order a request's rows; none: as they stand in the files"""
    split: int = 1
    """rows of a sub-request, joined by line ends"""
    priority: str = str(PRIORITY)
    limit: int = LIMIT
    max_payload: int = MAX_PAYLOAD
    rate: float | None = None
    parts: int = PARTS

    def __post_init__(self) -> None:
        if (self.id is None) == (self.name is None):
            raise BadInput("say --id COLUMN, or --name NAME for requests of --rows rows each")
        if self.split < 1 or self.rows < 1 or self.parts < 1:
            raise BadInput("--split, --rows and --parts are for 1 or more")
        level = int(self.priority) if self.priority.isdecimal() else PRIORITY
        checked_request(self.name or "id", level, self.limit)


# --- reading and arranging: Spark's part ---------------------------------------------------------


def read(spark: SparkSession, path: str, format: str | None = None) -> DataFrame:
    """A dataset with the place of each row beside: its file, the block, and the row in that.

    CSV has a header and only text; of text a line ends with a line feed and nothing else. Rows that
    can't be read as what they should be have nothing but a column that says so (`corrupt`).
    """
    from pyspark.sql import functions as F

    format = format or guessed(path)
    if format not in FORMATS:
        raise BadInput(f"--format {format}: {', '.join(FORMATS)}")
    reader = spark.read.format(format)
    if format == "text":
        reader = reader.option("lineSep", "\n")
    if format == "csv":
        # A row is whole or not whichever of its columns are asked for.
        reader = reader.option("header", True).option("columnPruning", False)
        reader = reader.schema(reader.load(path).schema.add(_CORRUPT, "string"))
    if format in ("csv", "json"):
        reader = reader.option("columnNameOfCorruptRecord", _CORRUPT)
    frame = reader.load(path)
    return frame.select(
        "*",
        F.col("_metadata.file_path").alias(_FILE),
        F.col("_metadata.file_block_start").alias(_BLOCK),
        F.monotonically_increasing_id().alias(_ROW),
    )


def guessed(path: str) -> str:
    """A format by the end of a name; what tells nothing is text."""
    name = path.rstrip("/").lower().removesuffix(".gz")
    ends = {"csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json", "parquet": "parquet"}
    return ends.get(name.rpartition(".")[2], "text")


def arranged(frame: DataFrame, asked: Asked) -> DataFrame:
    """The rows as ``request``, ``priority`` and ``payload``, each request in one partition and in
    its order. Whatever the partitions of the input were, the same input gives the same requests."""
    from pyspark.sql import functions as F

    own = [name for name in frame.columns if name not in (_FILE, _BLOCK, _ROW, _CORRUPT)]
    for name in (asked.id, asked.payload, *asked.order):
        if name is not None and name not in own:
            raise BadInput(f"the dataset has no column {name!r}: it has {', '.join(own)}")
    if asked.payload is not None:
        payload = F.col(asked.payload).cast("binary")
    elif own == ["value"]:
        payload = F.col("value").cast("binary")
    else:
        row = F.struct(*(F.col(f"`{name}`") for name in own))
        payload = F.to_json(row, {"ignoreNullFields": "false"}).cast("binary")
    placed = [name for name in (_FILE, _BLOCK, _ROW) if name in frame.columns]
    order = [F.col(name) for name in asked.order or placed]
    level = F.lit(int(asked.priority)) if asked.priority.isdecimal() else None
    if level is None and asked.priority not in own:
        raise BadInput(f"the dataset has no column {asked.priority!r} to take the priority from")
    if level is None:
        level = F.col(asked.priority).try_cast("int")
    if asked.id is not None:
        request = F.col(asked.id).cast("string")
    else:
        frame, number = _numbered(frame, placed)
        request = F.concat(
            F.lit(f"{asked.name}-"), (F.floor(number / asked.rows) + 1).cast("string")
        )
    if _CORRUPT in frame.columns:  # numbered like the others, so that these stay where they are
        frame = frame.where(F.col(_CORRUPT).isNull())
    keys = [F.col(f"_order{n}") for n in range(len(order))]
    chosen = frame.select(
        request.alias("request"), level.cast("int").alias("priority"), payload.alias("payload"),
        *(column.alias(f"_order{n}") for n, column in enumerate(order)),
    )  # fmt: skip
    # The payload last: rows nothing else tells apart are in one order all the same.
    chosen = chosen.repartition(asked.parts, "request")
    sorted_ = chosen.sortWithinPartitions("request", *keys, "payload")
    return sorted_.select("request", "priority", "payload")


def corrupt(frame: DataFrame) -> int:
    """How many rows can't be read; they are left out."""
    from pyspark.sql import functions as F

    if _CORRUPT not in frame.columns:
        return 0
    # The column can't be asked for alone, so another is looked at and not used.
    other = next(name for name in frame.columns if name != _CORRUPT)
    rows = frame.where(F.col(_CORRUPT).isNotNull())
    found = rows.agg(F.count("*"), F.max(F.col(f"`{other}`").cast("string"))).collect()
    return int(found[0][0])


def _numbered(frame: DataFrame, placed: Sequence[str]) -> tuple[DataFrame, Any]:
    """Every row's number in the input, from 0, without bringing the rows to one place."""
    from pyspark.sql import functions as F

    if not placed:
        raise BadInput("without --id the rows have to come from files: only those have an order")
    blocks = (
        frame.groupBy(_FILE, _BLOCK).agg(F.count("*").alias("n"), F.min(_ROW).alias("first"))
        .orderBy(_FILE, _BLOCK).collect()
    )  # fmt: skip
    if not blocks:
        return frame, F.col(_ROW)
    starts, before = [], 0
    for block in blocks:
        starts.append((block[_FILE], block[_BLOCK], before - block["first"]))
        before += block["n"]
    shifts = frame.sparkSession.createDataFrame(
        starts, f"{_FILE} string, {_BLOCK} long, _shift long"
    )
    return frame.join(F.broadcast(shifts), [_FILE, _BLOCK]), F.col("_shift") + F.col(_ROW)


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
    """

    server: Server
    asked: Asked
    line: str
    """the name of the job's line, where it has a rate: see `bucket`"""
    patience_s: float = PATIENCE_S
    sleep: Callable[[float], None] = time.sleep
    told: Callable[[int], object] | None = None
    """is told how many entries are there after each exchange"""

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
        self.pace = Pace(self.queue, writer.line, rate, min(self.bite, 500), sleep=writer.sleep)
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
        first = next(runs)
        priority = first[1]
        rows = chain.from_iterable(run[2] for run in chain([first], runs))
        try:
            if id is None or priority is None:
                raise BadInput("rows without an id" if id is None else "no priority")
            checked_request(id, priority, self.asked.limit)
            chunks = cut(self._payloads(rows))
            head = list(islice(chunks, 2))
            if len(head) < 2:
                self._gather(Small(id, priority, head[0]))
                return
            entries, word = self._grow(id, priority, chain(head, chunks))
            self.tally.add(word, entries)
        except Exists as error:
            self.tally.add("exists", 0, str(error))
        except (BadInput, TooLarge) as error:
            self.tally.add("invalid", 0, str(error) if id is None else f"{id[:140]}: {error}")

    def _payloads(self, rows: Iterator[bytes | None]) -> Iterator[bytes]:
        """Sub-requests, each looked at: a line of work for every row there is, so no more of it
        than needed."""
        most, split = self.asked.max_payload, self.asked.split
        payloads = rows if split == 1 else map(_joined, _parted(rows, split))
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

    def _together(self, some: list[Small]) -> Description[list[Submitted | Exception]]:
        return together([self._attempted(each) for each in some])

    async def _attempted(self, request: Small) -> Submitted | Exception:
        return await attempt(self._whole(request))

    def _whole(self, request: Small) -> Description[Submitted]:
        digest = Digest(request.priority, self.asked.limit)
        before = str(digest)
        digest.extend(request.payloads)
        call: Description[Submitted] = self.queue.append.op(
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

    def _appended(self, id: str, start: int, chunk: list[bytes], call: dict[str, Any]) -> Submitted:
        full = _Full(self.writer)
        while True:
            try:
                append = partial(self.queue.append.op, id, start, chunk, limit=self.asked.limit)
                submitted: Submitted = sent(self.client, partial(append, **call))
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
class Tasks:
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
    corrupt: int = 0
    """rows that could not be read"""

    @property
    def refused(self) -> int:
        return sum(n for word, n in self.requests.items() if word not in ("ok", "same"))

    @property
    def exit_code(self) -> int:
        """0 all is there; 3 some; 1 none of it."""
        if not self.refused:
            return 3 if self.corrupt else 0
        return 3 if sum(self.requests.values()) > self.refused else 1


def submit(
    spark: SparkSession,
    server: Server,
    frame: DataFrame,
    asked: Asked,
    line: str,
    told: Callable[[int], object] | None = None,
    progress: Callable[[], object] = lambda: None,
) -> Done:
    """Submit a dataset; run it again and it adds what is missing, which is nothing once it ended.

    Raises what a task refused for, after all others ended.
    """
    queue = run(server.client, opened(server.deployment(), asked.queue))
    unreserved(requests_of(queue).name, RequestQueue.kind)
    tasks = Tasks(Writer(server, asked, line, told=told))
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
    return Done(dict(requests), entries, named, corrupt(frame))


@dataclass(frozen=True, slots=True)
class Sized:
    """What a dataset would become."""

    requests: int
    entries: int
    rows: int
    bytes: int
    corrupt: int
    """rows that can't be read, and would be left out"""


def sized(frame: DataFrame, asked: Asked) -> Sized:
    """Count it; sends nothing."""
    from pyspark.sql import functions as F

    each = arranged(frame, asked).groupBy("request").agg(
        F.count("*").alias("rows"), F.sum(F.octet_length("payload")).alias("bytes")
    )  # fmt: skip
    found = each.agg(
        F.count("*"), F.sum(F.ceil(F.col("rows") / asked.split)), F.sum("rows"), F.sum("bytes")
    ).collect()[0]
    requests, entries, rows, size = (int(value or 0) for value in found)
    return Sized(requests, entries, rows, size, corrupt(frame))
