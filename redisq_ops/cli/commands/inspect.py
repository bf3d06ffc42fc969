"""`redisq inspect`: all that is known of one queue, request or entry."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import Every, examples, perform

commands = typer.Typer()
inspect = typer.Typer(help="Show all about one queue, request or entry.")

commands.add_typer(inspect, name="inspect")

Where = Annotated[str, typer.Argument(metavar="ADDRESS", show_default=False, autocompletion=queues)]


@inspect.command("queue", epilog=examples("redisq inspect queue mail"))
def inspect_queue(context: typer.Context, address: Where, every: Every = None) -> int:
    """Show a queue: counts, rates, settings, requests and priorities."""
    return perform(context, "inspect.inspect_queue", address, every=every)


@inspect.command(
    "request", epilog=examples("redisq inspect request mail/r1", "redisq inspect request r1 --json")
)
def inspect_request(context: typer.Context, address: Where, every: Every = None) -> int:
    """Show a request: state, counts, tokens, stream, group, pending entries, results, history."""
    return perform(context, "inspect.inspect_request", address, every=every)


@inspect.command(
    "entry", epilog=examples("redisq inspect entry mail/r1/17", "redisq inspect entry later/e1")
)
def inspect_entry(context: typer.Context, address: Where, every: Every = None) -> int:
    """Show an entry: state, attempts, error, payload and history."""
    return perform(context, "inspect.inspect_entry", address, every=every)
