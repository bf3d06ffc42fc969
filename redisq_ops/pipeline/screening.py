"""What submit would refuse of a dataset, found before anything is sent.

Every task looks at the rows of its requests in the order in which they would be sent, but at the
sizes of payloads only; a row is rejected for what the writer (`submit`) leaves it out for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from redisq_ops.core.model import errors
from redisq_ops.core.model.errors import BadInput, RedisqError, TooLarge
from redisq_ops.ops.files.rejects import Reject, refusal, too_large

from .dataset import Block, DatasetOptions, arranged, blocks
from .writing import brought

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = "word string, n long, row long, request string, reason string"
_SOME = 5_000
"""rejects of one Arrow batch"""
_UNREAD = "Unread"

Found = tuple[str, int, int | None, str | None, str | None]
"""a word and a number; of a reject the error, its size, the row's id, the request, the reason"""


@dataclass(frozen=True, slots=True)
class Screened:
    """What a dataset would become, and what of it can't be submitted."""

    requests: int
    entries: int
    rows: int
    bytes: int
    """of what would be sent"""
    corrupt: int
    """rejected rows that can't be read at all"""
    rejects: tuple[Reject, ...]
    """in the order of the input, where that is known"""
    error: type[RedisqError] = BadInput
    """what the first reject is"""

    def checked(self) -> None:
        """Raise what a submission without these rows isn't allowed for."""
        if self.rejects:
            raise refusal(self.rejects[0], len(self.rejects), self.error)


def screened(
    spark: SparkSession,
    frame: DataFrame,
    asked: DatasetOptions,
    told: Callable[[], object] = lambda: None,
) -> Screened:
    """Look through a dataset; sends nothing."""
    looked = arranged(frame, asked, sizes=True).mapInArrow(Tasks(asked), _COLUMNS)
    totals: Counter[str] = Counter()
    found: list[Found] = []
    for row in brought(spark, looked, told):
        if row.reason is None:
            totals[row.word] += row.n
        else:
            found.append(tuple(row))
    found.sort(key=lambda one: (one[2] is None, one[2] or 0))
    known = any(one[2] is not None for one in found)
    places = sorted(blocks(frame), key=lambda block: block.first) if known else []
    firsts = [block.first for block in places]
    rejects = [
        Reject(*_place(row, places, firsts), request, str(reason))
        for _, _, row, request, reason in found
    ]
    return Screened(
        totals["requests"], totals["entries"], totals["rows"], totals["bytes"],
        sum(one[0] == _UNREAD for one in found), tuple(rejects),
        getattr(errors, found[0][0], BadInput) if found else BadInput,
    )  # fmt: skip


def _place(
    row: int | None, places: Sequence[Block], firsts: Sequence[int]
) -> tuple[str | None, int | None]:
    """The file of a row, and its number in it."""
    if row is None:
        return None, None
    block = places[bisect_right(firsts, row) - 1]
    parts = urlsplit(block.file)
    file = unquote(parts.path) if parts.scheme == "file" else block.file
    return file, block.of_file + row - block.first + 1


@dataclass(frozen=True, slots=True)
class Tasks:
    """What Spark's tasks do: counts, and a row for each reject."""

    asked: DatasetOptions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _Screening(self.asked).all(batches)


class _Screening:
    """A task's rows, request by request."""

    def __init__(self, asked: DatasetOptions) -> None:
        self.asked = asked
        self.totals: Counter[str] = Counter()
        self.rejects: list[Found] = []
        self._begun = False
        self._id: str | None = None
        self._why: str | None = None
        """why no row of this request can be submitted"""
        self._sent = 0
        """of this request"""
        self._chunk: list[int | None] = []
        self._size = 0

    def all(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        for batch in batches:
            reasons = batch.column(4)
            if reasons.null_count < len(reasons):
                known = pc.is_valid(reasons)
                for row, reason in zip(*batch.filter(known).columns[3:], strict=True):
                    self.rejects.append((_UNREAD, 0, row.as_py(), None, reason.as_py()))
                batch = batch.filter(pc.undo_change(known))
            names, priorities, sizes, rows, _ = batch.columns
            start = 0
            for end in pc.run_end_encode(names).run_ends.to_pylist():
                n = end - start
                self._run(names[start].as_py(), priorities[start].as_py(), sizes.slice(start, n),
                          rows.slice(start, n))  # fmt: skip
                start = end
            if len(self.rejects) >= _SOME:
                yield self._batch()
        self._end()
        self.rejects += [(word, n, None, None, None) for word, n in self.totals.items()]
        yield self._batch()

    def _run(self, id: str | None, priority: int | None, sizes: Any, rows: Any) -> None:
        """Rows of one request that follow each other."""
        import pyarrow.compute as pc

        if not self._begun or id != self._id:
            self._end()
            self._begun, self._id, self._why = True, id, None
            try:
                self.asked.checked(id, priority)
            except BadInput as error:
                self._why = str(error)
        most, split = self.asked.max_payload, self.asked.split
        fits = not sizes.null_count and pc.max(sizes).as_py() <= most
        if self._why is None and split == 1 and fits:
            self._count(len(sizes), len(sizes), pc.sum(sizes).as_py())
            return
        for size, row in zip(sizes.to_pylist(), rows.to_pylist(), strict=True):
            if self._why is not None:
                self._reject(BadInput, row, self._why)
            elif size is None:
                self._reject(BadInput, row, "no payload")
            elif size > most:
                self._reject(TooLarge, row, too_large(size, most))
            elif split == 1:
                self._count(1, 1, size)
            else:
                self._chunk.append(row)
                self._size += size
                if len(self._chunk) == split:
                    self._close()

    def _close(self) -> None:
        """The rows of one sub-request."""
        chunk, size = self._chunk, self._size
        self._chunk, self._size = [], 0
        joined = size + len(chunk) - 1
        if not chunk:
            return
        if joined <= self.asked.max_payload:
            self._count(1, len(chunk), size)
            return
        why = too_large(joined, self.asked.max_payload, f"sub-request of {len(chunk):,} rows has ")
        for row in chunk:
            self._reject(TooLarge, row, why)

    def _end(self) -> None:
        self._close()
        self.totals["requests"] += self._sent > 0
        self._sent = 0

    def _count(self, entries: int, rows: int, size: int) -> None:
        self._sent += entries
        self.totals["entries"] += entries
        self.totals["rows"] += rows
        self.totals["bytes"] += size

    def _reject(self, kind: type[RedisqError], row: int | None, why: str) -> None:
        self.rejects.append((kind.__name__, 0, row, self._id and self._id[:140], why))

    def _batch(self) -> pa.RecordBatch:
        import pyarrow as pa

        some, self.rejects = self.rejects, []
        types = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.string())
        columns = [pa.array([row[n] for row in some], kind) for n, kind in enumerate(types)]
        return pa.RecordBatch.from_arrays(columns, ["word", "n", "row", "request", "reason"])
