"""`redisq spark report | groups | critical-path`: figures of the history and the dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from redisq_ops.core.model.errors import BadInput, NotFound
from redisq_ops.ops.hint import hint

from .. import report_tables
from ..completion import queues
from ..options import argument, command, flag, option, options
from ..output import count, emit, progress, quantity, say
from ..queue_report import (
    PRINTS,
    Contents,
    During,
    ServerTables,
    Span,
    other_tables,
    show_figures,
    spans,
)
from ..session import Session
from ..spark_session import (
    SPARK_PAYS,
    announced,
    between,
    check_lake,
    check_queues,
    frame,
    lake_of,
    lake_rows,
    now_ms,
    on_spark,
    printed,
)
from .spark import FromLake, Running, spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.pipeline.lake.lake_table import Lake
    from redisq_ops.pipeline.report.report import Progress, QueueReport

_QUEUES = argument("[QUEUE]...")
MOST_ROWS, MOST_BYTES = 20_000, 16 * 1024 * 1024
"""what this process reads of a table itself"""


@options
class Source:
    """What a report is about: a server or a lake, and a time range."""

    lake: FromLake
    during: During


@options
class ReportOptions:
    queues: list[str] | None = _QUEUES
    source: Source
    contents: Contents
    payloads: bool = flag("--payloads", "Read payloads of dead letters too.")
    running: Running


@command(spark, "report", prints=PRINTS)
def report(s: Session, given: ReportOptions) -> int:
    """Report the same as redisq report, from any number of events: of the server, or of a lake.

    Examples:
      redisq spark report mail --html report.html
      redisq spark report --lake /data/queues --since 30d --html month.html --json
    """
    contents, queues = given.contents, given.queues or ()
    contents.check()
    if printed(given.running):
        return 0
    with _report(
        s,
        queues,
        given.source,
        given.running,
        payloads=given.payloads,
        contents=contents,
        quicker="redisq report is quicker",
    ) as (report, meter):
        if contents.parquet is not None:
            report.write(contents.parquet, meter)
        figures = report.figures(progress=meter)
    show_figures(s, figures, contents, queues, given.source.lake.lake)
    return 0


@options
class SparkGroupsOptions:
    queues: list[str] | None = _QUEUES
    source: Source
    payloads: bool = flag("--payloads", "Read all payloads too.")
    running: Running


@command(spark, "groups", prints="SparkErrorGroup")
def groups(s: Session, given: SparkGroupsOptions) -> int:
    """Group all dead letters by error, and show what each group has in common that others have not.
    The group names are those of redisq dlq groups.

    Examples:
      redisq spark groups mail
      redisq spark groups --lake /data/queues --payloads --json
    """
    if printed(given.running):
        return 0
    queues, source = given.queues or (), given.source
    with _report(
        s,
        queues,
        source,
        given.running,
        payloads=given.payloads,
        history=False,
        quicker=f"{hint('dlq', 'groups', *queues)} is quicker",
    ) as (report, meter):
        figures = report.dead_letter_groups(progress=meter)
    groups, traits = figures["dead_groups"], figures["contrasts"]
    if not s.json:
        report_tables.print_groups(s, groups, traits)
        say(
            f"{count(sum(row['entries'] for row in groups))} dead letters in "
            f"{count(len(groups))} {'group' if len(groups) == 1 else 'groups'}"
        )
        return 0
    from redisq_ops.pipeline.report.figures import by_queue

    own, by_group = ("field", "value", "share", "rest", "surely"), by_queue(traits, "fingerprint")
    for row in groups:
        its_traits = by_group.get((row["queue"], row["fingerprint"]), ())
        emit({**row, "contrast": [{name: t[name] for name in own} for t in its_traits]})
    return 0


@options
class CriticalPathOptions:
    request: str = argument("REQUEST", "Request, by id or as QUEUE/REQUEST.")
    queue: str | None = option("--queue", "NAME", "Queue to use.", autocompletion=queues)
    source: Source
    running: Running


@command(spark, "critical-path", prints="SparkCriticalPath")
def critical_path(s: Session, given: CriticalPathOptions) -> int:
    """Show which sub-requests held a request back: the path from its end back to its submission,
    and what each delivery on it waited for, and how long.

    Examples:
      redisq spark critical-path mail/today
      redisq spark critical-path today --queue mail --lake /data/queues --json
    """
    named, slash, request = given.request.rpartition("/")
    if slash and given.queue not in (None, named):
        raise NotFound(f"{given.request} isn't in queue {given.queue}")
    queue = named or given.queue
    if printed(given.running):
        return 0
    queues = [queue] if queue else []
    with _report(s, queues, given.source, given.running, dead=False) as (report, meter):
        rows, silent = report.critical_path(request, progress=meter)
    found = sorted({row["queue"] for row in rows})
    if len(found) > 1:
        here = ", ".join(f"{name}/{request}" for name in found)
        raise BadInput(f"request {request} is in more than one queue: {here}")
    if not found:
        _nothing(request, queue, silent)
    report_tables.print_critical_path(s, rows, f"{found[0]}/{request}")
    return 0


def _nothing(request: str, queue: str | None, silent: Sequence[str]) -> None:
    why = ""
    if silent and (queue is None or queue in silent):
        named = queue or silent[0]
        why = (
            f"; that of {named} has failures only "
            f"({hint('settings', named, 'history=all')} keeps all)"
        )
    raise NotFound(f"the history has no delivery of request {request} that has ended{why}")


@contextmanager
def _report(
    s: Session,
    queues: Sequence[str],
    source: Source,
    running: Running,
    *,
    payloads: bool = False,
    history: bool = True,
    dead: bool = True,
    contents: Contents | None = None,
    quicker: str = "",
) -> Iterator[tuple[QueueReport[DataFrame], Progress]]:
    """A report on the history, the dead letters or both, and a meter for its parts.

    ``contents``: of a whole report. ``quicker``: said of few rows.
    """
    from redisq_ops.pipeline.session.spark_session import parse_conf
    from redisq_ops.pipeline.session.spark_tuning import session_settings

    tables = _Tables(ServerTables(s, tuple(queues), payloads), lake_of(s, source.lake))
    if tables.lake is None:
        check_queues(s, queues)
    else:
        check_lake(tables.lake)
    now, whole = now_ms(s, tables.lake), not history or tables.lake is not None
    compared = None if contents is None else contents.against
    span, against = spans(s, source.during, compared, now, whole=whole)
    wanted = [*(["history"] if history else []), *(["dead"] if dead else [])]
    announced(s, running)
    if quicker and tables.lake is None and not s.json:
        rows = tables.server.rows(wanted[:1])
        if rows < SPARK_PAYS:
            say(f"{quantity(rows, 'row')} of {wanted[0]}: {quicker}")
    conf = [*tables.startup_conf(wanted), *(running.conf or ())]
    with (
        on_spark(s, replace(running, conf=conf), announces=False) as spark,
        progress("working the tables out") as meter,
    ):
        client = None if contents is None else contents.client
        report = _read_report(spark, tables, wanted, client, span, against)
        if contents is not None:
            lake, recording = tables.lake is not None, contents.recording
            others = other_tables(tables.server, recording, span, now, lake=lake)
            report.others = {name: report.engine.relation(rows) for name, rows in others.items()}
        asked = parse_conf(running.conf or ())
        for name, value in (session_settings(report.events) if history else {}).items():
            if name not in asked:
                spark.conf.set(name, value)
        yield report, meter


def _read_report(
    running: SparkSession,
    tables: _Tables,
    wanted: Sequence[str],
    client: str | None,
    span: Span,
    against: Span | None,
) -> QueueReport[DataFrame]:
    """A report on the ``wanted`` tables; the others count as empty."""
    from redisq_ops.pipeline.report.report import QueueReport
    from redisq_ops.pipeline.report.spark_engine import SparkEngine
    from redisq_ops.pipeline.source.schemas import struct
    from redisq_ops.pipeline.source.tables import TABLES

    engine = SparkEngine(running, tables.server.s.redaction, client)
    weights = earlier = other = None
    events, letters = (
        running.createDataFrame([], struct(TABLES[name])) for name in ("history", "dead")
    )
    if "history" in wanted:
        events = tables.read(running, "history", span)
        weights = tables.server.weights() if client is None and tables.lake is None else None
    if "dead" in wanted:
        letters = tables.read(running, "dead", Span(None, None))
        if "history" not in wanted:
            letters = between(letters, "since_at", span.since, span.until)
        elif span.before is not None:
            earlier = tables.read(running, "history", span.before)
    if against is not None:
        other = QueueReport(engine, tables.read(running, "history", against), letters)
    return QueueReport(engine, events, letters, tables.server.payloads, weights, earlier, other)


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of the server, or of a lake."""

    server: ServerTables
    lake: Lake | None

    def startup_conf(self, wanted: Sequence[str]) -> list[str]:
        """Settings for a session that reads these tables."""
        from redisq_ops.pipeline.lake import lake_export
        from redisq_ops.pipeline.session import spark_tuning

        if self.lake is not None:
            return spark_tuning.startup_conf(lake_export.lake_rows(self.lake, wanted))
        return spark_tuning.startup_conf(self.server.rows(wanted))

    def read(self, running: SparkSession, name: str, span: Span) -> DataFrame:
        from redisq_ops.pipeline.report.report import report_columns
        from redisq_ops.pipeline.source.schemas import struct
        from redisq_ops.pipeline.source.tables import TABLES

        server = self.server
        columns = report_columns(name, payloads=server.payloads)
        if self.lake is not None:
            found = lake_rows(running, self.lake, name, server.names, span.since, span.until)
            return found.select(*columns)
        # For its first read, Spark starts four Python processes, one after the other.
        is_small = server.rows([name]) <= MOST_ROWS
        rows = server.read(name, span, MOST_ROWS, MOST_BYTES) if is_small else None
        if rows is not None:
            return running.createDataFrame(rows, struct(TABLES[name], columns))
        return frame(server.s, running, name, **server.options(name, span))
