"""Find every row of a dataset that submit would refuse, before anything is sent.

Tasks read the rows of their requests in the order of submission, but only the sizes of payloads.
The rules are those of the writer (`submit`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from redisq_ops.core.model import errors
from redisq_ops.core.model.errors import BadInput, RedisqError, TooLarge
from redisq_ops.ops.files.rejects import RejectedLine, refusal, too_large

from ..session.spark_jobs import run_job
from ..sink.input_split import DatasetOptions, FileBlock, file_blocks, partition_by_request

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = "word string, n long, row long, request string, reason string"
_BATCH_REJECTS = 5_000
"""rejects per Arrow batch"""
_UNREADABLE = "Unread"

ReportRow = tuple[str, int, int | None, str | None, str | None]
"""(outcome, count), or for a reject: error class, size, row number, request, reason."""


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What a dataset would become, and which of its rows can't be submitted."""

    requests: int
    entries: int
    rows: int
    bytes: int
    """payload bytes that would be sent"""
    corrupt: int
    """rejected rows that can't be read at all"""
    rejects: tuple[RejectedLine, ...]
    """in the order of the input, if that is known"""
    error: type[RedisqError] = BadInput
    """error class of the first reject"""

    def raise_first(self) -> None:
        """Raise the first reject's error, if there is any: for a submission of all rows or none."""
        if self.rejects:
            raise refusal(self.rejects[0], len(self.rejects), self.error)


def validate_dataset(
    spark: SparkSession,
    frame: DataFrame,
    options: DatasetOptions,
    on_poll: Callable[[], object] = lambda: None,
) -> ValidationResult:
    """Validate a dataset; sends nothing."""
    sizes = partition_by_request(frame, options, sizes=True).mapInArrow(
        partial(_validated, options), _COLUMNS
    )
    totals: Counter[str] = Counter()
    rows: list[ReportRow] = []
    for row in run_job(spark, sizes.collect, on_poll):
        if row.reason is None:
            totals[row.word] += row.n
        else:
            rows.append(tuple(row))
    rows.sort(key=lambda row: (row[2] is None, row[2] or 0))
    positions_known = any(row[2] is not None for row in rows)
    blocks = sorted(file_blocks(frame), key=lambda block: block.first) if positions_known else []
    firsts = [block.first for block in blocks]
    rejects = [
        RejectedLine(*_file_position(row, blocks, firsts), request, str(reason))
        for _, _, row, request, reason in rows
    ]
    return ValidationResult(
        totals["requests"],
        totals["entries"],
        totals["rows"],
        totals["bytes"],
        sum(row[0] == _UNREADABLE for row in rows),
        tuple(rejects),
        getattr(errors, rows[0][0], BadInput) if rows else BadInput,
    )


def _file_position(
    row: int | None, blocks: Sequence[FileBlock], firsts: Sequence[int]
) -> tuple[str | None, int | None]:
    """The file of a row, and the row's number in that file, from 1."""
    if row is None:
        return None, None
    block = blocks[bisect_right(firsts, row) - 1]
    parts = urlsplit(block.file)
    file = unquote(parts.path) if parts.scheme == "file" else block.file
    return file, block.rows_before_in_file + row - block.first + 1


def _validated(
    options: DatasetOptions, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What Spark's tasks run: counts, and a row for each reject."""
    return _TaskValidation(options).validate(batches)


class _TaskValidation:
    """Validates a task's rows, request by request."""

    def __init__(self, options: DatasetOptions) -> None:
        self.options = options
        self.totals: Counter[str] = Counter()
        self.rejects: list[ReportRow] = []
        self._started = False
        self._id: str | None = None
        self._request_problem: str | None = None
        """reason no row of this request can be submitted"""
        self._entries_of_request = 0
        self._chunk: list[int | None] = []
        self._size = 0

    def validate(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        for batch in batches:
            reasons = batch.column(4)
            if reasons.null_count < len(reasons):
                unreadable = pc.is_valid(reasons)
                for row, reason in zip(*batch.filter(unreadable).columns[3:], strict=True):
                    self.rejects.append((_UNREADABLE, 0, row.as_py(), None, reason.as_py()))
                batch = batch.filter(pc.invert(unreadable))
            names, priorities, sizes, rows, _ = batch.columns
            start = 0
            for end in pc.run_end_encode(names).run_ends.to_pylist():
                n = end - start
                self._add_run(
                    names[start].as_py(),
                    priorities[start].as_py(),
                    sizes.slice(start, n),
                    rows.slice(start, n),
                )
                start = end
            if len(self.rejects) >= _BATCH_REJECTS:
                yield self._batch()
        self._end_request()
        self.rejects += [(word, n, None, None, None) for word, n in self.totals.items()]
        yield self._batch()

    def _add_run(self, id: str | None, priority: int | None, sizes: Any, rows: Any) -> None:
        """Validate consecutive rows of one request."""
        import pyarrow.compute as pc

        if not self._started or id != self._id:
            self._end_request()
            self._started, self._id, self._request_problem = True, id, None
            try:
                self.options.check_request(id, priority)
            except BadInput as error:
                self._request_problem = str(error)
        max_payload, split = self.options.max_payload, self.options.split
        fits = not sizes.null_count and pc.max(sizes).as_py() <= max_payload
        if self._request_problem is None and split == 1 and fits:
            self._add_valid(len(sizes), len(sizes), pc.sum(sizes).as_py())
            return
        for size, row in zip(sizes.to_pylist(), rows.to_pylist(), strict=True):
            if self._request_problem is not None:
                self._reject(BadInput, row, self._request_problem)
            elif size is None:
                self._reject(BadInput, row, "no payload")
            elif size > max_payload:
                self._reject(TooLarge, row, too_large(size, max_payload))
            elif split == 1:
                self._add_valid(1, 1, size)
            else:
                self._chunk.append(row)
                self._size += size
                if len(self._chunk) == split:
                    self._end_chunk()

    def _end_chunk(self) -> None:
        """Validate the rows of one sub-request."""
        chunk, size = self._chunk, self._size
        self._chunk, self._size = [], 0
        joined_size = size + len(chunk) - 1
        if not chunk:
            return
        if joined_size <= self.options.max_payload:
            self._add_valid(1, len(chunk), size)
            return
        reason = too_large(
            joined_size, self.options.max_payload, f"sub-request of {len(chunk):,} rows has "
        )
        for row in chunk:
            self._reject(TooLarge, row, reason)

    def _end_request(self) -> None:
        self._end_chunk()
        self.totals["requests"] += self._entries_of_request > 0
        self._entries_of_request = 0

    def _add_valid(self, entries: int, rows: int, size: int) -> None:
        self._entries_of_request += entries
        self.totals["entries"] += entries
        self.totals["rows"] += rows
        self.totals["bytes"] += size

    def _reject(self, kind: type[RedisqError], row: int | None, reason: str) -> None:
        self.rejects.append((kind.__name__, 0, row, self._id and self._id[:140], reason))

    def _batch(self) -> pa.RecordBatch:
        import pyarrow as pa

        rejects, self.rejects = self.rejects, []
        types = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.string())
        columns = [pa.array([row[n] for row in rejects], kind) for n, kind in enumerate(types)]
        return pa.RecordBatch.from_arrays(columns, ["word", "n", "row", "request", "reason"])
