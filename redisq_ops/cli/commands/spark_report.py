"""`redisq spark report | groups | critical-path`: figures of the history and the dead letters."""

from __future__ import annotations

from pathlib import Path

from ..completion import queues
from ..options import Options, add, argument, flag, option
from .spark import RUNNING, spark

FROM: Options = {
    "lake": option("--lake", "DIR", "Read this lake instead of the server.", Path),
    "since": option("--since", "AGE|TIME", "Start: 6h, 03:12 or ISO 8601; default: 24h."),
    "until": option("--until", "AGE|TIME", "End; default: now."),
}
WHOSE: Options = {"queues": argument("[QUEUE]...", list[str])}

add(
    spark, "report",
    {
        **WHOSE,
        **FROM,
        "against": option(
            "--against", "AGE|TIME|yesterday",
            "Compare with the same length of time so much earlier, or from TIME.",
        ),
        "html": option("--html", "FILE", "Write one HTML page for all queues.", Path),
        "parquet": option("--parquet", "DIR", "Write each table to a folder below DIR.", Path),
        "client": option("--client", "REGEX", "Find the client in a request id: '^(\\w+)-'."),
        "payloads": flag("--payloads", "Read payloads of dead letters too."),
        **RUNNING,
    },
    "spark_report.reported",
    help="Report latency, throughput, backlog, workers, retries, anomalies, dead-letter groups, "
    "fairness, operators' changes and the slowest requests, from the history and dead letters of "
    "the server or a lake: as tables, an HTML page or Parquet. The "
    "queue's setting `history` decides how much the history has.",
    prints=(
        "SparkReport SparkReportLatency SparkReportThroughput SparkReportWorkers "
        "SparkReportChanges SparkReportRetries SparkReportAnomalies SparkReportDeadGroups "
        "SparkReportContrasts "
        "SparkReportFairness SparkReportRequests SparkReportCriticalPaths "
        "SparkReportComparison"
    ),
    examples=(
        "redisq spark report mail --html report.html",
        "redisq spark report --since 6h --until 2h --parquet tables/",
        "redisq spark report --since 12:00 --until 16:00 --against yesterday --html incident.html",
        "redisq spark report --lake /data/queues --since 30d --html month.html --json",
    ),
)  # fmt: skip

add(
    spark, "groups",
    {**WHOSE, **FROM, "payloads": flag("--payloads", "Read all payloads too."), **RUNNING},
    "spark_report.grouped",
    help="Group all dead letters by error, and show what each group has in common that others have "
    "not. The group names are those of redisq dlq groups.",
    prints="SparkErrorGroup",
    examples=(
        "redisq spark groups mail", "redisq spark groups --lake /data/queues --payloads --json"
    ),
)  # fmt: skip

add(
    spark, "critical-path",
    {
        "request": argument("REQUEST", help="Request, by id or as QUEUE/REQUEST."),
        "queue": option("--queue", "NAME", "Queue to use.", autocompletion=queues),
        **FROM,
        **RUNNING,
    },
    "spark_report.held_back",
    help="Show which sub-requests held a request back: the path from its end back to its "
    "submission, and what each delivery on it waited for, and how long.",
    prints="SparkCriticalPath",
    examples=(
        "redisq spark critical-path mail/today",
        "redisq spark critical-path today --queue mail --lake /data/queues --json",
    ),
)  # fmt: skip
