"""Converts a query's rows to JSON by Spark's types: no value depends on this machine's time zone,
and no digit and no column is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from redisq_ops.ops.redaction import Redaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, Row, StructType


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names made distinct: the second ``id`` becomes ``id_2``."""
    found: list[str] = []
    for name in names:
        new, n = name, 1
        while new in found or (n > 1 and new in names):
            n += 1
            new = f"{name}_{n}"
        found.append(new)
    return found


def printable_frame(frame: DataFrame) -> DataFrame:
    """The frame with distinct names, and with intervals as text: PySpark can't represent all."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import AnsiIntervalType, CalendarIntervalType

    schema = frame.schema
    names = distinct_names(schema.names)
    if names != schema.names:
        frame = frame.toDF(*names)
    intervals = [
        name
        for name, field in zip(names, schema.fields, strict=True)
        if isinstance(field.dataType, (AnsiIntervalType, CalendarIntervalType))
    ]
    for name in intervals:
        quoted = name.replace("`", "``")
        frame = frame.withColumn(name, F.col(f"`{quoted}`").cast("string"))
    return frame


def json_row(row: Row | None, schema: StructType, redaction: Redaction) -> Any:
    """A row by its columns' names. Times with a zone are in UTC with the offset, DECIMAL is text
    with all its digits. All text and bytes are redacted again: a query may join parts to a text
    that matches a pattern only as a whole."""
    if row is None:
        return None
    values = [
        _json_value(value, field.dataType, redaction)
        for value, field in zip(row, schema.fields, strict=True)
    ]
    return dict(zip(distinct_names(schema.names), values, strict=True))


def _json_value(value: Any, kind: DataType, redaction: Redaction) -> Any:
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        return json_row(value, kind, redaction)
    if isinstance(kind, types.ArrayType) and value is not None:
        return [_in_list(_json_value(item, kind.elementType, redaction)) for item in value]
    if isinstance(kind, types.MapType) and value is not None:
        return {
            str(_in_list(_json_value(key, kind.keyType, redaction))): _json_value(
                item, kind.valueType, redaction
            )
            for key, item in value.items()
        }
    return json_atom(value, isinstance(kind, types.TimestampType), redaction)


def json_atom(value: Any, has_zone: bool, redaction: Redaction) -> Any:
    """A simple value. ``has_zone``: a time with a zone, which PySpark returns in the local zone."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else _NOT_FINITE[str(value)]
        case str():
            return redaction.text(value)
        case bytes() | bytearray():
            return redaction.payload(bytes(value))
        case datetime() if has_zone:
            return value.astimezone(UTC).isoformat()
        case date() | time():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case _:
            return redaction.text(str(value))


def _in_list(value: Any) -> Any:
    """Bytes in a list or map as text, not base64: no column name could announce base64."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
