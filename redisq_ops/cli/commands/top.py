"""`redisq top`, also as `redisq-top`: the dashboard, or one frame of it as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..completion import queues
from ..options import examples

if TYPE_CHECKING:
    pass
from ..options import perform

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "redisq top", "redisq top --queue mail --interval 0.5", "redisq top --once --json"
    )
)
def top(
    context: typer.Context,
    queue: Annotated[str | None, typer.Option(help="Queue to open.", autocompletion=queues)] = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between refreshes.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame as text.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Use a demo server with a workload.")
    ] = False,
) -> int:
    """Open the dashboard: all queues, and keys to change them.

    Without a terminal, or with --once, prints one frame of COLUMNS × LINES (else 120 × 40). With
    --json prints once what redisq ls prints, and with --queue what redisq inspect queue prints.
    """
    return perform(context, "top.top", queue, interval, once, read_only, demo)
