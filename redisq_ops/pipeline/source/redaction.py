"""Redaction of whole tables in Spark tasks, before rows reach a file or a query's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from redisq_ops.ops.redaction import Redaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_TEXT = ("task", "error_type", "error", "traceback", "detail", "_corrupt")
_BYTES = ("payload", "result")


def redact_table(frame: DataFrame, redaction: Redaction) -> DataFrame:
    """A table with its texts and payloads redacted; this makes Spark read no further columns."""
    from pyspark.sql import functions as F

    if not redaction:
        return frame
    shown = {}
    for name in set(frame.columns).intersection(_TEXT + _BYTES):
        hide = F.udf(
            _hiding(name, redaction), "binary" if name in _BYTES else "string", useArrow=True
        )
        shown[name] = hide(name)
    return frame.withColumns(shown)


def redact_rows(table: pa.Table, redaction: Redaction) -> pa.Table:
    """The same for a table in this process's memory."""
    if not redaction:
        return table

    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if field.name in _TEXT + _BYTES:
            hidden = map(_hiding(field.name, redaction), table[at].to_pylist())
            table = table.set_column(at, field, pa.array(list(hidden), field.type))
    return table


def _hiding(name: str, redaction: Redaction) -> Callable[[Any], Any]:
    """What redacts a value of a column."""

    def hide(value: Any) -> Any:
        if value is None:
            return None
        return redaction.payload(bytes(value)) if name in _BYTES else redaction.text(value)

    return hide
