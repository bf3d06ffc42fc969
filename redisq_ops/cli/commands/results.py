"""`redisq results`: what a request's handlers returned."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import OneQueue, examples, perform

commands = typer.Typer()


@commands.command(epilog=examples("redisq results mail/r1", "redisq results r1 --raw"))
def results(
    context: typer.Context,
    request: Annotated[
        str, typer.Argument(metavar="ID", help="Request, by id or as QUEUE/REQUEST.")
    ],
    queue: OneQueue = None,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Print the bytes of each result and a line feed, not JSON."),
    ] = False,
) -> int:
    """Print the results of a request in order, a JSON object per sub-request.

    Each has n and state, then result (text), result_b64 (other bytes) or, if dead, error; result is
    null where there is none. --raw omits sub-requests without a result; on a terminal it escapes
    control characters.
    """
    return perform(context, "results.results", request, queue, raw)
