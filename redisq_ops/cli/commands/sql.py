"""`redisq sql`: small questions, without Spark."""

import typer

from ..options import command
from ..session import Session
from .spark import Asked, QueryCommand

commands = typer.Typer()


@command(commands, "sql", prints="")
def sql(s: Session, *, asked: Asked) -> int:
    """Run a SQL query over the tables dead, pending, delayed, waiting, requests, subrequests,
    results, counts and history (redisq spark schema), with DuckDB and in this process: up to
    1,000,000 rows. redisq spark sql answers the same queries over any number.

    Examples:
      redisq sql "select queue, error_type, count(*) n from dead group by all order by n desc"
      redisq sql "select * from history where at > now() - interval 1 hour" --json
    """
    from ..actions.sql import queried

    return queried(s, asked)


commands.registered_commands[-1].cls = QueryCommand
