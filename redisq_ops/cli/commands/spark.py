"""`redisq spark`: the pipeline. Spark is imported, and a JVM started, only where rows are read."""

from typing import Any

import typer
from typer.core import TyperCommand

from ..options import argument, command, flag, option, options
from ..session import Session

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


@options
class Running:
    """Where Spark runs; see `printed` and `started`."""

    master: str | None = option("--master", "URL", "Spark master (default: local[*]).")
    remote: str | None = option(
        "--remote", "sc://HOST", "Use a Spark Connect server instead (default: SPARK_REMOTE)."
    )
    conf: list[str] | None = option("--conf", "NAME=VALUE", "Set a Spark property; repeatable.")
    print_submit: bool = flag("--print-submit", "Print the spark-submit command and exit.")


@options
class Between:
    """The time range of a table that is read; see `bounds`."""

    since: str | None = option(
        "--since", "AGE|TIME", "Start of the time range: 6h, 03:12 or ISO 8601."
    )
    until: str | None = option("--until", "AGE|TIME", "End of the time range.")


@options
class Pace:
    """How fast entries are written, and by how many tasks."""

    rate: str | None = option("--rate", "N/s", "At most N entries per second, all tasks together.")
    parts: int = option(
        "--parts", None, "Number of tasks that write; each is one client.", min=1, default=8
    )


SPARK_QUEUE = option("--queue", "NAME", "Queue to use.")
READ_LAKE = option("--lake", "LAKE", "Read this lake instead of the server.")


@command(spark, "doctor", prints="SparkDoctor")
def doctor(
    s: Session,
    *,
    running: Running,
    tasks: int = option(
        "--tasks", None, "Number of tasks that check; about twice the executors.", min=1, default=8
    ),
) -> int:
    """Check the installation: Java, Python, packages, and that each executor has the same versions
    and reaches the server.

    Examples:
      redisq spark doctor
      redisq spark doctor --master spark://head:7077 --json
    """
    from ..actions.spark import doctored

    return doctored(s, running, tasks)


@command(spark, "schema", prints="SparkTables SparkColumns")
def schema(s: Session, *, table: str | None = argument("[TABLE]")) -> int:
    """List the columns of a table, or without one the tables. Does not start Spark.

    Examples:
      redisq spark schema
      redisq spark schema dead --json
    """
    from ..actions.spark import described

    return described(s, table)


@options
class SqlOptions:
    query: str = argument("QUERY")
    lake: str | None = READ_LAKE
    queue: str | None = option("--queue", "NAME", "Only of this queue.")
    between: Between
    payloads: bool = flag("--payloads", "Read payloads too.")
    explain: bool = flag("--explain", "Say what the query reads of each table, and exit.")
    running: Running


@command(spark, "sql", prints="")
def sql(s: Session, given: SqlOptions) -> int:
    """Run a SQL query over the tables dead, pending, delayed, waiting, requests, subrequests,
    results, counts and history (redisq spark schema).

    Examples:
      redisq spark sql "select queue, error_type, count(*) n from dead group by all"
      redisq spark sql "select * from history where at > now() - interval 1 hour" --json
      redisq spark sql "select event, count(*) n from history group by all" --since 2h
      redisq spark sql "select day, count(*) n from history group by day" --lake /lake
    """
    from ..actions.spark import queried

    return queried(s, given)


spark.registered_commands[-1].cls = QueryCommand


@command(spark, "serve", prints="", fixed={"remote": None, "print_submit": False})
def serve(s: Session, *, running: Running) -> int:
    """Run Spark's own Connect server until Ctrl+C: with its address in SPARK_REMOTE, commands start
    no Spark of their own.

    Examples:
      redisq spark serve
      redisq spark serve --conf spark.driver.memory=4g
    """
    from ..actions.spark_serve import served

    return served(s, running)
