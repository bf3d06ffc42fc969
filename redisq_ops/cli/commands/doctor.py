"""`redisq doctor` and `redisq acl`: whether the server is set up well, and users of roles."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import argument, command, examples, flag

commands = typer.Typer()
_QUEUES = typer.Option(
    "--queue", metavar="NAME", help="Only this queue; may be repeated.", autocompletion=queues
)
_KEYS = typer.Option(
    "--keys", metavar="PATTERN", help="Also another program's keys; may be repeated."
)
_USER = typer.Option("--user", metavar="NAME", help="Name of the user. [redisq-ROLE]")

commands.command(
    "doctor",
    help="Check server, connection, rights and queues, and say what to do. Exit 1 if something is "
    "wrong. Needs a viewer's rights; what these don't allow is shown as unknown.",
    epilog=examples("redisq doctor", "redisq doctor --json"),
)(command({}, "doctor.doctor"))

commands.command(
    "acl",
    help="Print the ACL rule of a role: viewer, producer, worker or operator. Each role may do what"
    " the one before may. Nothing is sent to a server.",
    epilog=examples(
        "redisq acl viewer",
        "redisq acl worker --queue mail --queue later --user mail-worker",
        "redisq acl operator --keys 'resque:*' --cluster",
    ),
)(
    command(
        {
            "role": argument("ROLE"),
            "queues": (Annotated[list[str] | None, _QUEUES], None),
            "keys": (Annotated[list[str] | None, _KEYS], None),
            "user": (Annotated[str | None, _USER], None),
            "cluster": flag("--cluster", "With what a client of a Cluster needs, on every node."),
        },
        "doctor.acl",
    )
)
