"""`redisq metrics`: numbers of all queues for Prometheus."""

from pathlib import Path

import typer

from ..options import command, flag, option
from ..session import Session

commands = typer.Typer()


@command(commands, "metrics", prints="")
def metrics(
    s: Session,
    *,
    once: bool = flag("--once", "Print the metrics and end."),
    file: Path | None = option(
        "--file", "FILE", "Write the metrics to a file for a textfile collector, and end."
    ),
    listen: str = option(
        "--listen",
        "HOST:PORT",
        "Where to serve them; 127.0.0.1: this machine only.",
        default="127.0.0.1:9808",
    ),
    queue: str = option(
        "--queue", "PATTERN", "Only queues whose name matches, as 'mail*'.", default="*"
    ),
) -> int:
    """Serve the numbers of all queues to Prometheus until SIGTERM or Ctrl+C.

    Anyone who reaches the address sees the queues' names: there is no password. A scrape takes at
    most five round trips to the server, whatever the number of queues. Read permission is enough.
    Exit 4: the server can't be reached at the start; later, redisq_up is 0.

    Examples:
      redisq metrics
      redisq metrics --listen 0.0.0.0:9808
      redisq metrics --once
      redisq metrics --file /var/lib/node_exporter/redisq.prom
    """
    from ..actions.metrics import metrics

    return metrics(s, once, file, listen, queue)
