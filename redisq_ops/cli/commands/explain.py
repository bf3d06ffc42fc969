"""`redisq explain`: the rule that holds something, and the verb that helps."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import examples, perform

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
) -> int:
    """Why is it not running, not finishing, or where did it go?

    Of an entry, a request or a queue: the rule that holds it, what helps, and when that will be
    over, as far as anybody can tell. Exit 1 if it isn't there; what the history says is told.
    """
    return perform(context, "explain.explain", address)
