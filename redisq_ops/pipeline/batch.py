"""What batches of any table are made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from redisq_ops.core.model.errors import Refused

Columns = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """Where rows come from."""

    queue: str
    kind: str | None
    shard: int
    requests: bool
    """whether ids are REQUEST/N"""


def placed(place: RowOrigin, n: int) -> Columns:
    """The columns that are the same in all rows."""
    return {
        "queue": pa.repeat(place.queue, n), "shard": pa.repeat(place.shard, n),
        "kind": pa.repeat(pa.scalar(place.kind, pa.string()), n),
    }  # fmt: skip


def moment(ms: pa.Array) -> pa.Array:
    """Milliseconds as Spark has time."""
    return ms.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


def text(data: bytes) -> str:
    """As text; bytes that are none are escaped."""
    return data.decode("utf-8", "backslashreplace")


def why(error: Exception) -> str:
    """What was wrong with a row, without a word of what is in it."""
    return str(error) if isinstance(error, Refused) else type(error).__name__


def kept(make: Callable[[Any], pa.RecordBatch], rows: Any, spoilt: Callable[[Any], Any]) -> Any:
    """What is made of rows; in the place of one with a value that no column holds, ``spoilt``."""
    try:
        return make(rows)
    except (pa.ArrowException, OverflowError):
        if len(rows) == 1:
            return make([spoilt(rows[0])])
        half = len(rows) // 2
        return pa.concat_batches([kept(make, rows[:half], spoilt), kept(make, rows[half:], spoilt)])


def strings(values: Sequence[bytes | None]) -> pa.Array:
    """`text` of each."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else text(value) for value in values], pa.string())


def aside(why: str, place: RowOrigin, schema: pa.Schema, **known: Any) -> pa.RecordBatch:
    """A row of what is known of something that can't be read."""
    columns: Columns = {name: [value] for name, value in known.items()}
    return batch({**placed(place, 1), **columns, "_corrupt": [why]}, 1, schema)


def batch(columns: Mapping[str, Any], n: int, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the schema, in its order; what isn't there is null."""
    return pa.RecordBatch.from_arrays(
        [_fit(columns.get(field.name), n, field.type) for field in schema], schema=schema
    )


def _fit(column: Any, n: int, type: pa.DataType) -> pa.Array:
    if column is None:
        return pa.nulls(n, type)
    if isinstance(column, list):
        if pa.types.is_timestamp(type):
            return moment(pa.array(column, pa.int64()))
        try:
            return pa.array(column, type)
        except UnicodeEncodeError:  # half a surrogate pair, in JSON of another program's
            return pa.array([_encodable(value) for value in column], type)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if column.type == type else column.cast(type)


def _encodable(value: str | None) -> str | None:
    return None if value is None else value.encode("utf-8", "backslashreplace").decode()
