"""`redisq spark doctor | schema | sql | serve`: Spark is imported, and a JVM started, only where
rows are read."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from redisq_ops.core.model.clock import wall_ms
from redisq_ops.core.model.errors import BadInput, Unreachable

from ..options import argument, command, flag, option, options
from ..output import emit, printable, quantity, say, table
from ..session import Session
from ..spark_session import (
    SPARK_PAYS,
    announced,
    awaited,
    check_lake,
    frame_options,
    lake_of,
    lake_rows,
    on_spark,
    printed,
    remote_server,
    url_for_workers,
)
from ..sql_query import SHOWN, Answer, QueryTables, explained, print_answer, query_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from redisq_ops.pipeline.lake.lake_table import Lake
    from redisq_ops.pipeline.session.doctor import DoctorCheck
    from redisq_ops.pipeline.sql.query_bounds import Clock
    from redisq_ops.pipeline.sql.query_tables import TableUse

commands = typer.Typer()
spark = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
commands.add_typer(spark, name="spark")


class QueryCommand(TyperCommand):
    """Accepts a query that begins with ``-- comment``: no option's name has a space."""

    def parse_args(self, context: Any, words: list[str]) -> list[str]:
        def is_comment(word: str) -> bool:
            return word.startswith("--") and len(word.partition("=")[0].split()) > 1

        words = [f" {word}" if is_comment(word) else word for word in words]
        return super().parse_args(context, words)


@options
class Running:
    """Where Spark runs; see `printed` and `started`."""

    master: str | None = option("--master", "URL", "Spark master (default: local[*]).")
    remote: str | None = option(
        "--remote", "sc://HOST", "Use a Spark Connect server instead (default: SPARK_REMOTE)."
    )
    conf: list[str] | None = option("--conf", "NAME=VALUE", "Set a Spark property; repeatable.")
    print_submit: bool = flag("--print-submit", "Print the spark-submit command and exit.")


@options
class Between:
    """The time range of a table that is read; see `bounds`."""

    since: str | None = option(
        "--since", "AGE|TIME", "Start of the time range: 6h, 03:12 or ISO 8601."
    )
    until: str | None = option("--until", "AGE|TIME", "End of the time range.")


@options
class Pace:
    """How fast entries are written, and by how many tasks."""

    rate: str | None = option("--rate", "N/s", "At most N entries per second, all tasks together.")
    parts: int = option(
        "--parts", None, "Number of tasks that write; each is one client.", min=1, default=8
    )


SPARK_QUEUE = option("--queue", "NAME", "Queue to use.")


@options
class FromLake:
    """A lake to read, see `lake_of`."""

    lake: str | None = option("--lake", "LAKE", "Read this lake instead of the server.")
    as_of: str | None = option("--as-of", "AGE|TIME", "Read the lake as it was then.")


@command(spark, "doctor", prints="SparkDoctor")
def doctor(
    s: Session,
    *,
    running: Running,
    tasks: int = option(
        "--tasks", None, "Number of tasks that check; about twice the executors.", min=1, default=8
    ),
) -> int:
    """Check the installation: Java, Python, packages, and that each executor has the same versions
    and reaches the server.

    Examples:
      redisq spark doctor
      redisq spark doctor --master spark://head:7077 --json
    """
    from redisq_ops.pipeline.session.doctor import check_driver, check_executors

    if printed(running):
        return 0
    found: list[DoctorCheck] = []

    def report(findings: list[DoctorCheck]) -> None:
        for finding in findings:
            if s.json:
                emit({"check": finding.name, "ok": finding.ok, "sentence": finding.says})
            else:
                _say_finding(finding)
        found.extend(findings)

    report(check_driver(s.config.server_address(), remote=remote_server(running) is not None))
    if all(finding.ok for finding in found):
        with on_spark(s, running, waits=False) as spark:
            report(check_executors(spark, tasks, url_for_workers(s, spark)))
    return 0 if all(finding.ok for finding in found) else 1


def _say_finding(finding: DoctorCheck) -> None:
    mark = "ok   " if finding.ok else "WRONG"
    print(f"{mark}  {finding.name:<10}  {printable(finding.says)}")


@command(spark, "schema", prints="SparkTables SparkColumns")
def schema(s: Session, *, name: str | None = argument("[TABLE]")) -> int:
    """List the columns of a table, or without one the tables. Does not start Spark.

    Examples:
      redisq spark schema
      redisq spark schema dead --json
    """
    from redisq_ops.pipeline.source.options import table_named
    from redisq_ops.pipeline.source.tables import TABLES

    if name is None:
        rows = [(t.name, t.says, t.time) for t in TABLES.values()]
        if s.json:
            for row in rows:
                emit(dict(zip(("table", "meaning", "time"), row, strict=True)))
        else:
            table(["table", "what", "time"], rows)
        return 0
    columns = table_named(name).columns
    if s.json:
        for column in columns:
            emit({"name": column.name, "type": column.type, "meaning": column.says})
    else:
        table(["column", "type", "what"], [(c.name, c.type, c.says) for c in columns])
    return 0


@options
class Asked:
    """A SQL query, and what it may read."""

    query: str = argument("QUERY")
    queue: str | None = option("--queue", "NAME", "Only of this queue.")
    between: Between
    payloads: bool = flag("--payloads", "Read payloads too.")
    explain: bool = flag("--explain", "Say what the query reads of each table, and exit.")


@command(spark, "sql", prints="")
def sql(s: Session, *, asked: Asked, source: FromLake, running: Running) -> int:
    """Run a SQL query over the tables dead, pending, delayed, waiting, finished, requests,
    subrequests, results, counts, tasks, schedules and history (redisq spark schema).

    Examples:
      redisq spark sql "select queue, error_type, count(*) n from dead group by all"
      redisq spark sql "select * from history where at > now() - interval 1 hour" --json
      redisq spark sql "select event, count(*) n from history group by all" --since 2h
      redisq spark sql "select day, count(*) n from history group by day" --lake /lake
    """
    from redisq_ops.pipeline.session.spark_tuning import jvm_conf

    if printed(running):
        return 0
    if (lake := lake_of(s, source)) is not None:
        check_lake(lake)
    tables = query_tables(s, asked, _clock(running), lake)
    if asked.explain:
        return explained(s, tables)
    announced(s, running)
    if lake is None:
        _suggest_duckdb(s, asked, tables)
    conf = [*(jvm_conf(sum(tables.rows.values())) if tables.uses else ()), *(running.conf or ())]
    with on_spark(s, replace(running, conf=conf), announces=False) as spark:

        def ask(uses: Sequence[TableUse]) -> Answer:
            if lake is not None:
                _show_lake(s, spark, lake, tables.own)
            else:
                awaited(spark, "planning", lambda: _show(s, spark, uses, tables))
            return _answer(s, spark, asked.query)

        print_answer(s, ask, tables)
    return 0


spark.registered_commands[-1].cls = QueryCommand


def _suggest_duckdb(s: Session, asked: Asked, tables: QueryTables) -> None:
    """Suggest `redisq sql` if it can run the query and there are so few rows that it is faster."""
    from redisq_ops.pipeline.sql.duckdb_query import translated

    rows = sum(tables.rows.values())
    if s.json or not tables.uses or rows > SPARK_PAYS:
        return
    with suppress(BadInput, ModuleNotFoundError):
        translated(asked.query, 0)
        say(f"{quantity(rows, 'row')}: the same query is quicker by redisq sql")


def _clock(running: Running) -> Clock | None:
    """The clock for reading a query's times; None if the session's time zone isn't UTC."""
    from redisq_ops.pipeline.session.spark_session import TIME_ZONE, parse_conf
    from redisq_ops.pipeline.sql.query_bounds import Clock

    if parse_conf(running.conf or ()).get(TIME_ZONE, "UTC") != "UTC":
        return None
    return Clock(None if remote_server(running) else wall_ms())


def _show_lake(
    s: Session, spark: SparkSession, lake: Lake, own: Mapping[str, Mapping[str, str]]
) -> None:
    """Register the tables of a lake in the session."""
    from redisq_ops.pipeline.source.options import name_list
    from redisq_ops.pipeline.source.redaction import redact_table

    for name, limits in own.items():
        span = [int(limits[at]) if at in limits else None for at in ("since", "until")]
        queues = name_list(limits["queue"]) if "queue" in limits else ()
        rows = lake_rows(spark, lake, name, queues, *span)
        redact_table(rows, s.redaction).createOrReplaceTempView(name)


def _show(s: Session, spark: SparkSession, uses: Sequence[TableUse], tables: QueryTables) -> None:
    """Register the tables of the server in the session, as far as the query needs them."""
    from redisq_ops.pipeline.sql.query_tables import query_frame

    for use in uses:
        own = tables.own[use.table]
        if not s.json:
            say(f"reading {use.describe(own, use.table in tables.counted)}")
        frame = query_frame(spark, use, frame_options(s, spark, use.table, **own), s.redaction)
        frame.createOrReplaceTempView(use.table)


def _answer(s: Session, spark: SparkSession, query: str) -> Answer:
    """A query's rows as Spark reads them, but for people only those that are shown."""
    from redisq_ops.pipeline.sql.query_values import json_row, printable_frame

    found = awaited(spark, "planning", lambda: printable_frame(spark.sql(query)))
    schema = found.schema

    def rows() -> Iterator[Mapping[str, Any]]:
        taken = found.toLocalIterator() if s.json else iter(found.take(SHOWN + 1))
        first = awaited(spark, "reading", lambda: list(islice(taken, 1)))
        for row in chain(first, taken):
            yield json_row(row, schema, s.redaction)

    return schema.names, rows()


@command(spark, "serve", prints="", fixed={"remote": None, "print_submit": False})
def serve(s: Session, *, running: Running) -> int:
    """Run Spark's own Connect server until Ctrl+C: with its address in SPARK_REMOTE, commands start
    no Spark of their own.

    Examples:
      redisq spark serve
      redisq spark serve --conf spark.driver.memory=4g
    """
    from redisq_ops.pipeline.session import connect_server
    from redisq_ops.pipeline.session.spark_session import LOCAL

    def ready(file: Path) -> None:
        say(f'Spark is ready: export SPARK_REMOTE="$(cat {file})". Ctrl+C stops it.')

    announced(s, replace(running, master=running.master or LOCAL))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        address, conf = s.config.server_address(), running.conf or ()
        code = connect_server.serve(address, running.master, conf, ready)
    except KeyboardInterrupt:
        return 0
    raise Unreachable(f"Spark Connect ended with exit code {code}")
