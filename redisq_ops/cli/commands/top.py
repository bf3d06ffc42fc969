"""`redisq top`, also as `redisq-top`: the dashboard, or one frame of it as text."""

from __future__ import annotations

import typer

from ..completion import queues
from ..options import add, flag, option

commands = typer.Typer()

add(
    commands, "top",
    {
        "queue": option("--queue", "NAME", "Queue to open.", autocompletion=queues),
        "interval": option(
            "--interval", "SECONDS", "Seconds between refreshes. [1]", float, min=0.1
        ),
        "once": flag("--once", "Print one frame as text."),
        "read_only": flag("--read-only", "Allow no changes."),
        "serve": flag("--serve", "Serve the dashboard to browsers; prints its address."),
        "listen": option(
            "--listen", "HOST:PORT", "Where to serve it; 127.0.0.1: this machine only.",
            default="127.0.0.1:8765",
        ),
        "replay": option("--replay", "FILE", "Show a recording instead of a server."),
        "at": option("--at", "TIME", "Moment of the recording; default: its end."),
    },
    "top.top",
    help="""Open the dashboard: all queues, and keys to change them.

    Without a terminal, or with --once, prints one frame of COLUMNS × LINES (else 120 × 40). With
    --json prints once what redisq ls prints, and with --queue what redisq inspect queue prints.

    With --serve, prints an address and serves the dashboard to browsers until SIGTERM or Ctrl+C.
    Anyone who has the address has the rights of the user who runs the command.
    """,
    prints="Queue QueueDetails",
    examples=(
        "redisq top", "redisq top --queue mail --interval 0.5", "redisq top --once --json",
        "redisq top --serve --read-only",
    ),
)  # fmt: skip
