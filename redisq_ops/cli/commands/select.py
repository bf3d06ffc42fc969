"""`redisq select`: the entries that match an expression, in all states of one or all queues."""

from __future__ import annotations

import typer

from ..options import SELECTING, add, argument, flag

commands = typer.Typer()

add(
    commands, "select",
    {
        "name": argument("[QUEUE]", help="Name of the queue."),
        "all_queues": flag("--all-queues", "Select from every queue."),
        "count": flag("--count", "Print only the number of entries, by state."),
        **{name: SELECTING[name] for name in SELECTING if name not in ("addresses", "queue")},
    },
    "select.selected",
    help="List or count the entries that match an expression, in every state of a queue. Nothing "
    "is changed. The expressions are the same as in --where of other commands.",
    prints="Entry EntryCount",
    examples=(
        "redisq select mail --where 'error~timeout age>2h'",
        "redisq select mail --where 'state:dead,delayed payload.region=eu' --json",
        "redisq select --all-queues --where 'client=acme' --count",
    ),
)  # fmt: skip
