"""`redisq discover` and `redisq forget`: find other programs' queues, register, unregister them."""

from __future__ import annotations

import typer

from ..options import GO, MOST, Options, add, argument, flag, option

commands = typer.Typer()
_GO: Options = {"dry_run": GO["dry_run"], "yes": GO["yes"]}

add(
    commands, "discover",
    {
        "match": option("--match", "PATTERN", "Only keys that match the pattern (? * [a-c])."),
        "rate": option("--rate", "N/s", "Scan at most N keys per second."),
        "max": option("--max", None, "Scan about N keys at most.", int, min=1, max=MOST),
        "register": flag("--register", "Add the queues that were found to the registry."),
        **_GO,
    },
    "discover.discover",
    help="Find queues of other programs: RQ, Celery, BullMQ, Bull, arq, asynq, Dramatiq, Laravel, "
    "Sidekiq, Resque, Carmine, streams with consumer groups, circular lists, delay sets. Scans "
    "all keys of every primary and writes nothing. --register adds the queues to the registry, so "
    "that all commands show them.",
    prints="DiscoveredQueue Plan Outcome",
    examples=(
        "redisq discover", "redisq discover --match 'jobs:*' --rate 50000/s --json",
        "redisq discover --register --yes",
    ),
)  # fmt: skip

add(
    commands, "forget", {"name": argument("QUEUE"), **_GO}, "discover.forget",
    help="Remove another program's queue from the registry. Its keys stay as they are.",
    prints="Plan Outcome",
    examples=("redisq forget stream:orders --yes",),
)  # fmt: skip
