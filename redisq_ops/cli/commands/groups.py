"""`redisq dlq groups` and `redisq dlq group`: dead letters by what went wrong."""

from __future__ import annotations

import typer

from ..options import LOOKING, SELECTING, argument, command, examples


def add_to(dlq: typer.Typer) -> None:
    """Add `groups` and `group`."""
    dlq.command(
        "groups",
        help="Group dead letters by error. Errors that differ only in numbers, ids, "
        "addresses and paths are one group.",
        epilog=examples(
            "redisq dlq groups mail", "redisq dlq groups --queue mail --where 'age<1h' --json"
        ),
    )(command({**SELECTING, **LOOKING}, "groups.grouped"))
    dlq.command(
        "group",
        help="Show one group of dead letters: what its entries have in common and "
        "others have not, its latest entries, and the commands that replay or "
        "purge exactly this group.",
        epilog=examples("redisq dlq group mail 1f6c0a52", "redisq dlq group mail 1f6c0a52 --json"),
    )(command({"queue": argument("QUEUE"), "group": argument("GROUP")}, "groups.looked_into"))
