"""`redisq spark replay | requeue`: what SQL or an error group chooses, by many tasks."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, Options, command, examples, flag
from .spark import (
    BETWEEN,
    PACE,
    QUEUE,
    RUNNING,
    spark,
)

_GROUP = typer.Option("--group", metavar="FINGERPRINT", help="An error group; repeatable.")
_WHERE = typer.Option("--where", metavar="SQL", help="\"attempts > 3 and error like '%timeout%'\".")
_FOLDER = typer.Option("--plan", metavar="DIR", help="Keep the plan there; again, it goes on.")
_STATE = typer.Option("--state", metavar="STATE", help="pending or delayed.")
CHOOSING: Options = {
    **QUEUE,
    "group": (Annotated[list[str] | None, _GROUP], None),
    "where": (Annotated[str | None, _WHERE], None),
    "all": flag("--all", "All of them."),
    **BETWEEN,
    "payloads": flag("--payloads", "Read payloads too, for --where."),
    **PACE,
    "plan": (Annotated[str | None, _FOLDER], None),
    **GO,
    **RUNNING,
}

spark.command(
    "replay",
    help="Make dead entries wait for a worker again, chosen by SQL or by their error, carried out "
    "by many tasks as one operation a queue. redisq undo takes it back.",
    epilog=examples(
        "redisq spark replay --group 3f2a91c0 --rate 500/s --dry-run",
        "redisq spark replay --queue mail --where \"error_type = 'TimeoutError'\" --yes",
        "redisq spark replay --all --since 6h --plan /shared/replay --rate 2000/s --yes",
    ),
)(command(CHOOSING, "spark_replay.replayed", "replay"))

spark.command(
    "requeue",
    help="Make pending or delayed entries wait for a worker now, as replay does with dead ones.",
    epilog=examples(
        "redisq spark requeue --queue mail --where 'lost > 1' --dry-run",
        "redisq spark requeue --state delayed --where \"error like '%429%'\" --rate 100/s --yes",
    ),
)(
    command(
        {**CHOOSING, "state": (Annotated[str | None, _STATE], None)},
        "spark_replay.replayed",
        "requeue",
    )
)
