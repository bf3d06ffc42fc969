"""Commands that look at all queues or their logs: ls, log, history, config, fsck. None writes."""

from __future__ import annotations

import typer

from ..completion import queues
from ..options import MOST, WATCHING, Option, add, argument, flag, option

commands = typer.Typer()


def _latest(default: int) -> Option:
    return option("--max", None, "Show the latest N.", int, default, min=1, max=MOST)


add(
    commands, "ls", WATCHING, "overview.ls",
    help="""List the queues: entries by state, rates, oldest age.

    Rates (in, out) are of the last 60 seconds; the age is of the oldest waiting entry. Exit 3 if a
    queue could not be read; the others are shown.
    """,
    prints="Queue",
    examples=("redisq ls", "redisq ls --json", "redisq ls --watch 2s"),
)  # fmt: skip

add(
    commands, "log",
    {
        "queue": option("--queue", "NAME", "Only changes of this queue.", autocompletion=queues),
        "max": _latest(50),
        **WATCHING,
    },
    "overview.log",
    help="List the changes that operators made, newest first.",
    prints="Operation",
    examples=("redisq log", "redisq log --queue mail --max 5 --json"),
)  # fmt: skip

add(
    commands, "history", {"queue": argument("QUEUE"), "max": _latest(100), **WATCHING},
    "overview.history",
    help="Show the latest events of a queue, oldest first.",
    prints="Event",
    examples=("redisq history mail", "redisq history mail --max 1000 --json"),
)  # fmt: skip

add(
    commands, "config",
    {"contexts": flag("--contexts", "List the contexts of the configuration file instead.")},
    "overview.config",
    help="""Show every setting and where its value comes from.

    Secrets are never shown.
    """,
    prints="ConfigurationValue Context",
    examples=("redisq config", "redisq config --context live --json", "redisq config --contexts"),
)  # fmt: skip

add(
    commands, "fsck", {"queue": argument("[QUEUE]")}, "overview.fsck",
    help="""Check the invariants of a queue, or of all queues.

    Exit 1 if one is violated, else 3 if something could not be read. A busy queue changes while it
    is read, so a finding counts only when repeated checks confirm it.
    """,
    prints="Consistency",
    examples=("redisq fsck", "redisq fsck mail --json"),
)  # fmt: skip
