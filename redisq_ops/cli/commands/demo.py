"""`redisq demo`: the dashboard on a demo server with a workload."""

from __future__ import annotations

import typer

from ..options import add

commands = typer.Typer()

add(
    commands, "demo", {}, "top.demo",
    help="""Open the dashboard on a demo server with a workload; both end with it.

    Without a terminal, prints one frame after a few seconds of work.
    """,
    prints="",
    examples=("redisq demo", "redisq demo --json"),
)  # fmt: skip
