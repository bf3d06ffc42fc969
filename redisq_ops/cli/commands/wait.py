"""`redisq wait`: until requests end, or until counts meet a condition."""

from __future__ import annotations

import typer

from ..options import QUEUE, Options, add, argument, option

commands = typer.Typer()
waiting = typer.Typer(
    help="Wait until requests end or counts meet a condition.", no_args_is_help=True
)
commands.add_typer(waiting, name="wait")
_COMMON: Options = {
    "queue": QUEUE,
    "timeout": option(
        "--timeout", "TIME", "Give up after this time (90s, 5m) with exit code 124."
    ),
}  # fmt: skip

add(
    waiting, "request",
    {"requests": argument("ID…", list[str], "Requests, by id or as QUEUE/REQUEST."), **_COMMON},
    "wait.wait_request",
    help="""Wait for requests to end, also across a restart of the server.

    Exit 0: all are done. 3: some have dead entries. 1: one was cancelled. 124: timed out.
    """,
    prints="Request",
    examples=("redisq wait request mail/r1 --timeout 5m", "redisq wait request r1 r2 r3 --json"),
)  # fmt: skip

add(
    waiting, "when",
    {
        "expression": argument("EXPR", str, "Condition: 'waiting=0', 'dead>0 or waiting>=1000'."),
        **_COMMON,
    },
    "wait.wait_when",
    help="""Wait until a queue's counts meet a condition, also across a restart of the server.

    Checks five times a second. EXPR is an expression of the filter language whose fields are the
    counts: waiting, pending, delayed, dead, trash and done.
    """,
    prints="Condition",
    examples=(
        "redisq wait when 'waiting=0 pending=0' --queue mail",
        "redisq wait when 'dead>0' --timeout 1h",
    ),
)  # fmt: skip
