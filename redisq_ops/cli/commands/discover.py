"""`redisq discover` and `redisq forget`: other programs' queues, found, noted, left alone again."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, MOST, argument, command, examples, flag

commands = typer.Typer()
_MATCH = typer.Option("--match", metavar="PATTERN", help="Only keys of this pattern (? * [a-c]).")
_RATE = typer.Option("--rate", metavar="N/s", help="Look at so many keys a second at most.")
_MAX = typer.Option("--max", min=1, max=MOST, help="Look at about so many keys at most.")

commands.command(
    "discover",
    help="Find other programs' queues: Resque, Sidekiq, Carmine, streams with consumer groups, "
    "turning lists, delay sets. Looks through all keys of every master and writes nothing; "
    "--register notes what was found, so that all commands show it from then on.",
    epilog=examples(
        "redisq discover", "redisq discover --match 'jobs:*' --rate 50000/s --json",
        "redisq discover --register --yes",
    ),
)(
    command(
        {
            "match": (Annotated[str | None, _MATCH], None),
            "rate": (Annotated[str | None, _RATE], None),
            "max": (Annotated[int | None, _MAX], None),
            "register": flag("--register", "Note what was found in the registry."),
            "dry_run": GO["dry_run"],
            "yes": GO["yes"],
        },
        "discover.discover",
    )
)  # fmt: skip

commands.command(
    "forget",
    help="Take another program's queue out of the registry. Its keys are left alone.",
    epilog=examples("redisq forget stream:orders --yes"),
)(
    command(
        {"name": argument("QUEUE"), "dry_run": GO["dry_run"], "yes": GO["yes"]},
        "discover.forget",
    )
)
