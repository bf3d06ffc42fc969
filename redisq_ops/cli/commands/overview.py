"""Looking at all of it: ls, log, history, config, fsck. Nothing here writes."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import MOST, examples, perform

commands = typer.Typer()


@commands.command(epilog=examples("redisq ls", "redisq ls --json"))
def ls(context: typer.Context) -> int:
    """The queues: entries by state, rates, oldest age.

    Rates (in, out) are of the last sixty seconds; the age is of what waits longest. Exit 3 if a
    queue could not be read; the others are shown.
    """
    return perform(context, "overview.ls")


Most = Annotated[
    int, typer.Option("--max", min=1, max=MOST, help="Show at most so many, the latest.")
]
OneQueue = Annotated[
    str | None,
    typer.Option("--queue", metavar="NAME", help="Of one queue.", autocompletion=queues),
]
AQueue = typer.Argument(metavar="QUEUE", show_default=False, autocompletion=queues)


@commands.command(epilog=examples("redisq log", "redisq log --queue mail --max 5 --json"))
def log(context: typer.Context, queue: OneQueue = None, max: Most = 50) -> int:
    """What operators changed, newest first."""
    return perform(context, "overview.log", queue, max)


@commands.command(epilog=examples("redisq history mail", "redisq history mail --max 1000 --json"))
def history(
    context: typer.Context,
    queue: Annotated[str, AQueue],
    max: Most = 100,
) -> int:
    """What happened in a queue, oldest of the latest first."""
    return perform(context, "overview.history", queue, max)


@commands.command(
    epilog=examples(
        "redisq config", "redisq config --context live --json", "redisq config --contexts"
    )
)
def config(
    context: typer.Context,
    contexts: Annotated[
        bool, typer.Option("--contexts", help="The contexts of the configuration file instead.")
    ] = False,
) -> int:
    """Every setting and where it comes from.

    Secrets are never shown.
    """
    return perform(context, "overview.config", contexts)


@commands.command(epilog=examples("redisq fsck", "redisq fsck mail --json"))
def fsck(
    context: typer.Context,
    queue: Annotated[str | None, AQueue] = None,
) -> int:
    """Check that everything in a queue, or in all, adds up.

    Exit 1 if something doesn't, else 3 if some couldn't be read. A queue at work changes while it
    is read, so a finding counts when every look sees it again.
    """
    return perform(context, "overview.fsck", queue)
