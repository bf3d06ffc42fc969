"""`redisq report`: a report of queues, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from redisq_ops.core.model.errors import Refused
from redisq_ops.ops.queue_names import check_named, has_pattern, is_named
from redisq_ops.ops.terminal import size

from ..address import queues_named, tell_unread_queues
from ..options import argument, command, flag, options
from ..output import count, progress
from ..queue_report import (
    PRINTS,
    Contents,
    During,
    LakeTables,
    ServerTables,
    Span,
    other_tables,
    show_figures,
    spans,
)
from ..session import Session
from ..spark_session import check_queues, lake_of, now_ms
from .spark import FromLake

if TYPE_CHECKING:
    import pyarrow as pa

    from redisq_ops.pipeline.lake.lake_table import Lake

commands = typer.Typer()
MOST_ROWS = 2_000_000
MOST_BYTES = 1024 * 1024 * 1024
"""what this process reads of a table"""


@options
class ReportOptions:
    queues: list[str] | None = argument("[QUEUE]...")
    lake: FromLake
    during: During
    contents: Contents
    payloads: bool = flag("--payloads", "Read payloads of dead letters too.")


@command(commands, "report", prints=PRINTS)
def report(s: Session, given: ReportOptions) -> int:
    """Report on queues: tables, an HTML page or Parquet.

    The history and the dead letters show latency, throughput, backlog, workers, retries, anomalies,
    error groups, fairness, operators' changes and the slowest requests. The queue's setting
    `history` decides how much the history has. Of a lake the report is about all of it, unless
    --since is given. redisq spark report does the same for more events.

    Examples:
      redisq report mail --html report.html
      redisq report 'mail*' --json
      redisq report --lake /data/queues --since 30d --html month.html
      redisq report --since 6h --until 2h --parquet tables/
      redisq report --since 12:00 --until 16:00 --against yesterday --html incident.html
    """
    from redisq_ops.pipeline.report.duckdb_engine import DuckDBEngine, memory_bound
    from redisq_ops.pipeline.report.report import QueueReport

    contents = given.contents
    contents.check()
    tables: ServerTables | LakeTables
    if (lake := lake_of(s, given.lake)) is None:
        names = _names(s, given.queues or ())
        tables = ServerTables(s, names, given.payloads)
    else:
        names = _names_in(lake, given.queues or ())
        tables = LakeTables(lake, names, given.payloads)
    whole = lake is not None
    now = now_ms(s, lake)
    span, compared = spans(s, given.during, contents.against, now, whole=whole)
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
        server = ServerTables(s, names)
        others = other_tables(server, contents.recording, span, now, lake=whole)
        report.others = {name: engine.relation(rows) for name, rows in others.items()}
        if contents.parquet is not None:
            report.write(contents.parquet, meter)
        figures = report.figures(progress=meter)
    show_figures(s, figures, contents, names, None if lake is None else str(lake.place))
    return 0


def _names_in(lake: Lake, given: Sequence[str]) -> tuple[str, ...]:
    """As `_names`, of the queues of a lake."""
    from redisq_ops.pipeline.lake.lake_export import lake_queues

    if not has_pattern(given):
        return tuple(given)
    known = lake_queues(lake)
    check_named(given, known)
    return tuple(name for name in known if is_named(name, given))


def _names(s: Session, given: Sequence[str]) -> tuple[str, ...]:
    """The queues of these names and patterns. Empty: all queues."""
    if not has_pattern(given):
        check_queues(s, given)
        return tuple(given)
    queues, unread = queues_named(s, given)
    tell_unread_queues(unread)
    if not queues:
        raise Refused("none of these queues can be read")
    return tuple(queue.name for queue in queues)
