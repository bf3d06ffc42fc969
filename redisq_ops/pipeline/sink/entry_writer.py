"""Writes rows to a queue exactly once, in one task and without Spark.

Entries are written in steps of up to 500 rows, one call at a time per *lane*. A lane is a caller of
the queue (see `core.engine.idempotency`) with a name made of the job or streaming query and the
partition, and a number made of the batch and the step. So a step that is sent again, by a repeated
task, a second copy of it or a query restarted from its checkpoint, changes nothing, even when the
entries are done by then. The queue remembers a caller for a day after its last call. Requests are
their own guard: their digest is (see `request_writer`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from redisq_ops.core.engine.idempotency import CallerSlots
from redisq_ops.core.engine.optional_features import HasClients, HasRequests, HasTimeline
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import queue_class
from redisq_ops.core.engine.registry import find, refuse_reserved_name
from redisq_ops.core.model.batches import batches
from redisq_ops.core.model.clock import checked_moment
from redisq_ops.core.model.errors import (
    BadInput,
    Exists,
    RedisqError,
    Superseded,
    TooLarge,
    WrongKind,
)
from redisq_ops.core.model.keys import checked_name
from redisq_ops.core.model.settings import PRIORITY
from redisq_ops.core.queues.request.submission import CHUNK_BYTES, checked_request
from redisq_ops.core.redis.operation import Description, attempt, together
from redisq_ops.ops.files.rejects import RejectedLine, RejectLog, too_large
from redisq_ops.ops.files.submit import opened

from ..source.connection import AWAY_S, Server, run_retrying
from .input_split import DatasetOptions
from .request_writer import MAX_WAIT_S, QueueFullWait, RequestRows, RequestWriter
from .write_options import ID_COLUMN, WRITTEN_COLUMNS, WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

STEP_ROWS = 500
"""rows of a step"""
LANES = 16
"""calls of a step in one round trip"""
STEPS_PER_BATCH = 10**7
"""upper bound for the steps of a partition in one batch"""


_UNWRITTEN = {
    "exists": "the id is there with other content",
    "trash": "it was written before, and was purged or moved: undo that, or use another id",
}
"""a queue's word for a row that it didn't take -> why"""


@dataclass(frozen=True, slots=True)
class WritableRow:
    """A valid row, and its number in its partition, from 1."""

    number: int
    id: str
    payload: bytes
    client: str = ""
    priority: int = PRIORITY
    ready_ms: int | None = None


@dataclass(slots=True)
class WriteCounts:
    """Outcomes of the rows of one partition."""

    rows: int = 0
    rejected: int = 0
    """lines of the list of rejects, also of earlier runs of this task: rows, and requests that were
    refused as a whole"""


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a write: its job or query, batch (0 unless it is a stream) and number."""

    job: str
    batch: int
    number: int

    def __str__(self) -> str:
        return f"batch {self.batch}, partition {self.number}"


class WriterLane(CallerSlots):
    """A caller whose numbers are set from outside, not counted up."""

    def __init__(self, name: str) -> None:
        self.name, self.seq = name, 0

    @contextmanager
    def borrow(self, step: str) -> Iterator[tuple[str, int]]:
        yield f"{self.name}:{step}", self.seq


async def target_kind(options: WriteOptions) -> str:
    """The kind of the queue to write to; `WrongKind` if rows can't be written to that kind."""
    entry = await find(options.queue, options.prefix)
    if entry is None:
        refuse_reserved_name(options.queue, options.kind)
        return options.kind
    if entry.kind not in WRITTEN_COLUMNS:
        raise WrongKind(
            f"queue {options.queue} is a {entry.kind} queue: Spark writes to "
            f"{', '.join(WRITTEN_COLUMNS)}"
        )
    return entry.kind


@dataclass(slots=True)
class EntryWriter:
    """Writes the rows of one partition."""

    server: Server
    options: WriteOptions
    kind: str
    partition: Partition
    sleep: Callable[[float], None] = time.sleep
    counts: WriteCounts = field(default_factory=WriteCounts)
    _rejects: RejectLog | None = None

    @property
    def queue_class(self) -> type[Queue[Any]]:
        """The class of the queue, which determines the columns of its entries."""
        found = queue_class(self.kind)
        assert found is not None
        return found

    def write(self, batches: Iterable[pa.RecordBatch]) -> WriteCounts:
        """Write the rows of some batches, in their order.

        Raises `BadInput` or `TooLarge` for a row that can't be written and `Exists` for an id that
        exists with other content, unless the option ``rejects`` lists such rows. After
        `Unreachable` the write can be repeated.
        """
        with ExitStack() as stack:
            if self.options.rejects is not None:
                folder = Path(self.options.rejects)
                name = f"{self.partition.job}-{self.partition.batch}-{self.partition.number}.ndjson"
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise BadInput(f"rejects {folder}: {error.strerror}") from error
                self._rejects = stack.enter_context(RejectLog(folder / name))
            rows = self._valid_rows(batches)
            if issubclass(self.queue_class, HasRequests):
                self._write_requests(rows)
            else:
                self._write_entries(rows)
        return self.counts

    def _valid_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[WritableRow]:
        for batch in batches:
            names = batch.schema.names
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                self.counts.rows += 1
                found = dict(zip(names, values, strict=True))
                try:
                    row = self._row(found)
                except (BadInput, TooLarge) as error:
                    self._reject(found.get(ID_COLUMN[self.kind]), self.counts.rows, error)
                else:
                    yield row

    def _row(self, values: dict[str, Any]) -> WritableRow:
        """A checked row; raises `BadInput` or `TooLarge` if it can't be written."""
        payload = values.get("payload", b"")
        if payload is None:
            raise BadInput("no payload")
        data = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
        if len(data) > self.options.max_payload:
            raise TooLarge(too_large(len(data), self.options.max_payload))
        id_column, number = ID_COLUMN[self.kind], self.counts.rows
        id = values[id_column] if id_column in values else self._generated_id(number)
        if id is None:
            raise BadInput(f"no {id_column}")
        if issubclass(self.queue_class, HasRequests):
            priority = values.get("priority", PRIORITY)
            if priority is None:
                raise BadInput("no priority")
            checked_request(id, priority, self.options.limit)
            return WritableRow(number, id, data, priority=priority)
        checked_name(id, "id")
        if issubclass(self.queue_class, HasClients):
            if values["client"] is None:
                raise BadInput("no client")
            return WritableRow(
                number, id, data, client=checked_name(values["client"], "client name")
            )
        if "ready_at" not in values:
            return WritableRow(number, id, data)
        if values["ready_at"] is None:
            raise BadInput("no ready_at")
        ready_ms = checked_moment(_aware(values["ready_at"]), "ready_at")
        checked_moment(ready_ms / 1000, "ready_at")  # before 2001: cast from another unit, probably
        return WritableRow(number, id, data, ready_ms=ready_ms)

    def _generated_id(self, number: int) -> str:
        """An id that is the same in a repeated task; all rows of a partition share one request."""
        batch = f"{self.options.name}-{self.partition.batch}-{self.partition.number}"
        return batch if issubclass(self.queue_class, HasRequests) else f"{batch}-{number}"

    def _reject(self, id: str | None, number: int | None, error: RedisqError) -> None:
        # The command line's option has another name here.
        reason = str(error).replace("--max-payload", "option maxPayload")
        line = RejectedLine(str(self.partition), number, id, reason)
        if self._rejects is None:
            raise type(error)(f"{line} (option rejects lists such rows and writes the others)")
        self._rejects.add(line)
        self.counts.rejected = self._rejects.count

    # --- requests ------------------------------------------------------------------------------

    def _write_requests(self, rows: Iterator[WritableRow]) -> None:
        dataset = DatasetOptions(
            self.options.queue,
            id="request",
            limit=self.options.limit,
            max_payload=self.options.max_payload,
        )
        RequestWriter(
            self.server,
            dataset,
            "",
            sleep=self.sleep,
            max_away_s=AWAY_S,
            on_refused=lambda id, error: self._reject(id, None, error),
        ).write(_request_rows(rows))

    # --- entries of other kinds ----------------------------------------------------------------

    def _write_entries(self, rows: Iterator[WritableRow]) -> None:
        lanes = [
            WriterLane(f"spark-{self.partition.job}-{self.partition.number}-{n}")
            for n in range(LANES)
        ]
        queues = [self._open(lane) for lane in lanes]
        step = self.partition.batch * STEPS_PER_BATCH
        for chunk in batches(rows, STEP_ROWS, CHUNK_BYTES, lambda row: len(row.payload)):
            groups = iter(_groups(chunk))
            while some := list(islice(groups, LANES)):
                step += 1
                for lane in lanes:
                    lane.seq = step
                self._write_step(queues, some)

    def _retrying(self, make: Callable[[], Description[T]]) -> T:
        return run_retrying(self.server.client, make, AWAY_S, self.sleep)

    def _open(self, lane: WriterLane) -> Queue[Any]:
        deployment = self.server.deployment()
        deployment.callers = lane
        return self._retrying(partial(opened, deployment, self.options.queue, self.queue_class))

    def _write_step(
        self, queues: Sequence[Queue[Any]], groups: Sequence[list[WritableRow]]
    ) -> None:
        """Write a group of rows on each lane; returns when all of them are written."""
        full = QueueFullWait(MAX_WAIT_S, self.sleep)
        for (_, group), reply in full.replies([*zip(queues, groups, strict=False)], self._send):
            if isinstance(reply, Superseded):
                continue  # another run of this task has sent a later step, and listed its rejects
            if isinstance(reply, Exception):
                raise reply
            self._check_words(group, reply)

    def _send(
        self, pending: Sequence[tuple[Queue[Any], list[WritableRow]]]
    ) -> Sequence[list[Any] | Exception]:
        return self._retrying(
            lambda: together(attempt(self._call(queue, group)) for queue, group in pending)
        )

    def _call(self, queue: Any, group: list[WritableRow]) -> Description[Any]:
        pairs = [(row.id, row.payload) for row in group]
        most = self.options.max_payload
        call: Description[Any]
        if issubclass(self.queue_class, HasTimeline):
            ready_ms = group[0].ready_ms
            at = None if ready_ms is None else ready_ms / 1000
            call = queue.schedule.op(pairs, at=at, max_payload=most)
        elif issubclass(self.queue_class, HasClients):
            call = queue.submit.op(group[0].client, pairs, max_payload=most)
        else:
            call = queue.push.op(pairs, max_payload=most)
        return call

    def _check_words(self, group: list[WritableRow], replies: Sequence[Any]) -> None:
        for row, reply in zip(group, replies, strict=True):
            if (why := _UNWRITTEN.get(getattr(reply, "word", reply))) is not None:
                self._reject(row.id, row.number, Exists(why))


def _request_rows(rows: Iterator[WritableRow]) -> Iterator[RequestRows]:
    for row in rows:
        yield row.id, row.priority, [row.payload]


def _groups(chunk: list[WritableRow]) -> list[list[WritableRow]]:
    """Groups of rows that one call can write: rows of one client, or with one ready time."""
    groups: dict[tuple[str, int | None], list[WritableRow]] = {}
    for row in chunk:
        groups.setdefault((row.client, row.ready_ms), []).append(row)
    return list(groups.values())


def _aware(moment: datetime) -> datetime:
    """A time of Spark, which is UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
