"""`redisq wait`: until requests end, or until counts are so."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import OneQueue, examples, perform

commands = typer.Typer()
Timeout = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Give up after this time (90s, 5m) with exit code 124."),
]
waiting = typer.Typer(
    help="Wait until requests end or counts meet a condition.", no_args_is_help=True
)

commands.add_typer(waiting, name="wait")


@waiting.command(
    "request",
    epilog=examples(
        "redisq wait request mail/r1 --timeout 5m", "redisq wait request r1 r2 r3 --json"
    ),
)
def wait_request(
    context: typer.Context,
    requests: Annotated[
        list[str], typer.Argument(metavar="ID…", help="Requests, by id or as QUEUE/REQUEST.")
    ],
    queue: OneQueue = None,
    timeout: Timeout = None,
) -> int:
    """Wait for requests to end, also across a restart of the server.

    Exit 0: all are done. 3: some have dead entries. 1: one was cancelled. 124: timed out.
    """
    return perform(context, "wait.wait_request", requests, queue, timeout)


@waiting.command(
    "when",
    epilog=examples(
        "redisq wait when 'waiting==0 and pending==0' --queue mail",
        "redisq wait when 'dead>0' --timeout 1h",
    ),
)
def wait_when(
    context: typer.Context,
    expression: Annotated[
        str,
        typer.Argument(metavar="EXPR", help="Condition: 'waiting==0', 'dead>0 or waiting>=1000'."),
    ],
    queue: OneQueue = None,
    timeout: Timeout = None,
) -> int:
    """Wait until a queue's counts meet a condition, also across a restart of the server.

    Checks five times a second. Counts are waiting, pending, delayed, dead, trash and done; compare
    with < <= == != >= >; combine with and, or and parentheses.
    """
    return perform(context, "wait.wait_when", expression, queue, timeout)
