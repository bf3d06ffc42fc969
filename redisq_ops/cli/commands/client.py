"""`redisq client`: the clients of a fair queue, their entries and their rules."""

from __future__ import annotations

import typer

from ..options import GO, MOST, WATCHING, Options, add, argument, option

commands = typer.Typer()
clients = typer.Typer(help="List the clients of a queue; block them, set their weight or cap.")
commands.add_typer(clients, name="client")

add(
    clients, "ls",
    {
        "name": argument("QUEUE"),
        "start": option("--start", "N", "Start at the Nth name.", int, 0, min=0, max=MOST),
        "max": option("--max", None, "Maximum number of clients.", int, 100, min=1, max=500),
        **WATCHING,
    },
    "client.listed",
    help="List clients by name: their waiting and pending entries, and their rules.",
    prints="Client",
    examples=("redisq client ls jobs", "redisq client ls jobs --start 100 --json"),
)  # fmt: skip

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
for _verb, (_help, _own, _words) in RULES.items():
    add(
        clients, _verb,
        {"name": argument("QUEUE"), "client": argument("CLIENT"), **_own, **GO},
        "client.change", _verb,
        help=_help, prints="Plan Outcome", examples=(f"redisq client {_verb} jobs {_words}",),
    )  # fmt: skip
