"""`redisq workers`: the worker processes other programs register, seen and struck."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, LOOKING, argument, command, examples

commands = typer.Typer()
_workers = typer.Typer(help="List or prune worker processes of other programs.")

commands.add_typer(_workers, name="workers")

_workers.command(
    "ls",
    help="List the worker processes that Sidekiq or Resque has registered: alive"
    " or silent, their last heartbeat, the jobs they hold. Queues of redisq"
    " have no such list.",
    epilog=examples("redisq workers ls", "redisq workers ls sidekiq", "redisq workers ls --json"),
)(
    command(
        {
            "queue": (
                Annotated[
                    str | None,
                    typer.Argument(metavar="[QUEUE]", help="Queue; default: all queues."),
                ],
                None,
            ),
            **LOOKING,
        },
        "workers.listed",
    )
)

_workers.command(
    "prune",
    help="Remove dead worker processes from the register of Sidekiq or Resque, "
"and rescue their jobs. Each process is checked again in the step that "
"removes it. There is no undo.",
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
                    typer.Argument(metavar="[NAME]", help="Process; default: all silent ones."),
                ],
                None,
            ),
            "older_than": (
                Annotated[
                    str | None,
                    typer.Option(
                        "--older-than", metavar="AGE",
                        help="Minimum silence: 30s, 5m; default: the owner's own limit.",
                    ),
                ],
                None,
            ),
            "rescue": (
                Annotated[
                    bool,
                    typer.Option(
                        "--rescue/--no-rescue",
                        help="Move their jobs back to waiting, first in their queue. Without it "
"Sidekiq loses them and Resque counts them as failed.",
                    ),
                ],
                True,
            ),
            **GO,
        },
        "workers.pruned",
    )
)  # fmt: skip
