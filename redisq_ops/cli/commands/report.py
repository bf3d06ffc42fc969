"""`redisq report`: a report of queues, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import Refused
from redisq_ops.ops.terminal import size

from ..options import argument, command, flag, options
from ..output import count, progress
from ..queue_report import (
    PRINTS,
    Contents,
    During,
    ServerTables,
    Span,
    print_figures,
    server_name,
    spans,
    write_page,
)
from ..session import Session
from ..spark_session import check_queues, now_ms

if TYPE_CHECKING:
    import pyarrow as pa

commands = typer.Typer()
MOST_ROWS = 2_000_000
MOST_BYTES = 1024 * 1024 * 1024
"""what this process reads of a table"""


@options
class ReportOptions:
    queues: list[str] | None = argument("[QUEUE]...")
    during: During
    contents: Contents
    payloads: bool = flag("--payloads", "Read payloads of dead letters too.")


@command(commands, "report", prints=PRINTS)
def report(s: Session, given: ReportOptions) -> int:
    """Report on queues: tables, an HTML page or Parquet.

    The history and the dead letters show latency, throughput, backlog, workers, retries, anomalies,
    error groups, fairness, operators' changes and the slowest requests. The queue's setting
    `history` decides how much the history has. redisq spark report does the same for more events,
    and for a lake.

    Examples:
      redisq report mail --html report.html
      redisq report --since 6h --until 2h --parquet tables/
      redisq report --since 12:00 --until 16:00 --against yesterday --html incident.html
    """
    from redisq_ops.pipeline.report.duckdb_engine import DuckDBEngine, memory_bound
    from redisq_ops.pipeline.report.report import QueueReport

    contents, names = given.contents, tuple(given.queues or ())
    contents.check()
    check_queues(s, names)
    span, compared = spans(s, given.during, contents.against, now_ms(s, None))
    tables = ServerTables(s, names, given.payloads)
    engine = DuckDBEngine(s.redaction, contents.client)

    def read(name: str, span: Span) -> pa.Table:
        rows = tables.read(name, span, MOST_ROWS, MOST_BYTES)
        if rows is None:
            raise Refused(
                f"{name} is too large for redisq report ({count(MOST_ROWS)} rows, "
                f"{size(MOST_BYTES)}): redisq spark report reads any number"
            )
        return rows

    with progress("working the tables out") as meter, memory_bound():
        report = QueueReport(
            engine,
            engine.relation(read("history", span)),
            engine.relation(read("dead", Span(None, None))),
            given.payloads,
            None if engine.finds_clients else tables.weights(),
        )
        if span.before is not None:
            report.earlier = engine.relation(read("history", span.before))
        if compared is not None:
            events = engine.relation(read("history", compared))
            report.against = QueueReport(engine, events, report.dead)
        if contents.parquet is not None:
            report.write(contents.parquet, meter)
        figures = report.figures(progress=meter)
    if contents.html is not None:
        write_page(s, contents.html, figures, names, server_name(s))
    print_figures(s, figures, contents)
    return 0
