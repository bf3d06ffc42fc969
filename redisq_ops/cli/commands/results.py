"""`redisq results`: what a request's handlers returned."""

from __future__ import annotations

import typer

from ..options import QUEUE, add, argument, flag

commands = typer.Typer()

add(
    commands, "results",
    {
        "request": argument("ID", help="Request, by id or as QUEUE/REQUEST."),
        "queue": QUEUE,
        "raw": flag("--raw", "Print the bytes of each result and a line feed, not JSON."),
    },
    "results.results",
    help="""Print the results of a request in order, a JSON object per sub-request.

    Each has n and state, then result (text), result_b64 (other bytes) or, if dead, error; result is
    null where there is none. --raw omits sub-requests without a result; on a terminal it escapes
    control characters.
    """,
    prints="Result",
    examples=("redisq results mail/r1", "redisq results r1 --raw"),
)  # fmt: skip
