"""`redisq results`: what a request's handlers returned."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import OneQueue, examples, perform

commands = typer.Typer()


@commands.command(epilog=examples("redisq results mail/r1", "redisq results r1 --raw"))
def results(
    context: typer.Context,
    request: Annotated[str, typer.Argument(metavar="ID", help="An id, or QUEUE/REQUEST.")],
    queue: OneQueue = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The bytes of each result and a line feed, no JSON.")
    ] = False,
) -> int:
    """The results of a request in order, a JSON object per sub-request.

    It has n and state, then result (text), result_b64 (other bytes) or, where dead, error; result
    is null where there is none. --raw leaves those out; a terminal gets them escaped, as it would
    act on their bytes.
    """
    return perform(context, "results.results", request, queue, raw)
