"""`redisq metrics`: numbers of all queues for Prometheus."""

from __future__ import annotations

from pathlib import Path

import typer

from ..options import add, flag, option

commands = typer.Typer()

add(
    commands, "metrics",
    {
        "once": flag("--once", "Print the metrics and end."),
        "file": option(
            "--file", "FILE", "Write the metrics to a file for a textfile collector, and end.", Path
        ),
        "listen": option(
            "--listen", "HOST:PORT", "Where to serve them; 127.0.0.1: this machine only.",
            default="127.0.0.1:9808",
        ),
        "queue": option(
            "--queue", "PATTERN", "Only queues whose name matches, as 'mail*'.", default="*"
        ),
    },
    "metrics.metrics",
    help="""Serve the numbers of all queues to Prometheus until SIGTERM or Ctrl+C.

    Anyone who reaches the address sees the queues' names: there is no password. A scrape takes two
    round trips to the server, whatever the number of queues. Read permission is enough. Exit 4:
    the server can't be reached at the start; later, redisq_up is 0.
    """,
    prints="",
    examples=(
        "redisq metrics",
        "redisq metrics --listen 0.0.0.0:9808",
        "redisq metrics --once",
        "redisq metrics --file /var/lib/node_exporter/redisq.prom",
    ),
)  # fmt: skip
