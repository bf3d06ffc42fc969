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
        str | None,
        typer.Argument(metavar="MODULE:FUNCTION", help="Function to call with each delivery."),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(
            "--exec", metavar="CMD", help="Program to run for each delivery, without a shell."
        ),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue",
            metavar="NAME",
            help="Queue to work on; repeatable: queues take turns.",
            autocompletion=queues,
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="Handlers that run at once.")] = 1,
    processes: Annotated[int, typer.Option(help="Worker processes.")] = 1,
    batch: Annotated[int, typer.Option(help="Entries that each handler takes at once.")] = 1,
    lease: Annotated[
        str, typer.Option(metavar="TIME", help="Lease of a delivery; renewed while a handler runs.")
    ] = "30s",
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="Time for running handlers to finish on stop.")
    ] = "25s",
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Fail an entry that takes longer.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", "--burst", help="Exit when no entry is left to take.")
    ] = False,
    consumer: Annotated[
        str | None, typer.Option(help="Consumer name; default: host and process.")
    ] = None,
    ping: Annotated[int | None, typer.Option(help="Port of the liveness check (/healthz).")] = None,
) -> int:
    """Run a handler for every entry of a queue, until stopped (Ctrl+C or SIGTERM).

    A program gets the payload on stdin; its output is the result. Exit code 0 means done, 100 dead
    at once, any other failed, with the end of its stderr. If a queue does not exist yet, the worker
    waits for it; it does not create it.

    --once exits when all queues are empty, or have only entries that are delayed, paused or held by
    other workers; it prints how many.
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
