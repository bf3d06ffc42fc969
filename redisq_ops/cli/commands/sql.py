"""`redisq sql`: small questions, without Spark."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.clock import wall_ms
from redisq_ops.core.model.errors import Refused
from redisq_ops.ops.terminal import size

from ..options import command
from ..output import count, say
from ..session import Session
from ..spark_session import table_options
from ..sql_query import Answer, QueryTables, explained, print_answer, query_tables
from .spark import Asked, QueryCommand

if TYPE_CHECKING:
    import pyarrow as pa

    from redisq_ops.pipeline.sql.query_tables import TableUse

commands = typer.Typer()


@command(commands, "sql", prints="")
def sql(s: Session, *, asked: Asked) -> int:
    """Run a SQL query over queues, dead letters and history.

    The tables are dead, pending, delayed, waiting, finished, requests, subrequests, results,
    counts, tasks, schedules and history (redisq spark schema). DuckDB runs the query in this
    process, over up to 1,000,000 rows of a table; redisq spark sql answers the same queries over
    any number.

    Examples:
      redisq sql "select queue, error_type, count(*) n from dead group by all order by n desc"
      redisq sql "select * from history where at > now() - interval 1 hour" --json
    """
    from redisq_ops.pipeline.sql.duckdb_query import answer, translated
    from redisq_ops.pipeline.sql.query_bounds import Clock

    now = wall_ms()
    tables = query_tables(s, asked, Clock(now), None)
    query = translated(asked.query, now)
    if asked.explain:
        return explained(s, tables)

    def ask(uses: Sequence[TableUse]) -> Answer:
        read = {use.table: _rows(s, use, tables) for use in uses}
        return query.names, answer(query, read, s.redaction)

    print_answer(s, ask, tables)
    return 0


commands.registered_commands[-1].cls = QueryCommand


def _rows(s: Session, use: TableUse, tables: QueryTables) -> pa.Table:
    """A table's rows in this process, redacted; `Refused` if they are too many for it."""
    from redisq_ops.pipeline.source.options import parse_options
    from redisq_ops.pipeline.source.redaction import redact_rows
    from redisq_ops.pipeline.source.schemas import arrow
    from redisq_ops.pipeline.source.table_reader import TableReader
    from redisq_ops.pipeline.sql.duckdb_query import MOST_BYTES, MOST_ROWS
    from redisq_ops.pipeline.sql.query_tables import ELSEWHERE, NO_BOUNDS

    name, own = use.table, tables.own[use.table]
    options = parse_options(table_options(s, name, **use.options(own)))
    if use.bounds.impossible:
        return arrow(options.definition, options.column_names).empty_table()
    rows = None
    if use.bounds != NO_BOUNDS or tables.rows[name] <= MOST_ROWS:
        if sys.stderr.isatty():
            say(f"reading {use.describe(own, name in tables.counted)}")
        rows = TableReader(options, s.config.server_address()).whole(MOST_ROWS, MOST_BYTES)
    if rows is None:
        raise Refused(
            f"{name} is too large for redisq sql ({count(MOST_ROWS)} rows, {size(MOST_BYTES)}; "
            f"its queues have {count(tables.rows[name])} rows): {ELSEWHERE}"
        )
    return redact_rows(rows, s.redaction)
