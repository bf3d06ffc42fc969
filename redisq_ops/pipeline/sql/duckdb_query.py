"""Runs a query of Spark's SQL in DuckDB, over tables in this process's memory.

Both must give one answer. So only syntax and functions that a test has compared with Spark are
translated, and times are those of UTC without a zone; any other query is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError
from sqlglot.optimizer.annotate_types import annotate_types

from redisq_ops.core.model.errors import BadInput, Refused
from redisq_ops.ops.redaction import Redaction

from ..source.tables import TABLES
from .query_bounds import literal_time
from .query_tables import DIALECT, ELSEWHERE, SCHEMA, UNREAD, parsed, resolved
from .query_values import distinct_names, json_atom

MOST_ROWS = 1_000_000
MOST_BYTES = 1024 * 1024 * 1024
_MEMORY = "2GB"
"""what DuckDB may use beside the tables"""
_BATCH = 1000
_SYNTAX = frozenset(
    re.findall(
        r"\w+",
        """
        Select From Where Join Group Having Order Ordered Limit Offset With CTE Subquery Union
        Intersect Except Alias Column Identifier Table TableAlias Star Literal Null Boolean Paren
        Neg Not And Or EQ NEQ GT GTE LT LTE NullSafeEQ Is In Between Like ILike Case If Exists
        Distinct Tuple Interval Var Add Sub Mul Div IntDiv Mod DPipe Window WindowSpec Filter Cube
        Rollup GroupingSets Grouping Count CountIf Sum Avg Min Max Median Quantile Coalesce Nullif
        Nvl2 Greatest Least Lower Upper Length Concat Trim Contains StartsWith EndsWith Replace
        Round Abs Cast TryCast DataType TsOrDsToDate CurrentDate TimestampTrunc Hour Minute Year
        Month UnixMillis RowNumber Rank DenseRank Lag Lead
        """,
    )
)
"""names of sqlglot's classes"""
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.In, exp.Between)
_TAKES_DECIMALS = (*_COMPARED, exp.Alias, exp.Quantile, exp.Cast)
_INTEGERS = {"INT", "BIGINT", "SMALLINT", "TINYINT"}
_CASTS = {
    "TEXT": {*_INTEGERS, "TEXT", "VARCHAR", "BOOLEAN"},
    "INT": _INTEGERS,
    "BIGINT": _INTEGERS,
    "DOUBLE": {*_INTEGERS, "DOUBLE"},
    "DATE": {"DATE", "TIMESTAMP", "TIMESTAMPTZ"},
}
"""type of a cast -> the types from which Spark and DuckDB cast alike"""
_PRINTED = {"VARCHAR", "INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "DATE"}
_PRINTED |= {"BLOB", '"NULL"'}


@dataclass(frozen=True, slots=True)
class Translated:
    """A query in DuckDB's SQL, and its columns as Spark names them."""

    sql: str
    names: tuple[str, ...]


def translated(query: str, now_ms: int) -> Translated:
    """A query in DuckDB's SQL; `BadInput` says why it can't be. ``now_ms``: what ``now()`` is."""
    tree = parsed(query)
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        raise BadInput(f"redisq sql can't read this query: {ELSEWHERE}")
    for order in tree.find_all(exp.Order):
        if [each.name.lower() for each in order.expressions] == ["all"]:
            raise _refused("order by all")
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        _check_table(table, ctes)
    typed = _name_columns(tree)
    tree = annotate_types(resolved(tree), schema={**SCHEMA}, dialect=DIALECT)
    names = tuple(distinct_names(typed or tree.named_selects))
    for node in list(tree.walk()):
        _check(node)
        if isinstance(node, _COMPARED):
            _check_comparison(node)
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    for node in reversed(list(tree.walk())):  # the parts of an expression before itself
        if (new := _for_duckdb(node, now)) is not node:
            node.replace(new)
    try:
        sql = tree.sql("duckdb", unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise BadInput(f"redisq sql: {error}; {ELSEWHERE}") from error
    return Translated(sql, names)


def _refused(what: str) -> BadInput:
    return BadInput(f"redisq sql can't run {what} as Spark does: {ELSEWHERE}")


def _name_columns(tree: exp.Query) -> list[str] | None:
    """Name the columns of the first SELECT that have no name, much as Spark does. Their names as
    they were typed; None if the query has a ``*``."""
    first: exp.Expr = tree
    while isinstance(first, exp.SetOperation):
        first = first.left.unnest()
    assert isinstance(first, exp.Query)
    for column in first.selects:
        if not isinstance(column, (exp.Alias, exp.Column, exp.Star)):
            name = column.sql(DIALECT, normalize_functions="lower").replace("count(*)", "count(1)")
            name = f"({name})" if isinstance(column, exp.Binary) else name
            if isinstance(column, exp.Cast) and isinstance(column.this, exp.Column):
                name = column.this.name  # ORDER BY may mean it
            column.replace(exp.alias_(column.copy(), name, quoted=True))
    return None if first.is_star else first.named_selects


def _check_table(table: exp.Table, ctes: set[str]) -> None:
    if table.db or (table.name.lower() not in TABLES and table.name.lower() not in ctes):
        raise BadInput(f"no table {table.sql(DIALECT)}: redisq sql reads {', '.join(TABLES)}")


def _kind(node: exp.Expr) -> str:
    """The type's name; empty if unknown."""
    return "" if node.type is None else node.type.this.name


def _family(side: exp.Expr) -> str | None:
    """What a side of a comparison may be compared with; None: unknown."""
    kind = _kind(side)
    if kind in ("TEXT", "VARCHAR", "CHAR"):
        return "text"
    if kind in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "DATE"):
        return "time"
    if kind in ("BINARY", "VARBINARY"):
        return "bytes"
    return "number" if kind in {*_INTEGERS, "DOUBLE", "DECIMAL", "FLOAT"} else None


def _check_comparison(node: exp.Expr) -> None:
    """Refuse to compare different types, but replace text that is a time."""
    sides = [node.this, node.args.get("expression"), node.args.get("low"), node.args.get("high")]
    sides = [side for side in (*sides, *node.expressions) if isinstance(side, exp.Expr)]
    families = {_family(side) for side in sides} - {None}
    if families == {"text", "time"}:
        for side in sides:
            if isinstance(side, exp.Literal):
                side.replace(exp.cast(side.copy(), exp.DType.TIMESTAMPTZ))
            elif _family(side) == "text":
                raise _refused(f"{node.sql(DIALECT)} (different types)")
    elif len(families) > 1:
        raise _refused(f"{node.sql(DIALECT)} (different types)")


def _check(node: exp.Expr) -> None:
    """Refuse what isn't known to be the same in DuckDB."""
    if type(node).__name__ not in _SYNTAX and not _is_now(node):
        raise _refused(node.sql(DIALECT, normalize_functions="lower"))
    if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
        raise _refused("count(distinct *)")
    if isinstance(node, exp.With) and node.args.get("recursive"):
        raise _refused("with recursive")
    if isinstance(node, exp.Literal) and node.is_number and set(node.this) <= set(".0123456789"):
        user = node.find_ancestor(exp.Binary, exp.Func, exp.Predicate, exp.Alias)
        if "." in node.this and not isinstance(user, _TAKES_DECIMALS):
            raise _refused(f"arithmetic with the decimal {node.this} (write {node.this}e0)")
    if isinstance(node, (exp.Like, exp.ILike)):
        if "\\" in node.expression.sql():
            raise _refused("like with a backslash")
        if _family(node.this) == "bytes":
            raise _refused(f"like on {node.this.sql(DIALECT)}, which is bytes")
    if isinstance(node, exp.Length) and _family(node.this) != "text":
        raise _refused("length() of what isn't text")


def _is_now(node: exp.Expr) -> bool:
    named = isinstance(node, exp.Anonymous) and node.name.lower() == "now" and not node.expressions
    return named or isinstance(node, exp.CurrentTimestamp)


def _for_duckdb(node: exp.Expr, now: datetime) -> exp.Expr:
    """A node in DuckDB's words; its parts are already."""
    if _is_now(node):
        return _time(now)
    if isinstance(node, exp.CurrentDate):
        return exp.cast(exp.Literal.string(now.date().isoformat()), exp.DType.DATE)
    if isinstance(node, exp.TsOrDsToDate):  # date(x)
        return _cast(exp.cast(node.this, exp.DType.DATE))
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, exp.Quantile):  # DuckDB's function of this name doesn't interpolate
        return exp.func("quantile_cont", node.this, node.args["quantile"], dialect="duckdb")
    if isinstance(node, (exp.Div, exp.IntDiv, exp.Mod)):
        by = node.expression
        failing = exp.Anonymous(this="error", expressions=[exp.Literal.string("Division by zero")])
        node.set("safe", False)  # Spark stops
        node.set("expression", exp.case().when(by.eq(0), failing).else_(by.copy()))
    if isinstance(node, exp.Round) and _kind(node.this) not in _INTEGERS:
        # Spark rounds the digits that it prints (Scala's BigDecimal), DuckDB the binary number.
        digits = exp.cast(node.this, exp.DType.TEXT)
        node.set("this", exp.cast(digits, "DECIMAL(38, 18)", dialect="duckdb"))
        return exp.cast(node, exp.DType.DOUBLE)
    return node


def _time(at: datetime) -> exp.Expr:
    text = at.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    return exp.cast(exp.Literal.string(text), exp.DType.TIMESTAMP)


def _cast(node: exp.Cast) -> exp.Expr:
    """A cast whose result is the same in Spark and DuckDB."""
    target, source = node.to.this.name, node.this
    if target in ("TIMESTAMPTZ", "TIMESTAMPLTZ") and isinstance(source, exp.Literal):
        if (moment := literal_time(exp.cast(source, node.to))) is None:
            raise BadInput(f"{source.sql(DIALECT)} is no time: write 2030-01-31 12:00:00")
        return _time(moment)
    is_literal = isinstance(source, exp.Literal) and (target == "DATE" or not source.is_string)
    if node.args.get("safe") or not (is_literal or _kind(source) in _CASTS.get(target, ())):
        raise _refused(node.sql(DIALECT))
    return exp.cast(source, node.to)


def answer(
    query: Translated, tables: Mapping[str, pa.Table], redaction: Redaction
) -> Iterator[Mapping[str, Any]]:
    """The rows of a query, as they are printed. DuckDB sees no file, no network and no other table.

    A table may lack columns; a query that uses one fails with `UNREAD`. Raises `BadInput` for the
    query's own errors, `Refused` if it takes too much memory.
    """
    with duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": ""}) as database:
        try:
            for name, rows in tables.items():
                _show(database, name, rows)
            database.execute("set enable_external_access = false; set lock_configuration = true")
            found = database.execute(query.sql)
            for column in found.description:
                kind = str(column[1])
                if kind not in _PRINTED and not kind.startswith("DECIMAL("):
                    raise _refused(f"a column of type {kind.lower()}")
            while batch := found.fetchmany(_BATCH):
                for row in batch:
                    values = (_printed(value, redaction) for value in row)
                    yield dict(zip(query.names, values, strict=True))
        except duckdb.OutOfMemoryException:
            raise Refused(f"the query takes more than {_MEMORY} of memory: {ELSEWHERE}") from None
        except duckdb.Error as error:
            message = redaction.text(str(error).partition("\n")[0])
            unknown = isinstance(error, (duckdb.BinderException, duckdb.CatalogException))
            raise BadInput(f"{message}: {ELSEWHERE}" if unknown else message) from error


def _printed(value: Any, redaction: Redaction) -> Any:
    is_time = isinstance(value, datetime)
    return json_atom(value.replace(tzinfo=UTC) if is_time else value, is_time, redaction)


def _show(database: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Make a view with all columns of the table; its times are those of UTC, without a zone."""
    columns = []
    for column in TABLES[name].columns:
        if (at := rows.schema.get_field_index(column.name)) < 0:
            kind = {"string": "varchar", "long": "bigint", "binary": "blob"}.get(column.type)
            columns.append(f"cast(error('{UNREAD}') as {kind or column.type}) \"{column.name}\"")
            continue
        columns.append(f'"{column.name}"')
        if column.type == "timestamp":
            rows = rows.set_column(at, column.name, rows[at].cast(pa.timestamp("us")))
    source, listed = f'"read {name}"', ", ".join(columns)
    database.register(f"read {name}", rows)
    database.execute(f'create view "{name}" as select {listed} from {source}')
