"""`redisq spark report | groups | critical-path`: what the history and the dead letters say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..completion import queues
from ..options import Options, argument, command, examples, flag
from .spark import RUNNING, spark

_LAKE = typer.Option("--lake", metavar="DIR", help="Read this lake instead of the server.")
_SINCE = typer.Option(
    "--since", metavar="AGE|TIME", help="Start: 6h, 03:12 or ISO 8601; default: 24h."
)
_UNTIL = typer.Option("--until", metavar="AGE|TIME", help="End; default: now.")
_QUEUES = typer.Argument(metavar="[QUEUE]...", show_default=False, autocompletion=queues)
_CLIENT = typer.Option(
    "--client", metavar="REGEX", help="Find the client in a request id: '^(\\w+)-'."
)
FROM: Options = {
    "lake": (Annotated[Path | None, _LAKE], None),
    "since": (Annotated[str | None, _SINCE], None),
    "until": (Annotated[str | None, _UNTIL], None),
}
WHOSE: Options = {"queues": (Annotated[list[str] | None, _QUEUES], None)}

spark.command(
    "report",
    help="Report latency, throughput, retries, anomalies, dead-letter groups, "
    "fairness and the slowest requests, from the history and dead letters "
    "of the server or a lake: as tables, an HTML page or Parquet. The "
    "queue's setting `history` decides how much the history has.",
    epilog=examples(
        "redisq spark report mail --html report.html",
        "redisq spark report --since 6h --until 2h --parquet tables/",
        "redisq spark report --lake /data/queues --since 30d --html month.html --json",
    ),
)(
    command(
        {
            **WHOSE,
            **FROM,
            "html": (
                Annotated[
                    Path | None,
                    typer.Option(
                        "--html", metavar="FILE", help="Write one HTML page for all queues."
                    ),
                ],
                None,
            ),
            "parquet": (
                Annotated[
                    Path | None,
                    typer.Option(
                        "--parquet", metavar="DIR", help="Write each table to a folder below DIR."
                    ),
                ],
                None,
            ),
            "client": (Annotated[str | None, _CLIENT], None),
            "payloads": flag("--payloads", "Read payloads of dead letters too."),
            **RUNNING,
        },
        "spark_report.reported",
    )
)

spark.command(
    "groups",
    help="Group all dead letters by error, and show what each group has in "
    "common that others have not. The group names are those of redisq dlq "
    "groups.",
    epilog=examples(
        "redisq spark groups mail", "redisq spark groups --lake /data/queues --payloads --json"
    ),
)(
    command(
        {
            **WHOSE,
            **FROM,
            "payloads": flag("--payloads", "Read all payloads too."),
            **RUNNING,
        },
        "spark_report.grouped",
    )
)

spark.command(
    "critical-path",
    help="Show which sub-requests held a request back: the path from its end "
    "back to its submission, and what each delivery on it waited for, and "
    "how long.",
    epilog=examples(
        "redisq spark critical-path mail/today",
        "redisq spark critical-path today --queue mail --lake /data/queues --json",
    ),
)(
    command(
        {
            "request": argument("REQUEST", help="Request, by id or as QUEUE/REQUEST."),
            "queue": (
                Annotated[
                    str | None,
                    typer.Option(
                        "--queue", metavar="NAME", help="Queue to use.", autocompletion=queues
                    ),
                ],
                None,
            ),
            **FROM,
            **RUNNING,
        },
        "spark_report.held_back",
    )
)
