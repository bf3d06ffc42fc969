"""`redisq select`: the entries that match an expression, in all states of one or all queues."""

from __future__ import annotations

import typer

from ..completion import fields
from ..options import SELECTING, add, argument, flag, option

commands = typer.Typer()

add(
    commands, "select",
    {
        "name": argument("[QUEUE]", help="Name of the queue."),
        "all_queues": flag("--all-queues", "Select from every queue."),
        "count": flag("--count", "Print only the number of entries, by state."),
        "by": option(
            "--by", "FIELD", "Print the number of entries by value: task, client, payload.region.",
            autocompletion=fields,
        ),
        **{name: SELECTING[name] for name in SELECTING if name not in ("addresses", "queue")},
    },
    "select.selected",
    help="List or count the entries that match an expression, in every state of a queue. Nothing "
    "is changed. The expressions are the same as in --where of other commands.",
    prints="Entry EntryCount ValueCount",
    examples=(
        "redisq select mail --where 'error~timeout age>2h'",
        "redisq select mail --where 'state:dead,delayed payload.region=eu' --json",
        "redisq select --all-queues --where 'client=acme' --count",
        "redisq select jobs --by task",
    ),
)  # fmt: skip
