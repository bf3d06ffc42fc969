"""Finds the columns and rows of each table that a SQL query needs, with a SQL parser.

PySpark's Python sources get neither columns nor filters from Spark. The parser resolves the query's
columns to tables; tables are read whole if anything in the query can't be resolved. Bounds and
look-ups come from simple conditions of a ``WHERE`` (see `query_bounds`); Spark still applies every
condition itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.pushdown_projections import pushdown_projections
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.redaction import Redaction

from ..source.tables import TABLES
from .query_bounds import Bounds, Clock, bounds_beside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNREAD = "a column that the query does not name was not read"
"""Spark's error message for a query that uses a column which was not read"""
ELSEWHERE = "redisq spark sql may run it"
NO_BOUNDS = Bounds()
DIALECT = "spark"
_READS = {
    "select",
    "with",
    "values",
    "from",
    "table",
    "explain",
    "describe",
    "desc",
    "show",
}
"""first words of statements that only read: they define and set nothing"""
_NOT_RESOLVED = {TokenType.TABLE, TokenType.PIPE_GT, TokenType.TABLE_SAMPLE}
"""tokens that the parser understands in another way than Spark"""
SCHEMA: dict[str, dict[str, str]] = {
    table.name: {column.name: column.type for column in table.columns} for table in TABLES.values()
}
_FAULTS = (RecursionError, ValueError, KeyError, AttributeError, TypeError)
"""what the parser's own mistakes raise"""
_CHEAPEST_COLUMN = "kind"
"""column to read if a query needs none: rows of most tables are then only counted"""
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # Spark reports a query's errors


@dataclass(frozen=True, slots=True)
class TableUse:
    """The columns and rows to read of one table."""

    table: str
    columns: tuple[str, ...]
    """in the table's order"""
    bounds: Bounds = NO_BOUNDS

    @property
    def whole(self) -> bool:
        """Whether all columns are read."""
        return self.columns == tuple(SCHEMA[self.table])

    def describe(self, options: Mapping[str, str], counted: bool) -> str:
        """A description for the user; ``options``: as for `options`; ``counted``: whether counters
        answer for the columns, see `counts_only`."""
        own = self.options(options)
        found = [f"{name} {own[name]}" for name in ("queue", "id", "request") if name in own]
        found += [f"{name} {_moment(own[name])}" for name in ("since", "until") if name in own]
        what = "all columns" if self.whole else ", ".join(self.columns)
        if counted and not self.whole:
            what = "counters, no rows"
        return f"{self.table}: {what}" + (f" (only {'; '.join(found)})" if found else "")

    def within(self, queues: Collection[str]) -> TableUse:
        """This use, without the names that are not in ``queues``: a name without a queue matches no
        row, and is no error."""
        wanted = self.bounds.queue
        if wanted is None:
            return self
        found = tuple(name for name in wanted if name in queues)
        return replace(self, bounds=replace(self.bounds, queue=found))

    def options(self, given: Mapping[str, str]) -> dict[str, str]:
        """The options of the data source for this read, within those that are ``given``."""
        found = self.bounds.options(given)
        if not self.whole:
            found.pop("payloads", None)  # `columns` decides whether payloads are read
            found["columns"] = ",".join(self.columns)
        return found


def whole_use(table: str) -> TableUse:
    """All columns, without bounds."""
    return TableUse(table, tuple(SCHEMA[table]))


def only_reads(query: str) -> bool:
    """Whether a statement only reads, and defines and sets nothing."""
    try:
        tokens = sqlglot.tokenize(query, read=DIALECT)
    except SqlglotError:
        return False
    first = next((token for token in tokens if token.token_type != TokenType.L_PAREN), None)
    writes = any(token.token_type == TokenType.INSERT for token in tokens)  # from x insert into y
    return first is not None and first.text.lower() in _READS and not writes


def table_uses(query: str, clock: Clock | None = None) -> dict[str, TableUse]:
    """The use of each table that a query may read; ``clock``: as for `bounds_beside`."""
    tree = parsed(query)
    if tree is None:
        words = set(re.findall(r"\w+", query.lower()))
        return {name: whole_use(name) for name in TABLES if name in words}
    places: dict[str, list[exp.Table]] = {}
    for table in tree.find_all(exp.Table):
        if table.name.lower() in TABLES and not table.db:
            places.setdefault(table.name.lower(), []).append(table)
    columns = _needed_columns(tree)
    aliases = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    # The parser may understand escapes and double quotes in another way than the session.
    takes_bounds = isinstance(tree, exp.Query) and not {"\\", '"'}.intersection(query)
    found = {}
    for name in (name for name in TABLES if name in places):
        use = whole_use(name)
        if columns is not None:
            needed = columns.get(name, set())
            own = tuple(column for column in SCHEMA[name] if column in needed)
            use = replace(use, columns=own or (_CHEAPEST_COLUMN,))
        if takes_bounds and len(places[name]) == 1 and name not in aliases:
            use = replace(use, bounds=bounds_beside(places[name][0], clock))
        found[name] = use
    return found


def query_frame(
    spark: SparkSession, use: TableUse, options: Mapping[str, str], redaction: Redaction
) -> DataFrame:
    """The redacted frame of a table for one query; it has all of the table's columns."""
    from ..session.data_source import FORMAT, register
    from ..source.redaction import redact_table
    from ..source.schemas import struct

    if use.bounds.impossible:
        return spark.createDataFrame([], struct(TABLES[use.table]))
    register(spark)
    read = spark.read.format(FORMAT).options(**use.options(options)).load()
    return with_all_columns(redact_table(read, redaction), use)


def with_all_columns(read: DataFrame, use: TableUse) -> DataFrame:
    """The frame with all of the table's columns; using one that was not read raises an error.

    So a query never sees a null that the table does not have. If it fails with `UNREAD`, the caller
    runs it again over whole tables.
    """
    from pyspark.sql import functions as F

    from ..source.schemas import struct

    unread = F.raise_error(F.lit(UNREAD))
    columns = [
        F.col(field.name)
        if field.name in use.columns
        else unread.cast(field.dataType).alias(field.name)
        for field in struct(TABLES[use.table]).fields
    ]
    return read.select(*columns)


def parsed(query: str) -> exp.Expr | None:
    """The query's tree; None if Spark may understand the query in another way."""
    try:
        tokens = sqlglot.tokenize(query, read=DIALECT)
        kinds = [token.token_type for token in tokens]
        # Spark reads 'it''s' as one literal, the parser as two.
        doubled = (TokenType.STRING, TokenType.STRING) in pairwise(kinds)
        if doubled or _NOT_RESOLVED.intersection(kinds):
            return None
        (tree,) = sqlglot.parse(query, read=DIALECT)
    except (SqlglotError, RecursionError, ValueError):
        return None
    return None if tree is None or tree.find(exp.Command) else tree


def resolved(parsed: exp.Expr) -> exp.Query:
    """A query with each column's table, and without ``*`` and ``ORDER BY ALL``; `BadInput` if that
    can't be said."""
    if not isinstance(parsed, exp.Query) or parsed.find(exp.Pivot, exp.Lateral):
        raise BadInput(f"the query has a pivot or lateral view: {ELSEWHERE}")
    if any(join.method for join in parsed.find_all(exp.Join)):
        raise BadInput(f"a natural join doesn't name its columns: {ELSEWHERE}")
    tree = parsed.copy()
    schema: dict[str, object] = {**SCHEMA}
    for order in tree.find_all(exp.Order):
        if [each.name.lower() for each in order.expressions] == ["all"]:
            order.pop()  # it uses only selected columns
    try:
        return qualify(tree, dialect=DIALECT, schema=schema, quote_identifiers=False)
    except (SqlglotError, *_FAULTS) as error:
        raise BadInput(str(error)) from error


def _needed_columns(tree: exp.Expr) -> dict[str, set[str]] | None:
    """The columns of each table that a query uses; None if one can't be resolved."""
    try:
        tree = pushdown_projections(resolved(tree))
        scopes = traverse_scope(tree)
    except (BadInput, SqlglotError, *_FAULTS):
        return None
    stars = tree.find_all(exp.Star)
    if any(type(star.parent) is not exp.Count for star in stars):
        return None
    known: set[int] = set()
    needed: dict[str, set[str]] = {}
    for scope in scopes:
        for column in scope.columns:
            source = scope.sources.get(column.table)
            if source is None:
                continue
            known.add(id(column))
            if isinstance(source, exp.Table):
                name, own = source.name.lower(), column.name.lower()
                if own not in SCHEMA.get(name, {}):
                    return None
                needed.setdefault(name, set()).add(own)
    unknown = (column for column in tree.find_all(exp.Column) if id(column) not in known)
    return None if any(not _names_an_output(column) for column in unknown) else needed


def _names_an_output(column: exp.Column) -> bool:
    """Whether a column of an ``ORDER BY`` is the name of a selected expression."""
    order = column.find_ancestor(exp.Order)
    query = None if order is None else order.parent
    return not column.table and isinstance(query, exp.Query) and column.name in query.named_selects


def _moment(ms: str) -> str:
    return datetime.fromtimestamp(int(ms) / 1000, UTC).isoformat(timespec="seconds")
