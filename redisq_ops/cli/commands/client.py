"""`redisq client`: whose work is in a queue, and by what rules it is served."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, LOOKING, MOST, Options, argument, command, examples

commands = typer.Typer()
clients = typer.Typer(help="List the clients of a queue; block them, set their weight or cap.")

commands.add_typer(clients, name="client")

RULES: dict[str, tuple[str, Options, str]] = {
    "block": ("Stop delivering the entries of a client. New entries of it still wait.", {}, "acme"),
    "unblock": ("Deliver the entries of a client again, from the present turn on.", {}, "acme"),
    "weight": (
        "Set how many turns a client gets for one turn of another.",
        {"value": argument("WEIGHT", int, "New weight, 1 to 100.")},
        "acme 3",
    ),
    "cap": (
        "Set how many entries of a client may be pending at once.",
        {"value": argument("CAP", int, "New cap; 0: no limit.")},
        "acme 10",
    ),
}
_START = Annotated[
    int, typer.Option("--start", min=0, max=MOST, metavar="N", help="Start at the Nth name.")
]
_MAX = Annotated[int, typer.Option("--max", min=1, max=500, help="Maximum number of clients.")]

clients.command(
    "ls",
    help="List clients by name: their waiting and pending entries, and their rules.",
    epilog=examples("redisq client ls jobs", "redisq client ls jobs --start 100 --json"),
)(
    command(
        {"name": argument("QUEUE"), "start": (_START, 0), "max": (_MAX, 100), **LOOKING},
        "client.listed",
    )
)


def _add(verb: str) -> None:
    help, own, words = RULES[verb]
    clients.command(verb, help=help, epilog=examples(f"redisq client {verb} jobs {words}"))(
        command(
            {"name": argument("QUEUE"), "client": argument("CLIENT"), **own, **GO},
            "client.change",
            verb,
        )
    )


for _verb in RULES:
    _add(_verb)
