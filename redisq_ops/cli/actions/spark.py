"""`redisq spark doctor | schema | sql`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from redisq_ops.core.model.errors import BadInput
from redisq_ops.ops.redaction import Redaction

from ..output import count, emit, printable, say, table
from ..session import Session
from .spark_session import (
    announced,
    awaited,
    bounds,
    check_lake,
    check_queues,
    frame_options,
    handed_on,
    lake_rows,
    on_kept_server,
    on_spark,
    printed,
    run_elsewhere,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.pipeline.doctor import DoctorCheck

_ONLY_READS = re.compile(r"\s*(select|with|values)\b", re.IGNORECASE)
"""a query, not SET or CREATE"""
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
            report(check_executors(spark, given["tasks"], handed_on(s, spark)))
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
    from redisq_ops.pipeline.redaction import redact_table
    from redisq_ops.pipeline.tables import TABLES

    if (code := run_elsewhere(s, given)) is not None:
        return code
    # Each table that Spark plans takes a while: only those that the query names.
    named = [n for n in TABLES if re.search(rf"\b{n}\b", given["query"], re.IGNORECASE)]
    common = bounds(s, given, by_server=given["lake"] is None) | (
        {} if given["queue"] is None else {"queue": given["queue"]}
    )
    own = {
        name: common | ({"payloads": "true"} if given["payloads"] and _has(name) else {})
        for name in named
    }
    if given["lake"] is not None:
        check_lake(given["lake"])
    else:
        for name in named:
            check_queues(s, parse_options({"table": name, **own[name]}).queue)
    reads = _ONLY_READS.match(given["query"]) is not None
    with on_kept_server(s, given, "sql", reuses=reads) as here, _session(s, here, named) as spark:
        frames = {}
        if given["lake"] is None:
            frames = {name: frame_options(s, spark, name, **own[name]) for name in named}
        else:
            for name in named:
                rows = lake_rows(spark, given["lake"], name, **common)
                redact_table(rows, s.redaction).createOrReplaceTempView(name)
        found = awaited(spark, "planning", lambda: _planned(s, spark, given["query"], frames))
        _print_rows(s, spark, found)
    return 0


@contextmanager
def _session(s: Session, given: Mapping[str, Any], tables: Sequence[str]) -> Iterator[SparkSession]:
    """A session that starts quickly if the tables are small."""
    announced(s, given)
    conf = list(given["conf"] or ())
    if tables and given["remote"] is None:
        from redisq_ops.pipeline import spark_tuning

        if given["lake"] is not None:
            rows = spark_tuning.lake_rows(given["lake"], tables)
        else:
            names = [] if given["queue"] is None else given["queue"].split(",")
            prefix = s.config["prefix"] or "rq"
            rows = s.run(spark_tuning.server_rows(tables, names, prefix))
        conf = [*spark_tuning.jvm_conf(rows), *conf]
    with on_spark(s, {**given, "conf": conf}, announces=False) as spark:
        yield spark


def _planned(
    s: Session, spark: SparkSession, query: str, frames: Mapping[str, Mapping[str, str]]
) -> DataFrame:
    """The rows of a query, over frames that read only what it needs."""
    from redisq_ops.pipeline.query_plan import plan_query, single_query_frame
    from redisq_ops.pipeline.redaction import redact_table

    def show(name: str, table: DataFrame) -> None:
        redact_table(table, s.redaction).createOrReplaceTempView(name)

    for name, options in frames.items():
        show(name, spark.read.format("redisq").options(**options).load())
    uses = plan_query(spark, query, list(frames)) if frames else {}
    for name, use in uses.items():
        if not s.json:
            bounded = bool({"since", "until"} & frames[name].keys())
            print(f"reading {use.describe(bounded=bounded)}", file=sys.stderr, flush=True)
        show(name, single_query_frame(spark, use, frames[name]))
    return spark.sql(query)


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
    n = min(len(shown), SHOWN)
    say(f"{count(n)} {'row' if n == 1 else 'rows'}{more}")


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
