"""`redisq spark`: the pipeline. Spark is imported, and a JVM started, only where rows are read."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import Options, argument, command, examples

commands = typer.Typer()
spark = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Read, report on, submit and replay queues with Spark.",
)

commands.add_typer(spark, name="spark")

RUNNING: Options = {
    "master": (
        Annotated[
            str | None,
            typer.Option("--master", metavar="URL", help="Spark master (default: local[*])."),
        ],
        None,
    ),
    "remote": (
        Annotated[
            str | None,
            typer.Option(
                "--remote", metavar="sc://HOST", help="Use a Spark Connect server instead."
            ),
        ],
        None,
    ),
    "conf": (
        Annotated[
            list[str] | None,
            typer.Option("--conf", metavar="NAME=VALUE", help="Set a Spark property; repeatable."),
        ],
        None,
    ),
    "print_submit": (
        Annotated[
            bool,
            typer.Option("--print-submit", help="Print the spark-submit command and exit."),
        ],
        False,
    ),
}
"""what every command that runs Spark takes; see `printed` and `started`"""
_SINCE = typer.Option(
    "--since", metavar="AGE|TIME", help="Start of the time range: 6h, 03:12 or ISO 8601."
)
_UNTIL = typer.Option("--until", metavar="AGE|TIME", help="End of the time range.")
BETWEEN: Options = {
    "since": (Annotated[str | None, _SINCE], None),
    "until": (Annotated[str | None, _UNTIL], None),
}
"""the range of time a table is read of; see `bounds`"""

_PARTS = typer.Option("--parts", min=1, help="Number of tasks that write; each is one client.")
_RATE = typer.Option(
    "--rate", metavar="N/s", help="At most N entries per second, all tasks together."
)
_QUEUE = typer.Option("--queue", metavar="NAME", help="Queue to use.")
QUEUE: Options = {"queue": (Annotated[str | None, _QUEUE], None)}
PACE: Options = {
    "rate": (Annotated[str | None, _RATE], None),
    "parts": (Annotated[int, _PARTS], 8),
}

spark.command(
    "doctor",
    help="Check the installation: Java, Python, packages, and that each executor"
    " has the same versions and reaches the server.",
    epilog=examples("redisq spark doctor", "redisq spark doctor --master spark://head:7077 --json"),
)(
    command(
        {
            **RUNNING,
            "tasks": (
                Annotated[
                    int,
                    typer.Option(
                        "--tasks",
                        min=1,
                        help="Number of tasks that check; about twice the executors.",
                    ),
                ],
                8,
            ),
        },
        "spark.doctored",
    )
)

spark.command(
    "schema",
    help="List the columns of a table, or without one the tables. Does not start Spark.",
    epilog=examples("redisq spark schema", "redisq spark schema dead --json"),
)(
    command(
        {"table": (Annotated[str | None, typer.Argument(metavar="[TABLE]")], None)},
        "spark.described",
    )
)

spark.command(
    "sql",
    help="Run a SQL query over the tables dead, pending, delayed, waiting, "
    "requests, subrequests, results and history (redisq spark schema).",
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
