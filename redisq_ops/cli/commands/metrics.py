"""`redisq metrics`: numbers of all queues for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import examples, perform

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "redisq metrics",
        "redisq metrics --listen 0.0.0.0:9808",
        "redisq metrics --once",
        "redisq metrics --file /var/lib/node_exporter/redisq.prom",
    )
)
def metrics(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics and end.")] = False,
    file: Annotated[
        Path | None,
        typer.Option(help="Write the metrics to a file for a textfile collector, and end."),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve them.")
    ] = "127.0.0.1:9808",
    queue: Annotated[
        str, typer.Option(metavar="PATTERN", help="Only queues whose name matches, as 'mail*'.")
    ] = "*",
) -> int:
    """Serve numbers of all queues for Prometheus until a signal.

    A scrape takes two round trips to the server, whatever the number of queues. Read permission is
    enough. Exit 4: the server can't be reached at the start; later, redisq_up is 0.
    """
    return perform(context, "metrics.metrics", once, file, listen, queue)
