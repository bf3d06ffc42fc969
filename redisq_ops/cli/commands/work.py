"""`redisq work`: run a handler, or a program, for every entry."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import examples, perform

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "redisq work jobs:handle --queue mail --concurrency 8",
        "redisq work --exec './convert --to pdf' --timeout 60s --processes 2",
        "redisq work jobs:handle --once",
    )
)
def work(
    context: typer.Context,
    handler: Annotated[
        str | None, typer.Argument(metavar="MODULE:FUNCTION", help="Called with each delivery.")
    ] = None,
    program: Annotated[
        str | None,
        typer.Option("--exec", metavar="CMD", help="A program to run instead, without a shell."),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", metavar="NAME", help="Several: in turn.", autocompletion=queues),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Handlers at a time.")] = 1,
    processes: Annotated[int, typer.Option(help="Worker processes.")] = 1,
    batch: Annotated[int, typer.Option(help="Entries taken at once, per handler.")] = 1,
    lease: Annotated[str, typer.Option(metavar="TIME", help="Renewed while working.")] = "30s",
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="For what is running when asked to stop.")
    ] = "25s",
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="An entry that takes longer has failed.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", "--burst", help="End when nothing is left to take.")
    ] = False,
    consumer: Annotated[str | None, typer.Option(help="Its name, else host and process.")] = None,
    ping: Annotated[int | None, typer.Option(help="Port for a monitor and /healthz.")] = None,
) -> int:
    """Run a handler for every entry of a queue, until stopped (Ctrl+C or SIGTERM).

    A program gets the payload on stdin; what it writes is the result. Exit 0 is done, 100 dead at
    once, anything else a failure with the end of its stderr. A queue that doesn't exist yet is
    waited for; working on it doesn't create it.

    --once ends when all queues are empty, or have only what is delayed, paused, or with other
    workers; it says how much of that there is.
    """
    return perform(
        context,
        "work.work",
        handler,
        program,
        queue,
        concurrency,
        processes,
        batch,
        lease,
        grace,
        timeout,
        once,
        consumer,
        ping,
    )
