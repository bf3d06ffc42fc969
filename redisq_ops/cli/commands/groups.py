"""`redisq dlq groups` and `redisq dlq group`: dead letters by what went wrong."""

from __future__ import annotations

import typer

from ..options import SELECTING, argument, command, examples


def add_to(dlq: typer.Typer) -> None:
    """Add `groups` and `group`."""
    dlq.command(
        "groups",
        help="Dead letters by what went wrong: the same error but for numbers, ids, addresses and "
        "paths is one group.",
        epilog=examples(
            "redisq dlq groups mail", "redisq dlq groups --queue mail --where 'age<1h' --json"
        ),
    )(command(SELECTING, "groups.grouped"))
    dlq.command(
        "group",
        help="One group of dead letters: what its entries have in common and others have not, the "
        "latest of them, and the commands that replay or purge just these.",
        epilog=examples("redisq dlq group mail 1f6c0a52", "redisq dlq group mail 1f6c0a52 --json"),
    )(command({"queue": argument("QUEUE"), "group": argument("GROUP")}, "groups.looked_into"))
