"""`redisq demo`: the dashboard on a server and a workload of its own."""

from __future__ import annotations

import typer

from ..options import examples, perform

commands = typer.Typer()


@commands.command(epilog=examples("redisq demo", "redisq demo --json"))
def demo(context: typer.Context) -> int:
    """Open the dashboard on a demo server with a workload; both end with it.

    Without a terminal, prints one frame after a few seconds of work.
    """
    return perform(context, "top.top", None, 1.0, False, False, True)
