"""`redisq explain`: the rule that holds something, and the verb that helps."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import Every, examples, perform

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "redisq explain mail/r1/17", "redisq explain mail/r1", "redisq explain mail --json"
    )
)
def explain(
    context: typer.Context,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", show_default=False, autocompletion=queues)
    ],
    every: Every = None,
) -> int:
    """Explain why an entry, request or queue does not progress, or where an entry went.

    Shows the rule that holds it, what helps, and when it will end, as far as known. Exit 1 if
    it does not exist; what the history has about it is shown.
    """
    return perform(context, "explain.explain", address, every=every)
