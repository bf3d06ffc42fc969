"""Looking at all of it: ls, log, history, config, fsck. Nothing here writes."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import MOST, Every, examples, perform

commands = typer.Typer()


@commands.command(epilog=examples("redisq ls", "redisq ls --json", "redisq ls --watch 2s"))
def ls(context: typer.Context, every: Every = None) -> int:
    """List the queues: entries by state, rates, oldest age.

    Rates (in, out) are of the last 60 seconds; the age is of the oldest waiting entry. Exit 3 if a
    queue could not be read; the others are shown.
    """
    return perform(context, "overview.ls", every=every)


Most = Annotated[int, typer.Option("--max", min=1, max=MOST, help="Show the latest N.")]
OneQueue = Annotated[
    str | None,
    typer.Option("--queue", metavar="NAME", help="Only of this queue.", autocompletion=queues),
]
AQueue = typer.Argument(metavar="QUEUE", show_default=False, autocompletion=queues)


@commands.command(epilog=examples("redisq log", "redisq log --queue mail --max 5 --json"))
def log(context: typer.Context, queue: OneQueue = None, max: Most = 50) -> int:
    """List the changes that operators made, newest first."""
    return perform(context, "overview.log", queue, max)


@commands.command(epilog=examples("redisq history mail", "redisq history mail --max 1000 --json"))
def history(
    context: typer.Context,
    queue: Annotated[str, AQueue],
    max: Most = 100,
) -> int:
    """Show the latest events of a queue, oldest first."""
    return perform(context, "overview.history", queue, max)


@commands.command(
    epilog=examples(
        "redisq config", "redisq config --context live --json", "redisq config --contexts"
    )
)
def config(
    context: typer.Context,
    contexts: Annotated[
        bool,
        typer.Option("--contexts", help="List the contexts of the configuration file instead."),
    ] = False,
) -> int:
    """Show every setting and where its value comes from.

    Secrets are never shown.
    """
    return perform(context, "overview.config", contexts)


@commands.command(epilog=examples("redisq fsck", "redisq fsck mail --json"))
def fsck(
    context: typer.Context,
    queue: Annotated[str | None, AQueue] = None,
) -> int:
    """Check the invariants of a queue, or of all queues.

    Exit 1 if one is violated, else 3 if something could not be read. A busy queue changes while it
    is read, so a finding counts only when repeated checks confirm it.
    """
    return perform(context, "overview.fsck", queue)
