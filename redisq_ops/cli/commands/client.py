"""`redisq client`: whose work is in a queue, and by what rules it is served."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, MOST, Options, argument, command, examples

commands = typer.Typer()
clients = typer.Typer(help="Whose work is in a queue: hold it back, weigh it, cap it.")

commands.add_typer(clients, name="client")

RULES: dict[str, tuple[str, Options, str]] = {
    "block": ("Hand out nothing more of a client. What it sends still waits.", {}, "acme"),
    "unblock": ("Serve a client again, from the present turn on.", {}, "acme"),
    "weight": (
        "Change how many turns a client gets where another gets one.",
        {"value": argument("WEIGHT", int, "1 to 100.")},
        "acme 3",
    ),
    "cap": (
        "Change how many of a client's entries may be pending at a time.",
        {"value": argument("CAP", int, "0: any number.")},
        "acme 10",
    ),
}
_START = Annotated[
    int, typer.Option("--start", min=0, max=MOST, metavar="N", help="From the Nth name on.")
]
_MAX = Annotated[int, typer.Option("--max", min=1, max=500, help="At most so many.")]

clients.command(
    "ls",
    help="Clients by name: what each has waiting and pending, and its rules.",
    epilog=examples("redisq client ls jobs", "redisq client ls jobs --start 100 --json"),
)(
    command(
        {"name": argument("QUEUE"), "start": (_START, 0), "max": (_MAX, 100)},
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
