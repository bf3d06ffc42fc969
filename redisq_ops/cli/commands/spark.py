"""`redisq spark`: the pipeline. Spark is imported, and a JVM started, only where rows are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from ..options import Options, add, argument, flag, option

commands = typer.Typer()
spark = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Read, report on, submit and replay queues with Spark.",
)
commands.add_typer(spark, name="spark")


class QueryCommand(TyperCommand):
    """Accepts a query that begins with ``-- comment``: no option's name has a space."""

    def parse_args(self, context: Any, words: list[str]) -> list[str]:
        def is_comment(word: str) -> bool:
            return word.startswith("--") and len(word.partition("=")[0].split()) > 1

        words = [f" {word}" if is_comment(word) else word for word in words]
        return super().parse_args(context, words)


RUNNING: Options = {
    "master": option("--master", "URL", "Spark master (default: local[*])."),
    "remote": option(
        "--remote", "sc://HOST", "Use a Spark Connect server instead (default: SPARK_REMOTE)."
    ),
    "conf": option("--conf", "NAME=VALUE", "Set a Spark property; repeatable.", list[str]),
    "print_submit": flag("--print-submit", "Print the spark-submit command and exit."),
}
"""options of every command that runs Spark; see `printed` and `started`"""
BETWEEN: Options = {
    "since": option("--since", "AGE|TIME", "Start of the time range: 6h, 03:12 or ISO 8601."),
    "until": option("--until", "AGE|TIME", "End of the time range."),
}
"""the time range of a table that is read; see `bounds`"""
QUEUE: Options = {"queue": option("--queue", "NAME", "Queue to use.")}
PACE: Options = {
    "rate": option("--rate", "N/s", "At most N entries per second, all tasks together."),
    "parts": option(
        "--parts", None, "Number of tasks that write; each is one client.", int, 8, min=1
    ),
}

add(
    spark, "doctor",
    {
        **RUNNING,
        "tasks": option(
            "--tasks", None, "Number of tasks that check; about twice the executors.", int, 8,
            min=1,
        ),
    },
    "spark.doctored",
    help="Check the installation: Java, Python, packages, and that each executor has the same "
    "versions and reaches the server.",
    prints="SparkDoctor",
    examples=(
        "redisq spark doctor",
        "redisq spark doctor --master spark://head:7077 --json",
    ),
)  # fmt: skip

add(
    spark, "schema", {"table": argument("[TABLE]")}, "spark.described",
    help="List the columns of a table, or without one the tables. Does not start Spark.",
    prints="SparkTables SparkColumns",
    examples=("redisq spark schema", "redisq spark schema dead --json"),
)  # fmt: skip

add(
    spark, "sql",
    {
        "query": argument("QUERY"),
        "lake": option("--lake", "DIR", "Read this lake instead of the server.", Path),
        "queue": option("--queue", "NAME", "Only of this queue."),
        **BETWEEN,
        "payloads": flag("--payloads", "Read payloads too."),
        "explain": flag("--explain", "Say what the query reads of each table, and exit."),
        **RUNNING,
    },
    "spark.queried",
    help="Run a SQL query over the tables dead, pending, delayed, waiting, requests, subrequests, "
    "results, counts and history (redisq spark schema).",
    prints="",
    examples=(
        'redisq spark sql "select queue, error_type, count(*) n from dead group by all"',
        'redisq spark sql "select * from history where at > now() - interval 1 hour" --json',
        'redisq spark sql "select event, count(*) n from history group by all" --since 2h',
        'redisq spark sql "select day, count(*) n from history group by day" --lake /lake',
    ),
)  # fmt: skip
spark.registered_commands[-1].cls = QueryCommand

add(
    spark, "serve",
    {
        "master": RUNNING["master"],
        "conf": RUNNING["conf"],
    },
    "spark_serve.served",
    help="Run Spark's own Connect server until Ctrl+C: with its address in SPARK_REMOTE, commands "
    "start no Spark of their own.",
    prints="",
    examples=("redisq spark serve", "redisq spark serve --conf spark.driver.memory=4g"),
)  # fmt: skip
