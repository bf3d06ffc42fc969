"""`redisq spark doctor | schema | sql`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.redaction import Redaction

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
    on_kept_server,
    on_spark,
    printed,
    run_elsewhere,
    small_table,
    source_frame,
    table_options,
    url_for_workers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.pipeline.doctor import DoctorCheck
    from redisq_ops.pipeline.small_tables import SmallTable

SHOWN = 100
"""rows shown to a person; programs get all"""


def doctored(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.pipeline.doctor import check_driver, check_executors, write_class_archive

    if printed(given):
        return 0
    if given["archive"] and given["remote"]:
        raise BadInput("--archive is for Spark on this machine, not for --remote")
    found: list[DoctorCheck] = []

    def report(findings: list[DoctorCheck]) -> None:
        for finding in findings:
            if s.json:
                emit({"check": finding.name, "ok": finding.ok, "sentence": finding.says})
            else:
                _say_finding(finding)
        found.extend(findings)

    report(check_driver(s.config.server_address(), remote=given["remote"] is not None))
    if given["archive"] and all(finding.ok for finding in found):
        say("archiving the classes of Spark, which takes a minute…")
        report([write_class_archive(s.config.server_address())])
    if all(finding.ok for finding in found):
        with on_spark(s, given, waits=False) as spark:
            report(check_executors(spark, given["tasks"], url_for_workers(s, spark)))
    return 0 if all(finding.ok for finding in found) else 1


def _say_finding(finding: DoctorCheck) -> None:
    mark = "ok   " if finding.ok else "WRONG"
    print(f"{mark}  {finding.name:<10}  {printable(finding.says)}")


def described(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.pipeline.options import table_named
    from redisq_ops.pipeline.tables import TABLES

    name = given["table"]
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


def queried(s: Session, given: dict[str, Any]) -> int:
    from redisq_ops.pipeline.options import parse_options
    from redisq_ops.pipeline.query_tables import named_tables, only_reads
    from redisq_ops.pipeline.redaction import redact_table
    from redisq_ops.pipeline.spark_tuning import jvm_conf

    if (code := run_elsewhere(s, given)) is not None:
        return code
    named = named_tables(given["query"])
    common = bounds(s, given) | ({} if given["queue"] is None else {"queue": given["queue"]})
    payloads = given["payloads"] or re.search(r"\bpayload", given["query"], re.IGNORECASE)
    own = {
        name: common | ({"payloads": "true"} if payloads and _has(name) else {}) for name in named
    }
    if given["lake"] is not None:
        check_lake(given["lake"])
    else:
        for name in named:
            check_queues(s, parse_options({"table": name, **own[name]}).queue)
    reads = only_reads(given["query"])
    with on_kept_server(s, given, "sql", reuses=reads) as here:
        announced(s, here)
        from redisq_ops.pipeline.small_tables import small_table_frame
        from redisq_ops.pipeline.source import register

        rows = _table_rows(s, given, named)
        conf = [*(jvm_conf(sum(rows.values())) if named else ()), *(given["conf"] or ())]
        small = {}
        if reads and given["lake"] is None:
            small = _small_tables(s, {n: table_options(s, n, **own[n]) for n in named}, rows)
        with on_spark(s, here | {"conf": conf}, announces=False) as spark:
            frames = {}
            if given["lake"] is not None:
                span = [int(common[at]) if at in common else None for at in ("since", "until")]
                queues = () if given["queue"] is None else (given["queue"],)
                for name in named:
                    lake = lake_rows(spark, given["lake"], name, queues, *span)
                    redact_table(lake, s.redaction).createOrReplaceTempView(name)
            else:
                for name, read in small.items():
                    _say_reading(s, f"{name}: {quantity(len(read.rows), 'row')}")
                    small_table_frame(spark, read).createOrReplaceTempView(name)
                large = [name for name in named if name not in small]
                frames = {name: frame_options(s, spark, name, **own[name]) for name in large}
            if not reads:  # it may define a table of the data source
                register(spark)
            found = awaited(spark, "planning", lambda: _planned(s, spark, given["query"], frames))
            _print_rows(s, spark, found)
    return 0


def _small_tables(
    s: Session, options: Mapping[str, Mapping[str, str]], rows: Mapping[str, int]
) -> dict[str, SmallTable]:
    """Those tables that this command reads itself, redacted."""
    from redisq_ops.pipeline.redaction import redact_rows

    found = {}
    for name, given in options.items():
        read = small_table(s, rows[name], given)
        if read is not None:
            found[name] = replace(read, rows=redact_rows(read.rows, s.redaction))
    return found


def _table_rows(s: Session, given: Mapping[str, Any], tables: Sequence[str]) -> dict[str, int]:
    """Rows of each table, by the queues' counters or by the size of a lake's files."""
    from redisq_ops.pipeline.spark_tuning import lake_rows, server_rows

    if given["lake"] is not None:
        return {name: lake_rows(given["lake"], [name]) for name in tables}
    queues = [] if given["queue"] is None else given["queue"].split(",")
    prefix = s.config.prefix
    return {name: s.run(server_rows([name], queues, prefix)) for name in tables}


def _planned(
    s: Session, spark: SparkSession, query: str, frames: Mapping[str, Mapping[str, str]]
) -> DataFrame:
    """The rows of a query, over frames that read only what it needs."""
    from redisq_ops.pipeline.query_plan import plan_query, single_query_frame
    from redisq_ops.pipeline.redaction import redact_table

    def show(name: str, table: DataFrame) -> None:
        redact_table(table, s.redaction).createOrReplaceTempView(name)

    for name, options in frames.items():
        show(name, source_frame(spark, options))
    uses = plan_query(spark, query, list(frames)) if frames else {}
    for name, use in uses.items():
        bounded = bool({"since", "until"} & frames[name].keys())
        _say_reading(s, use.describe(bounded=bounded))
        show(name, single_query_frame(spark, use, frames[name]))
    return spark.sql(query)


def _say_reading(s: Session, what: str) -> None:
    if not s.json:
        print(f"reading {what}", file=sys.stderr, flush=True)


def _print_rows(s: Session, spark: SparkSession, found: DataFrame) -> None:
    if s.json:
        rows = found.toLocalIterator()
        row = awaited(spark, "reading", lambda: next(rows, None))
        while row is not None:
            emit(_plain(row.asDict(recursive=True), s.redaction))
            row = next(rows, None)
        return
    taken = awaited(spark, "reading", lambda: found.take(SHOWN + 1))
    shown = [list(_plain(row.asDict(recursive=True), s.redaction).values()) for row in taken]
    table(found.columns, shown[:SHOWN])
    more = "; more are there: --json has all" if len(shown) > SHOWN else ""
    say(quantity(min(len(shown), SHOWN), "row") + more)


def _has(name: str) -> bool:
    from redisq_ops.pipeline.tables import TABLES

    return TABLES[name].column("payload") is not None


def _plain(row: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    """A row as JSON has it: times in ISO 8601, bytes unchanged; all text and bytes redacted again.

    A query may join parts into a text that only as a whole matches a pattern.
    """

    def value(item: Any) -> Any:
        if isinstance(item, (bytes, bytearray)):
            return redaction.payload(bytes(item))
        if isinstance(item, str):
            return redaction.text(item)
        if isinstance(item, date):
            return item.isoformat()
        if isinstance(item, Mapping):
            return {value(name): value(part) for name, part in item.items()}
        if isinstance(item, list):
            return [value(part) for part in item]
        return float(item) if isinstance(item, Decimal) else item

    return {name: value(item) for name, item in row.items()}
