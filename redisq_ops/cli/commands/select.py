"""`redisq select`: what an expression means, in all states of a queue or of all queues."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import SELECTING, Options, command, examples, flag

commands = typer.Typer()
_QUEUE = typer.Argument(metavar="[QUEUE]", show_default=False, autocompletion=queues)
OPTIONS: Options = {
    "name": (Annotated[str | None, _QUEUE], None),
    "all_queues": flag("--all-queues", "Select from every queue."),
    "count": flag("--count", "Print only the number of entries, by state."),
    **{name: SELECTING[name] for name in SELECTING if name not in ("addresses", "queue")},
}

commands.command(
    "select",
    help="List or count the entries that match an expression, in every state of "
    "a queue. Nothing is changed. The expressions are the same as in "
    "--where of other commands.",
    epilog=examples(
        "redisq select mail --where 'error~timeout age>2h'",
        "redisq select mail --where 'state:dead,delayed payload.region=eu' --json",
        "redisq select --all-queues --where 'client=acme' --count",
    ),
)(command(OPTIONS, "select.selected"))
