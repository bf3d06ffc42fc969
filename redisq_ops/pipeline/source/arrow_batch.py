"""Building blocks for the Arrow batches of every table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from redisq_ops.core.model.errors import Refused

Columns = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The queue and shard that rows come from."""

    queue: str
    kind: str | None
    shard: int
    requests: bool
    """whether entry ids have the form REQUEST/N"""


def origin_columns(origin: RowOrigin, n: int) -> Columns:
    """The columns that have the same value in all ``n`` rows."""
    return {
        "queue": pa.repeat(origin.queue, n),
        "shard": pa.repeat(origin.shard, n),
        "kind": pa.repeat(pa.scalar(origin.kind, pa.string()), n),
    }


def timestamp_array(ms: pa.Array) -> pa.Array:
    """Milliseconds as Spark's timestamps (µs, UTC)."""
    return ms.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


def lossy_text(data: bytes) -> str:
    """Bytes as text; bytes that are not UTF-8 are escaped."""
    return data.decode("utf-8", "backslashreplace")


def describe_error(error: Exception) -> str:
    """Why a row can't be read, without any of its content."""
    return str(error) if isinstance(error, Refused) else type(error).__name__


def build_with_placeholders(
    make: Callable[[Any], pa.RecordBatch], rows: Any, placeholder: Callable[[Any], Any]
) -> Any:
    """Build a batch from ``rows``, replacing each row that overflows a column.

    Where ``make`` fails, the rows are halved until the bad one is alone; ``placeholder`` then
    returns the row that takes its place.
    """
    try:
        return make(rows)
    except (pa.ArrowException, OverflowError):
        if len(rows) == 1:
            return make([placeholder(rows[0])])
        half = len(rows) // 2
        return pa.concat_batches(
            [
                build_with_placeholders(make, rows[:half], placeholder),
                build_with_placeholders(make, rows[half:], placeholder),
            ]
        )


def text_array(values: Sequence[bytes | None]) -> pa.Array:
    """`lossy_text` of each value."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if value is None else lossy_text(value) for value in values], pa.string()
        )


def corrupt_row(reason: str, origin: RowOrigin, schema: pa.Schema, **known: Any) -> pa.RecordBatch:
    """One row for something that can't be read: the ``known`` columns and the reason."""
    columns: Columns = {name: [value] for name, value in known.items()}
    return make_batch({**origin_columns(origin, 1), **columns, "_corrupt": [reason]}, 1, schema)


def make_batch(columns: Mapping[str, Any], n: int, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the schema's columns in its order; missing columns are null."""
    return pa.RecordBatch.from_arrays(
        [_fitted_column(columns.get(field.name), n, field.type) for field in schema], schema=schema
    )


def _fitted_column(column: Any, n: int, type: pa.DataType) -> pa.Array:
    if column is None:
        return pa.nulls(n, type)
    if isinstance(column, list):
        if pa.types.is_timestamp(type):
            return timestamp_array(pa.array(column, pa.int64()))
        try:
            return pa.array(column, type)
        except UnicodeEncodeError:  # half of a surrogate pair
            return pa.array([_encodable(value) for value in column], type)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if column.type == type else column.cast(type)


def _encodable(value: str | None) -> str | None:
    return None if value is None else value.encode("utf-8", "backslashreplace").decode()
