"""`redisq doctor` and `redisq acl`: whether the server is set up well, and users of roles."""

from __future__ import annotations

import typer

from ..completion import queues
from ..options import add, argument, flag, option

commands = typer.Typer()

add(
    commands, "doctor", {}, "doctor.doctor",
    help="Check server, connection, rights and queues, and say what to do. Exit 1 if something is "
    "wrong. Needs a viewer's rights; what these don't allow is shown as unknown.",
    prints="Diagnosis",
    examples=("redisq doctor", "redisq doctor --json"),
)  # fmt: skip
add(
    commands, "acl",
    {
        "role": argument("ROLE"),
        "queues": option(
            "--queue", "NAME", "Only this queue; repeatable.", list[str],
            autocompletion=queues,
        ),
        "keys": option(
            "--keys", "PATTERN", "Also another program's keys; repeatable.", list[str]
        ),
        "user": option("--user", "NAME", "Name of the user. [redisq-ROLE]"),
        "cluster": flag("--cluster", "Add what a client of a Cluster needs, on every node."),
    },
    "doctor.acl",
    help="Print the ACL rule of a role: viewer, producer, worker or operator. Each role may do what"
    " the one before may. Nothing is sent to a server.",
    prints="AclRule",
    examples=(
        "redisq acl viewer",
        "redisq acl worker --queue mail --queue later --user mail-worker",
        "redisq acl operator --keys 'resque:*' --cluster",
    ),
)  # fmt: skip
