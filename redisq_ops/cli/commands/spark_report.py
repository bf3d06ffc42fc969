"""`redisq spark report | groups | critical-path`: what the history and the dead letters say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..completion import queues
from ..options import Options, argument, command, examples, flag
from .spark import RUNNING, spark

_LAKE = typer.Option("--lake", metavar="DIR", help="Read this lake, not the server.")
_SINCE = typer.Option("--since", metavar="AGE|TIME", help="6h, 03:12 or ISO 8601; else 24 h.")
_UNTIL = typer.Option("--until", metavar="AGE|TIME", help="Up to then; else now.")
_QUEUES = typer.Argument(metavar="[QUEUE]...", show_default=False, autocompletion=queues)
_CLIENT = typer.Option("--client", metavar="REGEX", help="Finds the client in an id: '^(\\w+)-'.")
FROM: Options = {
    "lake": (Annotated[Path | None, _LAKE], None),
    "since": (Annotated[str | None, _SINCE], None),
    "until": (Annotated[str | None, _UNTIL], None),
}
WHOSE: Options = {"queues": (Annotated[list[str] | None, _QUEUES], None)}

spark.command(
    "report",
    help="Latency, throughput, retries, what is unusual, dead-letter groups, fairness and the "
    "slowest requests, from the history and the dead letters of the server or a lake: as tables, "
    "as one HTML page, as Parquet. How much the history knows is the queue's setting `history`.",
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
                    Path | None, typer.Option("--html", metavar="FILE", help="The page, for all.")
                ],
                None,
            ),
            "parquet": (
                Annotated[
                    Path | None,
                    typer.Option("--parquet", metavar="DIR", help="Each table below this folder."),
                ],
                None,
            ),
            "client": (Annotated[str | None, _CLIENT], None),
            "payloads": flag("--payloads", "Look into dead letters' payloads too."),
            **RUNNING,
        },
        "spark_report.reported",
    )
)

spark.command(
    "groups",
    help="Dead letters by what went wrong, however many they are, and what each group has in "
    "common that others have not; groups are named as redisq dlq groups names them.",
    epilog=examples(
        "redisq spark groups mail", "redisq spark groups --lake /data/queues --payloads --json"
    ),
)(
    command(
        {
            **WHOSE,
            **FROM,
            "payloads": flag("--payloads", "Look into payloads, all of them."),
            **RUNNING,
        },
        "spark_report.grouped",
    )
)

spark.command(
    "critical-path",
    help="Which sub-requests held a request back: from its last end the one way back to its "
    "submission, what each delivery on it waited for, and how long.",
    epilog=examples(
        "redisq spark critical-path mail/today",
        "redisq spark critical-path today --queue mail --lake /data/queues --json",
    ),
)(
    command(
        {
            "request": argument("REQUEST", help="QUEUE/REQUEST, or its id."),
            "queue": (
                Annotated[
                    str | None,
                    typer.Option(
                        "--queue", metavar="NAME", help="The queue.", autocompletion=queues
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
