"""Connection and options for reading the rows of a table. Uses no Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import foreign_class
from redisq_ops.core.engine.state_scan import clocked, timed
from redisq_ops.core.model.entry import Entry
from redisq_ops.core.redis.client import ServerAddress
from redisq_ops.core.redis.operation import Description
from redisq_ops.ops.deployment import Deployment

from .arrow_batch import RowOrigin
from .call_size import FIRST, FIRST_WITH_PAYLOADS, CallSize
from .connection import gc_paused, process_client, run_read_only, run_retrying
from .history_events import RawEvent
from .options import Options
from .read_partitions import ENTRY_STATES, PAGE_ROWS, TablePart
from .schemas import arrow

T = TypeVar("T")

BATCH_ROWS, BATCH_BYTES = 8192, 16 * 1024 * 1024
"""approximate size of an Arrow batch: pages are joined until there is one of both"""


class TableSource:
    """Connects on first use and sends read commands only. ``target``: the server, by default that
    of the options."""

    def __init__(self, options: Options, target: ServerAddress | None = None) -> None:
        self.options = options
        self.target = target
        self.schema: pa.Schema = arrow(options.definition, options.column_names)
        self.call_size = CallSize(
            options.max_call_us, FIRST_WITH_PAYLOADS if options.reads_payloads else FIRST
        )

    def run(self, make: Callable[[], Description[T]]) -> T:
        """Run an operation with retries; ``make`` makes it anew for each attempt."""
        client = process_client(self.target or self.options.target(), self.options.replica)
        with gc_paused():
            return run_retrying(client, make, runner=run_read_only)

    def shard_queue(self, part: TablePart) -> Queue[Any]:
        """The queue of the shard that a part belongs to."""
        return self.queue(part).shard_queues[part.shard]

    def queue(self, part: TablePart) -> Queue[Any]:
        """The part's queue with the layout that it had when the parts were planned."""
        if part.entry is not None:
            return Deployment(prefix=self.options.prefix).open(part.entry)
        layout_class = foreign_class(part.queue.partition(":")[0])
        assert layout_class is not None
        return layout_class(None, part.queue, prefix=self.options.prefix)

    def read_events(
        self, shard_queue: Queue[Any], after: str, until: str, size: int
    ) -> tuple[list[RawEvent], int]:
        """A page of history, and the server's time for it in µs."""
        key = shard_queue.keys["hist"]
        columns, took = self.run(
            lambda: timed(key, {"rows": shard_queue.history_range.op(after, until, size)})
        )
        return columns["rows"], took["rows"]


@dataclass(frozen=True, slots=True)
class PartReader:
    """Reads one part of a table, in one shard of a queue."""

    source: TableSource
    part: TablePart
    shard_queue: Queue[Any]
    origin: RowOrigin

    @property
    def options(self) -> Options:
        return self.source.options

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    def run(self, make: Callable[[], Description[T]]) -> T:
        """As `TableSource.run`."""
        return self.source.run(make)

    def timed_call(self, make: Callable[[], Description[T]]) -> tuple[T, int]:
        """The result of an operation, and the server's time for its slowest call in µs."""
        return self.run(lambda: clocked(self.shard_queue.keys["cfg"], make()))

    def entry_call_size(self) -> CallSize:
        """Call size for entries read one by one: there the server reads payloads or results even if
        they are not selected."""
        return CallSize(self.options.max_call_us, FIRST_WITH_PAYLOADS, PAGE_ROWS)

    def is_selected(self, entry: Entry) -> bool:
        """Whether an entry that was looked up is a row of the table."""
        state, request = ENTRY_STATES.get(self.options.table), self.options.request
        return (
            state in (None, entry.state)
            and (request is None or entry.id.rpartition("/")[0] == request)
            and self.in_time_range(entry)
        )

    def in_time_range(self, entry: Entry) -> bool:
        """Whether an entry is within the options' time range; an unknown time always is."""
        since, until = self.options.since_ms, self.options.until_ms
        at_ms = entry.since_ms if entry.state in ("dead", "done") else entry.at_ms
        if at_ms is None:
            return True
        return (since is None or at_ms >= since) and (until is None or at_ms <= until)
