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

_GROUP = typer.Option("--group", metavar="FINGERPRINT", help="Only this error group; repeatable.")
_WHERE = typer.Option("--where", metavar="SQL", help="\"attempts > 3 and error like '%timeout%'\".")
_FOLDER = typer.Option("--plan", metavar="DIR", help="Keep the plan in DIR; run again to continue.")
_STATE = typer.Option("--state", metavar="STATE", help="State to act on: pending or delayed.")
CHOOSING: Options = {
    **QUEUE,
    "group": (Annotated[list[str] | None, _GROUP], None),
    "where": (Annotated[str | None, _WHERE], None),
    "all": flag("--all", "Choose all entries."),
    **BETWEEN,
    "payloads": flag("--payloads", "Read payloads too, for --where."),
    **PACE,
    "plan": (Annotated[str | None, _FOLDER], None),
    **GO,
    **RUNNING,
}

spark.command(
    "replay",
    help="Move dead entries, chosen by SQL or by their error, back to waiting, "
    "with many tasks. Each queue has one operation, which redisq undo "
    "undoes.",
    epilog=examples(
        "redisq spark replay --group 3f2a91c0 --rate 500/s --dry-run",
        "redisq spark replay --queue mail --where \"error_type = 'TimeoutError'\" --yes",
        "redisq spark replay --all --since 6h --plan /shared/replay --rate 2000/s --yes",
    ),
)(command(CHOOSING, "spark_replay.replayed", "replay"))

spark.command(
    "requeue",
    help="Move pending or delayed entries back to waiting, as replay does with dead entries.",
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
