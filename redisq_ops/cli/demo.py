"""`redisq demo`: the dashboard on a server and a workload of its own."""

from __future__ import annotations

import typer

from . import top
from .app import app


@app.command()
def demo(context: typer.Context) -> None:
    """A real server, a living workload, and the dashboard on it; all gone at the end.

    Without a terminal, prints one frame after a few seconds of work.
    """
    top.top(context, demo=True)
