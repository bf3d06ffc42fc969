"""`redisq workers`: list and prune the worker processes that other programs register."""

from __future__ import annotations

import typer

from ..options import GO, WATCHING, add, argument, flag, option

commands = typer.Typer()
_workers = typer.Typer(help="List worker processes; prune those of other programs.")
commands.add_typer(_workers, name="workers")

add(
    _workers, "ls",
    {"queue": argument("[QUEUE]", str, "Queue; default: all queues."), **WATCHING},
    "workers.listed",
    help="List the worker processes that RQ, Sidekiq and other programs register: alive or silent, "
    "their last heartbeat, the jobs they hold. With a queue, also the workers of redisq that serve "
    "it.",
    prints="WorkerProcess",
    examples=("redisq workers ls", "redisq workers ls mail", "redisq workers ls sidekiq --json"),
)  # fmt: skip

add(
    _workers, "prune",
    {
        "name": argument("QUEUE"),
        "process": argument("[NAME]", str, "Process; default: all silent ones."),
        "older_than": option(
            "--older-than", "AGE", "Minimum silence: 30s, 5m; default: the owner's own limit."
        ),
        "rescue": flag(
            "--rescue/--no-rescue",
            "Move their jobs back to waiting, first in their queue. Without it "
            "Sidekiq loses them and Resque counts them as failed.",
            default=True,
        ),
        **GO,
    },
    "workers.pruned",
    help="Remove dead worker processes from the register of Sidekiq or Resque, and rescue their "
    "jobs. Each process is checked again in the step that removes it. There is no undo.",
    prints="Plan Outcome",
    examples=(
        "redisq workers prune sidekiq --dry-run",
        "redisq workers prune sidekiq --older-than 30s --yes",
        "redisq workers prune resque box:78:mail --reason rebooted --yes",
    ),
)  # fmt: skip
