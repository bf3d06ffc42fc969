"""Small tables, read by the command itself instead of by Spark's Python processes.

For its first read of a Python source Spark starts four Python processes, one after the other, which
takes four seconds or more. This process reads some thousand rows in a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from redisq_ops.core.redis.client import ServerAddress

from .options import Options
from .schemas import struct
from .table_reader import TableReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_ROWS = 20_000
MOST_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SmallTable:
    """All rows of a table, and the options that they were read with."""

    options: Options
    rows: pa.Table


def read_small_table(
    options: Options,
    server: ServerAddress | None = None,
    most_rows: int | None = None,
    most_bytes: int = MOST_BYTES,
) -> SmallTable | None:
    """A table, or None if it has more than ``most_rows`` (`MOST_ROWS`) or ``most_bytes``.

    ``server``: by default that of the options.
    """
    most_rows = MOST_ROWS if most_rows is None else most_rows
    reader = TableReader(options, server)
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    for part in reader.plan():
        for batch in reader.read(part):
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > most_rows or size > most_bytes:
                return None
            batches.append(batch)
    return SmallTable(options, pa.Table.from_batches(batches, reader.schema))


def small_table_frame(spark: SparkSession, table: SmallTable) -> DataFrame:
    """The table as a frame, with the schema that the data source gives it."""
    options = table.options
    return spark.createDataFrame(table.rows, struct(options.definition, options.column_names))
