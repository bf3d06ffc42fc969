"""What a query reads of each table, by the words of its text: known before Spark plans it.

PySpark's Python sources get no columns from Spark. A column whose name is nowhere in the text is
not read, unless something in the text may stand for all columns. If a query nevertheless uses such
a column, it fails with `UNREAD` and is planned again over whole tables: it never sees a null that
the table does not have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redisq_ops.ops.redaction import Redaction

from .read_partitions import ENTRY_STATES
from .tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNREAD = "a column that the query does not name was not read"
"""what Spark's error says of a query that uses a column that was not read"""
_ONLY_READS = re.compile(
    r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|with|values|explain|describe|desc|show)\b",
    re.IGNORECASE | re.DOTALL,
)
_COMMENT = re.compile(r"--|/\*")
_FIRST_SOURCE = re.compile(r"\b(from|join|table)\b", re.IGNORECASE)
_NOT_A_TABLE = re.compile(
    r"(?:[.'<>=+]|\b(?:and|as|between|by|case|distinct|else|having|not|on|or|select|then|when|where))"
    r"\s*[\"`]?$",
    re.IGNORECASE,
)
"""what comes before a column, an alias or a text, but not before a table"""
_NO_COLUMNS = re.compile(r"count\s*\(\s*\*\s*\)|(?<=[\d)])\s*\*|\*(?=\s*\d)", re.IGNORECASE)
"""stars that are no columns: of ``count(*)`` and of a multiplication"""
_ALL_COLUMNS = re.compile(r"\*|\b(natural|table|pivot|unpivot)\b", re.IGNORECASE)
"""what stands for columns without their names"""
_CHEAPEST_COLUMN = "shard"
"""column that is read where a query needs none: of most tables rows are then only counted"""


def only_reads(query: str) -> bool:
    """Whether a statement is a query, which defines and sets nothing."""
    return _ONLY_READS.match(query) is not None


def named_tables(query: str) -> list[str]:
    """The tables whose names stand where a table can; a superset of those that the query reads.

    Columns and states have the same names: ``select dead from counts where state = 'waiting'``.
    """
    first = _FIRST_SOURCE.search(query)
    is_plain = first is not None and only_reads(query) and _COMMENT.search(query) is None
    start = first.end() if first is not None and is_plain else 0

    def is_named(table: str) -> bool:
        found = re.compile(rf"\b{table}\b", re.IGNORECASE).finditer(query, start)
        return any(not (is_plain and _NOT_A_TABLE.search(query, 0, at.start())) for at in found)

    return [table for table in TABLES if is_named(table)]


@dataclass(frozen=True, slots=True)
class TableUse:
    """What is read of one table."""

    table: str
    columns: tuple[str, ...]
    """in the table's order"""
    once: bool = False
    """the query reads it in one place only, so the query's filters are those of the table"""

    @property
    def whole(self) -> bool:
        return self.columns == _column_names(self.table)

    def describe(self, *, bounded: bool = False) -> str:
        """What is read, for a person; ``bounded``: only of a range of time."""
        counted = set(self.columns) <= {"queue", "kind", "shard"} and self.table in ENTRY_STATES
        if counted and not bounded:
            return f"{self.table}: counters, no rows"
        if self.whole:
            return f"{self.table}: all columns"
        return f"{self.table}: {', '.join(self.columns)}"


def table_use(query: str, table: str) -> TableUse:
    """How a query uses one of its `named_tables`; in doubt all columns, in several places."""
    names = _column_names(table)
    words = re.findall(r"\w+", query.lower())
    places = words.count("select"), words.count("from")
    plain = only_reads(query) and places[1] <= places[0]  # `from dead` has all columns
    if not plain or _ALL_COLUMNS.search(_NO_COLUMNS.sub("", query)):
        columns = names
    else:
        columns = tuple(name for name in names if name in words) or (_CHEAPEST_COLUMN,)
    # Spark may copy the tables of a subquery, of a CTE and of what stands beside them.
    several = {"with", "lateral", "table"}.intersection(words)
    once = plain and places == (1, 1) and words.count(table) == 1 and not several
    return TableUse(table, columns, once)


def whole_use(table: str) -> TableUse:
    """All columns, for a query that may read them in several places."""
    return TableUse(table, _column_names(table))


def query_frame(
    spark: SparkSession, use: TableUse, options: Mapping[str, str], redaction: Redaction
) -> DataFrame:
    """The frame of a table for the one query with this use, redacted, with all its columns."""
    from pyspark.sql import functions as F

    from .redaction import redact_table
    from .schemas import struct
    from .session import PUSHDOWN
    from .source import RedisqDataSource, SingleQueryDataSource

    bounded = use.once and spark.conf.get(PUSHDOWN, "false") == "true"
    source = SingleQueryDataSource if bounded else RedisqDataSource
    spark.dataSource.register(source)
    given = dict(options) if use.whole else {**options, "columns": ",".join(use.columns)}
    read = redact_table(spark.read.format(source.name()).options(**given).load(), redaction)
    unread = F.raise_error(F.lit(UNREAD))
    columns = [
        F.col(field.name)
        if field.name in use.columns
        else unread.cast(field.dataType).alias(field.name)
        for field in struct(TABLES[use.table]).fields
    ]
    return read.select(*columns)


def _column_names(table: str) -> tuple[str, ...]:
    return tuple(column.name for column in TABLES[table].columns)
