"""`redisq spark doctor | schema | sql`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from redisq_ops.core.engine.registry import all_queues
from redisq_ops.core.model.clock import wall_ms
from redisq_ops.core.model.errors import RedisqError

from ..output import emit, printable, quantity, say, table
from ..session import Session
from .spark_session import (
    announced,
    awaited,
    bounds,
    check_lake,
    check_queues,
    frame_options,
    lake_rows,
    on_spark,
    printed,
    remote_server,
    small_table,
    table_options,
    url_for_workers,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from redisq_ops.pipeline.doctor import DoctorCheck
    from redisq_ops.pipeline.query_bounds import Clock
    from redisq_ops.pipeline.query_tables import TableUse
    from redisq_ops.pipeline.small_tables import SmallTable

    from ..commands.spark import Running, SqlOptions

SHOWN = 100
"""rows shown to a person; programs get all"""


def doctored(s: Session, running: Running, tasks: int) -> int:
    from redisq_ops.pipeline.doctor import check_driver, check_executors

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


def described(s: Session, name: str | None) -> int:
    from redisq_ops.pipeline.options import table_named
    from redisq_ops.pipeline.tables import TABLES

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


def queried(s: Session, given: SqlOptions) -> int:
    from redisq_ops.pipeline.options import parse_options
    from redisq_ops.pipeline.query_tables import only_reads, table_uses

    query, lake, running = given.query, given.lake, given.running
    if printed(running):
        return 0
    reads, uses = only_reads(query), table_uses(query, _clock(running))
    named = list(uses)
    common = bounds(s, given.between, lake)
    common |= {} if given.queue is None else {"queue": given.queue}
    payloads = given.payloads or re.search(r"\bpayload", query, re.IGNORECASE)
    own = {
        name: common | ({"payloads": "true"} if payloads and _has(name) else {}) for name in named
    }
    if lake is not None:
        check_lake(lake)
    else:
        for name in named:
            check_queues(s, parse_options({"table": name, **own[name]}).queue)
    if given.explain:
        return _explained(s, given, uses, own)
    announced(s, running)
    from redisq_ops.pipeline.small_tables import small_table_frame
    from redisq_ops.pipeline.source import register
    from redisq_ops.pipeline.spark_tuning import jvm_conf

    rows = _table_rows(s, given.queue, lake, named)
    conf = [*(jvm_conf(sum(rows.values())) if named else ()), *(running.conf or ())]
    small = {}
    if reads and lake is None:
        small = _small_tables(s, {n: table_options(s, n, **own[n]) for n in named}, rows)
    with on_spark(s, replace(running, conf=conf), announces=False) as spark:
        if lake is not None:
            _show_lake(s, spark, lake, given.queue, named, common)
            _print_query(s, spark, query)
            return 0
        for name, read in small.items():
            _say_reading(s, f"{name}: {quantity(len(read.rows), 'row')}")
            small_table_frame(spark, read).createOrReplaceTempView(name)
        if not reads:  # it may define a table with the data source
            register(spark)
        large = [use for use in _on_server(s, given.queue, uses) if use.table not in small]
        _query_large(s, spark, query, large, own)
    return 0


def _clock(running: Running) -> Clock | None:
    """The clock for reading a query's times; None if the session's time zone isn't UTC."""
    from redisq_ops.pipeline.query_bounds import Clock
    from redisq_ops.pipeline.session import TIME_ZONE, parse_conf

    if parse_conf(running.conf or ()).get(TIME_ZONE, "UTC") != "UTC":
        return None
    return Clock(None if remote_server(running) else wall_ms())


def _on_server(s: Session, queue: str | None, uses: Mapping[str, TableUse]) -> list[TableUse]:
    """The uses, restricted to existing queues."""
    if all(use.bounds.queue is None for use in uses.values()):
        return list(uses.values())
    known = queue.split(",") if queue else _registered(s)
    return [use.within(known) for use in uses.values()]


def _registered(s: Session) -> list[str]:
    return [entry.name for entry in s.run(all_queues(s.config.prefix))]


def _explained(
    s: Session,
    given: SqlOptions,
    uses: Mapping[str, TableUse],
    own: Mapping[str, Mapping[str, str]],
) -> int:
    """Print what the query reads of each table; does not start Spark."""
    from redisq_ops.pipeline.small_tables import MOST_ROWS

    rows = _table_rows(s, given.queue, given.lake, list(uses))
    for use in uses.values() if given.lake else _on_server(s, given.queue, uses):
        name, options = use.table, use.options(own[use.table])
        is_small = rows[name] <= MOST_ROWS and given.lake is None
        if s.json:
            wanted = ("queue", "id", "request", "since", "until")
            bounds = {each: options.get(each) for each in wanted}
            emit({"table": name, "columns": use.columns, **bounds, "rows": rows[name]})
        elif is_small:
            print(f"{name}: {quantity(rows[name], 'row')}, read whole without Spark")
        else:
            print(use.describe(own[name]))
    return 0


def _show_lake(
    s: Session,
    spark: SparkSession,
    lake: str,
    queue: str | None,
    names: Sequence[str],
    common: Mapping[str, str],
) -> None:
    """Register the tables of a lake in the session."""
    from redisq_ops.pipeline.redaction import redact_table

    span = [int(common[at]) if at in common else None for at in ("since", "until")]
    queues = () if queue is None else (queue,)
    for name in names:
        rows = lake_rows(spark, lake, name, queues, *span)
        redact_table(rows, s.redaction).createOrReplaceTempView(name)


def _query_large(
    s: Session,
    spark: SparkSession,
    query: str,
    uses: Sequence[TableUse],
    own: Mapping[str, Mapping[str, str]],
) -> None:
    """Print a query's rows; Spark reads the tables according to ``uses``."""
    from redisq_ops.pipeline.query_tables import UNREAD, query_frame, whole_use

    def show(uses: Iterable[TableUse]) -> None:
        for use in uses:
            options = frame_options(s, spark, use.table, **own[use.table])
            _say_reading(s, use.describe(own[use.table]))
            frame = query_frame(spark, use, options, s.redaction)
            frame.createOrReplaceTempView(use.table)

    awaited(spark, "planning", lambda: show(uses))
    try:
        _print_query(s, spark, query)
    except RedisqError as error:
        if UNREAD not in str(error):
            raise
        awaited(spark, "planning", lambda: show(whole_use(use.table) for use in uses))
        _print_query(s, spark, query)


def _small_tables(
    s: Session, options: Mapping[str, Mapping[str, str]], rows: Mapping[str, int]
) -> dict[str, SmallTable]:
    """The tables that are small enough to be read by this command itself, redacted."""
    from redisq_ops.pipeline.redaction import redact_rows

    found = {}
    for name, given in options.items():
        read = small_table(s, rows[name], given)
        if read is not None:
            found[name] = replace(read, rows=redact_rows(read.rows, s.redaction))
    return found


def _table_rows(
    s: Session, queue: str | None, lake: str | None, tables: Sequence[str]
) -> dict[str, int]:
    """Rows of each table, by the queues' counters or by the size of a lake's files."""
    from redisq_ops.pipeline.spark_tuning import server_rows

    if lake is not None:
        from redisq_ops.pipeline.lake import lake_rows

        return {name: lake_rows(lake, [name]) for name in tables}
    queues = [] if queue is None else queue.split(",")
    prefix = s.config.prefix
    return {name: s.run(server_rows([name], queues, prefix)) for name in tables}


def _say_reading(s: Session, what: str) -> None:
    if not s.json:
        print(f"reading {what}", file=sys.stderr, flush=True)


def _print_query(s: Session, spark: SparkSession, query: str) -> None:
    """Run a query and print its rows; columns of the same name are renamed."""
    from redisq_ops.pipeline.query_values import json_row, printable_frame

    found = awaited(spark, "planning", lambda: printable_frame(spark.sql(query)))
    schema = found.schema
    if s.json:
        rows = found.toLocalIterator()
        row = awaited(spark, "reading", lambda: next(rows, None))
        while row is not None:
            emit(json_row(row, schema, s.redaction))
            row = next(rows, None)
        return
    taken = awaited(spark, "reading", lambda: found.take(SHOWN + 1))
    shown = [list(json_row(row, schema, s.redaction).values()) for row in taken]
    table(schema.names, shown[:SHOWN])
    more = "; more are there: --json has all" if len(shown) > SHOWN else ""
    say(quantity(min(len(shown), SHOWN), "row") + more)


def _has(name: str) -> bool:
    from redisq_ops.pipeline.tables import TABLES

    return TABLES[name].column("payload") is not None
