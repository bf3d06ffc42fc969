"""What `redisq report` and `redisq spark report` share: the time, the tables, what is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from redisq_ops.core.model.errors import BadInput, Refused

from . import report_tables
from .options import option, options
from .output import say
from .session import Session
from .spark_session import AGE, moment, table_options, time_range

if TYPE_CHECKING:
    import pyarrow as pa

    from redisq_ops.pipeline.lake.lake_table import Lake
    from redisq_ops.pipeline.report.figures import Figures
    from redisq_ops.pipeline.report.report import Weights

DAY = 86_400_000
MOST_TASKS, MOST_TASK_BYTES = 100_000, 64 * 1024 * 1024
PRINTS = (
    "QueueReport QueueReportLatency QueueReportThroughput QueueReportWorkers QueueReportChanges "
    "QueueReportRetries QueueReportAnomalies QueueReportDeadGroups QueueReportContrasts "
    "QueueReportFairness QueueReportRequests QueueReportCriticalPaths QueueReportComparison "
    "QueueReportTasks QueueReportSamples"
)
"""the types of the lines of JSON"""


@options
class During:
    """The time that a report is about."""

    since: str | None = option("--since", "AGE|TIME", "Start: 6h, 03:12 or ISO 8601; default: 24h.")
    until: str | None = option("--until", "AGE|TIME", "End; default: now.")


@options
class Contents:
    """What a report computes, and where it goes."""

    against: str | None = option(
        "--against",
        "AGE|TIME|yesterday",
        "Compare with the same length of time so much earlier, or from TIME.",
    )
    html: Path | None = option("--html", "FILE", "Write one HTML page for all queues.")
    parquet: Path | None = option("--parquet", "DIR", "Write each table to a folder below DIR.")
    recording: Path | None = option(
        "--recording", "FILE", "Add the samples that redisq recording write put into FILE."
    )
    client: str | None = option("--client", "REGEX", "Find the client in a request id: '^(\\w+)-'.")

    def check(self) -> None:
        """Refuse outputs that can't be written and a bad pattern, before anything is read."""
        html, parquet = self.html, self.parquet
        if html is not None and not (find_spec("jinja2") and find_spec("vl_convert")):
            raise BadInput("--html needs Jinja and Vega: pip install 'redisq-ops[report]'")
        if html is not None and (html.is_dir() or not html.absolute().parent.is_dir()):
            raise BadInput(f"--html {html}: must be a file in an existing folder")
        if parquet is not None and not _nearest(parquet).is_dir():
            raise BadInput(f"--parquet {parquet}: must be a folder")
        if self.client is not None:
            _check_pattern(self.client)
        if self.recording is not None:
            from redisq_ops.ops.recording.file import span_ms

            span_ms(self.recording)


def _nearest(path: Path) -> Path:
    """The path, or the nearest one above it that exists."""
    return path if path.exists() else _nearest(path.absolute().parent)


def _check_pattern(text: str) -> None:
    from redisq_ops.ops.filter.regex import BadRegex, regex

    try:
        groups = regex(text).groups
    except BadRegex as error:
        raise BadInput(f"--client {text!r}: {error.located}") from error
    if groups < 1:
        raise BadInput(
            f"--client {text!r}: it needs a group that matches the client, as in '^(\\w+)-'"
        )


@dataclass(frozen=True, slots=True)
class Span:
    """From a time to another, in ms; None: as far as there are rows."""

    since: int | None
    until: int | None

    @property
    def before(self) -> Span | None:
        """The time before; None if this begins with the history."""
        return None if self.since is None else Span(None, self.since - 1)


def spans(
    s: Session, during: During, against: str | None, now: int, *, whole: bool = False
) -> tuple[Span, Span | None]:
    """The time of a report, the last day unless ``whole``, and that of ``--against``."""
    since, until = time_range(s, during.since, during.until, now)
    if since is None and not whole:
        since = (until or now) - DAY
    if against is None:
        return Span(since, until), None
    if since is None:
        raise BadInput("--against needs --since: how long is the time to compare?")
    text = "24h" if against == "yesterday" else against
    begin = moment(text, now, utc=s.utc)
    shift = now - begin if AGE.fullmatch(text) else since - begin
    end = now if until is None else until
    if shift < end - since:
        raise BadInput(f"--against {against}: that time is not before the report's")
    return Span(since, until), Span(since - shift, end - shift)


@dataclass(frozen=True, slots=True)
class ServerTables:
    """The history and the dead letters of some queues of the server, or of all."""

    s: Session
    names: tuple[str, ...]
    payloads: bool = False
    """whether the dead letters have their payloads"""

    def rows(self, wanted: Sequence[str]) -> int:
        """Number of rows of the tables, of any time, by the queues' counters."""
        from redisq_ops.pipeline.session.spark_tuning import server_rows

        return self.s.run(server_rows(wanted, self.names, self.s.config.prefix))

    def weights(self) -> Weights:
        """The weights of clients other than 1."""
        from redisq_ops.pipeline.session.spark_tuning import weights

        return self.s.run(weights(self.names, self.s.config.prefix))

    def options(self, name: str, span: Span) -> dict[str, str]:
        """What the data source is asked for."""
        from redisq_ops.pipeline.report.report import report_columns
        from redisq_ops.pipeline.source.options import listed

        columns = report_columns(name, payloads=self.payloads)
        bounds = {"since": span.since, "until": span.until}
        wanted = {bound: str(ms) for bound, ms in bounds.items() if ms is not None}
        wanted |= {"queue": listed(self.names)} if self.names else {}
        wanted |= {"onTrim": "report"} if name == "history" else {}
        return wanted | {"columns": ",".join(columns)}

    def read(self, name: str, span: Span, most_rows: int, most_bytes: int) -> pa.Table | None:
        """The rows, read by this process; None if they are more."""
        from redisq_ops.pipeline.source.options import parse_options
        from redisq_ops.pipeline.source.table_reader import TableReader

        options = parse_options(table_options(self.s, name, **self.options(name, span)))
        reader = TableReader(options, self.s.config.server_address())
        return reader.whole(most_rows, most_bytes)


class LakeTables:
    """The same of a lake. Raises `BadInput` if there is none."""

    def __init__(self, lake: Lake, names: tuple[str, ...], payloads: bool) -> None:
        from redisq_ops.pipeline.lake.lake_export import check_lake

        check_lake(lake)
        self._lake, self._names, self._payloads = lake, names, payloads

    def weights(self) -> None:
        """A lake has no weights of clients: they are unknown."""

    def read(self, name: str, span: Span, most_rows: int, most_bytes: int) -> pa.Table | None:
        from redisq_ops.pipeline.lake.lake_export import read_rows
        from redisq_ops.pipeline.report.report import report_columns

        columns = report_columns(name, payloads=self._payloads)
        bounds = span.since, span.until
        return read_rows(self._lake, name, columns, self._names, *bounds, most_rows, most_bytes)


def other_tables(
    tables: ServerTables, recording: Path | None, span: Span, now: int, *, lake: bool
) -> dict[str, pa.Table]:
    """The tables ``tasks``, of a server, and ``samples``, of a recording in the report's time."""
    from redisq_ops.ops.recording.history import queue_samples
    from redisq_ops.pipeline.source.redaction import redact_rows

    found = {}
    if not lake:
        tasks = tables.read("tasks", Span(None, None), MOST_TASKS, MOST_TASK_BYTES)
        if tasks is None:
            raise Refused(f"more than {MOST_TASKS:,} tasks: name the queues")
        found["tasks"] = redact_rows(tasks, tables.s.redaction)
    if recording is not None:
        until = now if span.until is None else span.until
        since = 0 if span.since is None else span.since
        found["samples"] = _samples(list(queue_samples(recording, tables.names, since, until)))
    return found


def _samples(found: Sequence[tuple[int, Mapping[str, Any]]]) -> pa.Table:
    import pyarrow as pa

    from redisq_ops.pipeline.report.figures import SAMPLED

    texts = {
        name: pa.array([row[own] for _, row in found], pa.string())
        for name, own in (("queue", "name"), ("kind", "kind"))
    }
    times = {
        "at": [at_ms for at_ms, _ in found],
        "oldest_at": [row["oldest_ms"] for _, row in found],
    }
    stamps = {name: pa.array(ms, pa.timestamp("ms", "UTC")) for name, ms in times.items()}
    counts = {name: pa.array([row[name] for _, row in found], pa.int64()) for name in SAMPLED}
    return pa.table({**texts, **stamps, **counts})


def show_figures(
    s: Session, figures: Figures, contents: Contents, names: Sequence[str], lake: str | None
) -> None:
    """Write the page, if one is asked for; print the figures, and what was written."""
    if contents.html is not None:
        place = _server_name(s) if lake is None else f"lake {lake}"
        _write_page(contents.html, figures, names, place)
    if s.json:
        report_tables.print_json(figures)
    else:
        report_tables.print_report(s, figures)
    if contents.html is not None:
        say(f"written: {contents.html}")
    if contents.parquet is not None:
        say(f"written: {len(figures.tables)} tables below {contents.parquet}")


def _write_page(html: Path, figures: Figures, names: Sequence[str], place: str) -> None:
    from redisq_ops.ops.private_files import atomic_write
    from redisq_ops.pipeline.report.report_page import page

    title = ", ".join(names[:4]) + (" …" if len(names) > 4 else "") if names else "All queues"
    with atomic_write(html) as file:
        file.write(page(figures, title=title, source=place).encode())


def _server_name(s: Session) -> str:
    """Host and port, without user name and password."""
    parts = urlsplit(s.config.server_address().url)
    host = parts.hostname or parts.path
    return f"{host}:{parts.port}" if parts.port else host
