"""`redisq discover` and `redisq forget`: other programs' queues, found, noted, left alone again."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, MOST, argument, command, examples, flag

commands = typer.Typer()
_MATCH = typer.Option(
    "--match", metavar="PATTERN", help="Only keys that match the pattern (? * [a-c])."
)
_RATE = typer.Option("--rate", metavar="N/s", help="Scan at most N keys per second.")
_MAX = typer.Option("--max", min=1, max=MOST, help="Scan about N keys at most.")

commands.command(
    "discover",
    help="Find queues of other programs: RQ, Resque, Sidekiq, Carmine, streams with "
"consumer groups, circular lists, delay sets. Scans all keys of every "
"master and writes nothing. --register adds the queues to the registry,"
" so that all commands show them.",
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
            "register": flag("--register", "Add the queues that were found to the registry."),
            "dry_run": GO["dry_run"],
            "yes": GO["yes"],
        },
        "discover.discover",
    )
)  # fmt: skip

commands.command(
    "forget",
    help="Remove another program's queue from the registry. Its keys stay as they are.",
    epilog=examples("redisq forget stream:orders --yes"),
)(
    command(
        {"name": argument("QUEUE"), "dry_run": GO["dry_run"], "yes": GO["yes"]},
        "discover.forget",
    )
)
