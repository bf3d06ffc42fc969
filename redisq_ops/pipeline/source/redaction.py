"""Redaction of whole tables in Spark tasks, before rows reach a file or a query's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from redisq_ops.ops.redaction import Redaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_TEXT = ("task", "error_type", "error", "traceback", "detail", "_corrupt")
_BYTES = ("payload", "result")


def redact_table(frame: DataFrame, redaction: Redaction) -> DataFrame:
    """A table with its texts and payloads redacted; this makes Spark read no further columns."""
    from pyspark.sql import functions as F

    if not redaction:
        return frame
    shown = {name: redact_text(F.col(name), redaction) for name in _TEXT if name in frame.columns}

    def payload(data: bytes | None) -> bytes | None:
        return None if data is None else redaction.payload(bytes(data))

    bytes_ = F.udf(payload, "binary", useArrow=True)
    shown |= {name: bytes_(name) for name in _BYTES if name in frame.columns}
    return frame.withColumns(shown)


def redact_rows(table: pa.Table, redaction: Redaction) -> pa.Table:
    """The same for a table in this process's memory."""
    if not redaction:
        return table

    import pyarrow as pa

    hiding: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(_TEXT, redaction.text),
        **dict.fromkeys(_BYTES, redaction.payload),
    }
    for at, field in enumerate(table.schema):
        if (hide := hiding.get(field.name)) is not None:
            values = [None if value is None else hide(value) for value in table[at].to_pylist()]
            table = table.set_column(at, field, pa.array(values, field.type))
    return table


def redact_text(column: Column, redaction: Redaction) -> Column:
    """A text column, redacted."""
    from pyspark.sql import functions as F

    def text(value: str | None) -> str | None:
        return None if value is None else redaction.text(value)

    return F.udf(text, "string", useArrow=True)(column) if redaction else column
