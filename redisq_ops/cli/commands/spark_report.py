"""`redisq spark report | groups | critical-path`: figures of the history and the dead letters."""

from pathlib import Path

from ..completion import queues
from ..options import argument, command, flag, option, options
from ..session import Session
from .spark import READ_LAKE, Running, spark

_QUEUES = argument("[QUEUE]...")


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
    from ..actions.spark_report import reported

    return reported(s, given)


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
    from ..actions.spark_report import grouped

    return grouped(s, given)


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
    from ..actions.spark_report import held_back

    return held_back(s, given)
