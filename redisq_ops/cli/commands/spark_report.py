"""`redisq spark report | groups | critical-path`: figures of the history and the dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from redisq_ops.core.model.errors import BadInput, NotFound
from redisq_ops.ops.hint import hint

from .. import spark_tables
from ..completion import queues
from ..options import argument, command, flag, option, options
from ..output import count, emit, progress, quantity, say
from ..session import Session
from ..spark_session import (
    AGE,
    SPARK_PAYS,
    announced,
    between,
    check_lake,
    check_queues,
    frame,
    lake_rows,
    moment,
    now_ms,
    on_spark,
    printed,
    table_options,
    time_range,
)
from .spark import READ_LAKE, Running, spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from redisq_ops.pipeline.report.figures import Figures
    from redisq_ops.pipeline.report.report import Progress, QueueReport, Weights

_QUEUES = argument("[QUEUE]...")
DAY = 86_400_000
MOST_ROWS, MOST_BYTES = 20_000, 16 * 1024 * 1024
"""what this process reads of a table itself"""


@options
class Source:
    """What a report is about: a server or a lake, and a time range."""

    lake: str | None = READ_LAKE
    since: str | None = option("--since", "AGE|TIME", "Start: 6h, 03:12 or ISO 8601; default: 24h.")
    until: str | None = option("--until", "AGE|TIME", "End; default: now.")


@options
class ReportOptions:
    queues: list[str] | None = _QUEUES
    source: Source
    against: str | None = option(
        "--against",
        "AGE|TIME|yesterday",
        "Compare with the same length of time so much earlier, or from TIME.",
    )
    html: Path | None = option("--html", "FILE", "Write one HTML page for all queues.")
    parquet: Path | None = option("--parquet", "DIR", "Write each table to a folder below DIR.")
    client: str | None = option("--client", "REGEX", "Find the client in a request id: '^(\\w+)-'.")
    payloads: bool = flag("--payloads", "Read payloads of dead letters too.")
    running: Running


@command(
    spark,
    "report",
    prints="SparkReport SparkReportLatency SparkReportThroughput SparkReportWorkers "
    "SparkReportChanges SparkReportRetries SparkReportAnomalies SparkReportDeadGroups "
    "SparkReportContrasts "
    "SparkReportFairness SparkReportRequests SparkReportCriticalPaths "
    "SparkReportComparison",
)
def report(s: Session, given: ReportOptions) -> int:
    """Report latency, throughput, backlog, workers, retries, anomalies, dead-letter groups,
    fairness, operators' changes and the slowest requests, from the history and dead letters of the
    server or a lake: as tables, an HTML page or Parquet. The queue's setting `history` decides how
    much the history has.

    Examples:
      redisq spark report mail --html report.html
      redisq spark report --since 6h --until 2h --parquet tables/
      redisq spark report --since 12:00 --until 16:00 --against yesterday --html incident.html
      redisq spark report --lake /data/queues --since 30d --html month.html --json
    """
    from redisq_ops.ops.private_files import atomic_write

    html, parquet, queues = given.html, given.parquet, given.queues or ()
    _writable(html, parquet)
    if printed(given.running):
        return 0
    with _report(
        s,
        queues,
        given.source,
        given.running,
        payloads=given.payloads,
        client=_pattern(given.client),
        compared=given.against,
        quicker="redisq sql is quicker for a single figure",
    ) as (report, meter):
        written = report.write(parquet, meter) if parquet is not None else {}
        figures = report.figures(progress=meter)
    if html is not None:
        with atomic_write(html) as file:
            file.write(_page(s, figures, queues, given.source.lake).encode())
    if s.json:
        spark_tables.print_json(figures)
    else:
        spark_tables.print_report(s, figures)
    for what, where in ((html, html), (parquet, f"{len(written)} tables below {parquet}")):
        if what is not None:
            say(f"written: {where}")
    return 0


def _page(s: Session, figures: Figures, names: Sequence[str], lake: str | None) -> str:
    from redisq_ops.pipeline.report.report_page import page

    title = ", ".join(names[:4]) + (" …" if len(names) > 4 else "") if names else "All queues"
    place = f"lake {lake}" if lake else _server(s)
    return page(figures, title=title, source=place)


def _server(s: Session) -> str:
    """Host and port, without user name and password."""
    parts = urlsplit(s.config.server_address().url)
    host = parts.hostname or parts.path
    return f"{host}:{parts.port}" if parts.port else host


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
        spark_tables.print_groups(s, groups, traits)
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
    spark_tables.print_critical_path(s, rows, f"{found[0]}/{request}")
    return 0


def _nothing(request: str, queue: str | None, silent: Sequence[str]) -> None:
    why = ""
    if silent and (queue is None or queue in silent):
        named = queue or silent[0]
        why = (
            f"; that of {named} has failures only "
            f"({hint('retention', named, 'history=all')} keeps all)"
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
    client: str | None = None,
    compared: str | None = None,
    quicker: str = "",
) -> Iterator[tuple[QueueReport, Progress]]:
    """A report on the history, the dead letters or both, and a meter for its parts.

    ``compared``: the time of ``--against``. ``quicker``: said of few rows.
    """
    from redisq_ops.pipeline.session.spark_session import parse_conf

    tables = _Tables(s, source.lake, tuple(queues), payloads=payloads)
    if tables.lake is None:
        check_queues(s, queues)
    else:
        check_lake(tables.lake)
    now = now_ms(s, source.lake)
    since, until = time_range(s, source.since, source.until, now)
    if history and since is None and tables.lake is None:
        since = (until or now) - DAY
    against = None if compared is None else _against(s, compared, since, until, now)
    wanted = [*(["history"] if history else []), *(["dead"] if dead else [])]
    announced(s, running)
    if quicker and tables.lake is None and not s.json:
        rows = tables.rows(wanted[:1])
        if rows < SPARK_PAYS:
            say(f"{quantity(rows, 'row')} of {wanted[0]}: {quicker}")
    conf = [*tables.startup_conf(wanted), *(running.conf or ())]
    with (
        on_spark(s, replace(running, conf=conf), announces=False) as spark,
        progress("working the tables out") as meter,
    ):
        report = _read_report(spark, tables, wanted, client, (since, until), against)
        asked = parse_conf(running.conf or ())
        for name, value in (report.settings if history else {}).items():
            if name not in asked:
                spark.conf.set(name, value)
        yield report, meter


def _read_report(
    running: SparkSession,
    tables: _Tables,
    wanted: Sequence[str],
    client: str | None,
    span: tuple[int | None, int | None],
    against: tuple[int, int] | None,
) -> QueueReport:
    """A report on the ``wanted`` tables; the others count as empty."""
    from redisq_ops.pipeline.report.report import QueueReport
    from redisq_ops.pipeline.source.schemas import struct
    from redisq_ops.pipeline.source.tables import TABLES

    since, until = span
    weights = earlier = other = None
    events, letters = (
        running.createDataFrame([], struct(TABLES[name])) for name in ("history", "dead")
    )
    if "history" in wanted:
        events = tables.read(running, "history", since, until)
        weights = tables.weights() if client is None else None
    if "dead" in wanted:
        letters = tables.read(running, "dead")
        if "history" not in wanted:
            letters = between(letters, "since_at", since, until)
        elif since is not None:
            earlier = tables.read(running, "history", None, since - 1)
    if against is not None:
        other = QueueReport(tables.read(running, "history", *against), letters, client)
    return QueueReport(
        events, letters, client, tables.payloads, tables.s.redaction, weights, earlier, other
    )


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of some queues of the server, or of a lake."""

    s: Session
    lake: str | None
    names: tuple[str, ...]
    payloads: bool = False
    """whether the dead letters have their payloads"""

    def startup_conf(self, wanted: Sequence[str]) -> list[str]:
        """Settings for a session that reads these tables."""
        from redisq_ops.pipeline.lake import lake_export
        from redisq_ops.pipeline.session import spark_tuning

        if self.lake is not None:
            return spark_tuning.startup_conf(lake_export.lake_rows(self.lake, wanted))
        return spark_tuning.startup_conf(self.rows(wanted))

    def rows(self, wanted: Sequence[str]) -> int:
        """Number of rows of the server's tables, by the queues' counters."""
        from redisq_ops.pipeline.session.spark_tuning import server_rows

        return self.s.run(server_rows(wanted, self.names, self.s.config.prefix))

    def weights(self) -> Weights | None:
        """The clients' weights, which a lake does not have."""
        from redisq_ops.pipeline.session.spark_tuning import weights

        if self.lake is not None:
            return None
        return self.s.run(weights(self.names, self.s.config.prefix))

    def read(
        self, running: SparkSession, name: str, since: int | None = None, until: int | None = None
    ) -> DataFrame:
        from redisq_ops.pipeline.report import report
        from redisq_ops.pipeline.source.options import parse_options
        from redisq_ops.pipeline.source.schemas import struct
        from redisq_ops.pipeline.source.table_reader import TableReader

        if self.lake is not None:
            return lake_rows(running, self.lake, name, self.names, since, until)
        columns: tuple[str, ...] = report.HISTORY_COLUMNS
        if name == "dead":
            columns = (*report.DEAD_COLUMNS, "payload") if self.payloads else report.DEAD_COLUMNS
        bounds = {"since": since, "until": until}
        wanted = {bound: str(ms) for bound, ms in bounds.items() if ms is not None}
        wanted |= {"queue": ",".join(self.names)} if self.names else {}
        wanted |= {"onTrim": "report"} if name == "history" else {}
        wanted |= {"columns": ",".join(columns)}
        if self.rows([name]) <= MOST_ROWS:
            # For its first read, Spark starts four Python processes, one after the other.
            options = parse_options(table_options(self.s, name, **wanted))
            reader = TableReader(options, self.s.config.server_address())
            if (rows := reader.whole(MOST_ROWS, MOST_BYTES)) is not None:
                return running.createDataFrame(rows, struct(options.definition, columns))
        return frame(self.s, running, name, **wanted)


def _against(
    s: Session, typed: str, since: int | None, until: int | None, now: int
) -> tuple[int, int]:
    """The time range to compare with, in ms: as long as the report's, and before it."""
    if since is None:
        raise BadInput("--against needs --since: how long is the time to compare?")
    text = "24h" if typed == "yesterday" else typed
    begin = moment(text, now, utc=s.utc)
    shift = now - begin if AGE.fullmatch(text) else since - begin
    end = now if until is None else until
    if shift < end - since:
        raise BadInput(f"--against {typed}: that time is not before the report's")
    return since - shift, end - shift


def _pattern(text: str | None) -> str | None:
    from redisq_ops.ops.filter.regex import BadRegex, regex

    if text is None:
        return None
    try:
        groups = regex(text).groups
    except BadRegex as error:
        raise BadInput(f"--client {text!r}: {error.located}") from error
    if groups < 1:
        raise BadInput(
            f"--client {text!r}: it needs a group that matches the client, as in '^(\\w+)-'"
        )
    return text


def _writable(html: Path | None, parquet: Path | None) -> None:
    """Refuse outputs that can't be written, before Spark works for minutes."""
    if html is not None and not (find_spec("jinja2") and find_spec("vl_convert")):
        raise BadInput("--html needs Jinja and Vega: pip install 'redisq-ops[spark]'")
    if html is not None and (html.is_dir() or not html.absolute().parent.is_dir()):
        raise BadInput(f"--html {html}: must be a file in an existing folder")
    if parquet is not None and parquet.exists() and not parquet.is_dir():
        raise BadInput(f"--parquet {parquet}: must be a folder")
