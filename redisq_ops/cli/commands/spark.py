"""`redisq spark`: the pipeline. Spark is imported, and a JVM started, only where rows are read."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import Options, argument, command, examples

commands = typer.Typer()
spark = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Queues' tables on Spark: read, report, more."
)

commands.add_typer(spark, name="spark")

RUNNING: Options = {
    "master": (
        Annotated[
            str | None,
            typer.Option("--master", metavar="URL", help="Spark's master; this machine, else."),
        ],
        None,
    ),
    "remote": (
        Annotated[
            str | None,
            typer.Option("--remote", metavar="sc://HOST", help="A Spark Connect server instead."),
        ],
        None,
    ),
    "conf": (
        Annotated[
            list[str] | None,
            typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; repeatable."),
        ],
        None,
    ),
    "print_submit": (
        Annotated[
            bool,
            typer.Option("--print-submit", help="Only show the spark-submit line for this."),
        ],
        False,
    ),
}
"""what every command that runs Spark takes; see `printed` and `started`"""
_SINCE = typer.Option("--since", metavar="AGE|TIME", help="6h, 03:12 or ISO 8601.")
_UNTIL = typer.Option("--until", metavar="AGE|TIME", help="Up to then.")
BETWEEN: Options = {
    "since": (Annotated[str | None, _SINCE], None),
    "until": (Annotated[str | None, _UNTIL], None),
}
"""the range of time a table is read of; see `bounds`"""

_PARTS = typer.Option("--parts", min=1, help="Tasks that write; each is one client.")
_RATE = typer.Option("--rate", metavar="N/s", help="Not faster than this, all tasks together.")
_QUEUE = typer.Option("--queue", metavar="NAME", help="The queue.")
QUEUE: Options = {"queue": (Annotated[str | None, _QUEUE], None)}
PACE: Options = {
    "rate": (Annotated[str | None, _RATE], None),
    "parts": (Annotated[int, _PARTS], 8),
}

spark.command(
    "doctor",
    help="Whether everything is there: Java, Python, packages, and that each executor runs the "
    "same and reaches the server.",
    epilog=examples("redisq spark doctor", "redisq spark doctor --master spark://head:7077 --json"),
)(
    command(
        {
            **RUNNING,
            "tasks": (
                Annotated[
                    int, typer.Option("--tasks", min=1, help="Tasks to look from; executors × 2.")
                ],
                8,
            ),
        },
        "spark.doctored",
    )
)

spark.command(
    "schema",
    help="The columns of a table; without one, the tables. Starts no Spark.",
    epilog=examples("redisq spark schema", "redisq spark schema dead --json"),
)(
    command(
        {"table": (Annotated[str | None, typer.Argument(metavar="[TABLE]")], None)},
        "spark.described",
    )
)

spark.command(
    "sql",
    help="A query over the tables dead, pending, delayed, waiting, requests, subrequests, results "
    "and history (redisq spark schema).",
    epilog=examples(
        'redisq spark sql "select queue, error_type, count(*) n from dead group by all"',
        'redisq spark sql "select * from history where at > now() - interval 1 hour" --json',
        'redisq spark sql "select event, count(*) n from history group by all" --since 2h',
    ),
)(
    command(
        {
            "query": argument("QUERY"),
            "queue": (
                Annotated[
                    str | None,
                    typer.Option("--queue", metavar="NAME", help="Only of this queue."),
                ],
                None,
            ),
            **BETWEEN,
            "payloads": (
                Annotated[bool, typer.Option("--payloads", help="Read payloads too.")],
                False,
            ),
            **RUNNING,
        },
        "spark.queried",
    )
)
