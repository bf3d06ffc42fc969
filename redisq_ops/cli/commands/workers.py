"""`redisq workers`: the worker processes other programs register, seen and struck."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, argument, command, examples

commands = typer.Typer()
_workers = typer.Typer(help="Worker processes of Sidekiq and Resque: list them, prune dead ones.")

commands.add_typer(_workers, name="workers")

_workers.command(
    "ls",
    help="The processes that work on a queue's deployment, as its owner registers them: alive or "
    "silent, when heard of last, what they have in hand. Queues of our own have no such list.",
    epilog=examples("redisq workers ls", "redisq workers ls sidekiq", "redisq workers ls --json"),
)(
    command(
        {
            "queue": (
                Annotated[
                    str | None, typer.Argument(metavar="[QUEUE]", help="Default: all there are.")
                ],
                None,
            )
        },
        "workers.listed",
    )
)

_workers.command(
    "prune",
    help="Strike processes that are gone from their owner's register, and rescue what they had. "
    "Each is looked at again in the step that strikes it. There is no undo.",
    epilog=examples(
        "redisq workers prune sidekiq --dry-run",
        "redisq workers prune sidekiq --older-than 30s --yes",
        "redisq workers prune resque box:78:mail --reason rebooted --yes",
    ),
)(
    command(
        {
            "name": argument("QUEUE"),
            "process": (
                Annotated[
                    str | None,
                    typer.Argument(metavar="[NAME]", help="Default: all that are silent."),
                ],
                None,
            ),
            "older_than": (
                Annotated[
                    str | None,
                    typer.Option(
                        "--older-than", metavar="AGE",
                        help="Silent for so long: 30s, 5m. Default: as long as their owner waits.",
                    ),
                ],
                None,
            ),
            "rescue": (
                Annotated[
                    bool,
                    typer.Option(
                        "--rescue/--no-rescue",
                        help="Whether what they had waits again, first in its queue; else Sidekiq's"
                        " is lost and Resque's becomes failures.",
                    ),
                ],
                True,
            ),
            **GO,
        },
        "workers.pruned",
    )
)  # fmt: skip
