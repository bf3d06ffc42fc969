"""`redisq dlq groups` and `redisq dlq group`: dead letters by error."""

from __future__ import annotations

import typer

from ..options import SELECTING, WATCHING, add, argument


def add_to(dlq: typer.Typer) -> None:
    """Add `groups` and `group`."""
    add(
        dlq, "groups", {**SELECTING, **WATCHING}, "groups.grouped",
        help="Group dead letters by error. Errors that differ only in numbers, ids, addresses and "
        "paths are one group.",
        prints="ErrorGroup",
        examples=(
            "redisq dlq groups mail", "redisq dlq groups --queue mail --where 'age<1h' --json"
        ),
    )  # fmt: skip
    add(
        dlq, "group", {"queue": argument("QUEUE"), "group": argument("GROUP")},
        "groups.compared",
        help="Show one group of dead letters: what its entries have in common and others have not, "
        "its latest entries, and the commands that replay or purge exactly this group.",
        prints="ErrorGroupDetails",
        examples=("redisq dlq group mail 1f6c0a52", "redisq dlq group mail 1f6c0a52 --json"),
    )  # fmt: skip
