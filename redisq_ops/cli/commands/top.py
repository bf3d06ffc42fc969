"""`redisq top`, also as `redisq-top`: the dashboard, or one frame of it as text."""

import typer

from ..completion import queues
from ..options import command, flag, option, options
from ..session import Session

commands = typer.Typer()


@options
class TopOptions:
    queue: str | None = option("--queue", "NAME", "Queue to open.", autocompletion=queues)
    interval: float | None = option(
        "--interval", "SECONDS", "Seconds between refreshes. [1]", min=0.1
    )
    once: bool = flag("--once", "Print one frame as text.")
    read_only: bool = flag("--read-only", "Allow no changes.")
    serve: bool = flag("--serve", "Serve the dashboard to browsers; prints its address.")
    listen: str = option(
        "--listen",
        "HOST:PORT",
        "Where to serve it; 127.0.0.1: this machine only.",
        default="127.0.0.1:8765",
    )
    demo: bool = flag("--demo", "Use a demo server, as redisq demo.")
    replay: str | None = option("--replay", "FILE", "Show a recording instead of a server.")
    at: str | None = option("--at", "TIME", "Moment of the recording; default: its end.")


@command(commands, "top", prints="Queue QueueDetails")
def top(s: Session, given: TopOptions) -> int:
    """Open the dashboard: all queues, and keys to change them.

    Without a terminal, or with --once, prints one frame of COLUMNS × LINES (else 120 × 40). With
    --json prints once what redisq ls prints, and with --queue what redisq inspect queue prints.

    With --serve, prints an address and serves the dashboard to browsers until SIGTERM or Ctrl+C.
    Anyone who has the address has the rights of the user who runs the command.

    Examples:
      redisq top
      redisq top --queue mail --interval 0.5
      redisq top --once --json
      redisq top --serve --read-only
    """
    from ..actions.top import top

    return top(s, given)
