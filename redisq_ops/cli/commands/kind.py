"""`redisq kind`: kinds of queues outside redisq."""

from __future__ import annotations

import typer

from ..options import add, argument

commands = typer.Typer()
_kind = typer.Typer(help="Write the package of a new kind of queue.")
commands.add_typer(_kind, name="kind")

add(
    _kind,
    "new",
    {"name": argument("NAME", help="Its name: lower-case letters and digits.")},
    "kind.new",
    help="""Write the package of a new kind of queue into the folder NAME-redisq.

    It reads and changes a list and a sorted set of JSON jobs, and passes the conformance test; what
    to change is on the page "A new kind of queue". It never connects to a server.
    """,
    prints="FileWritten",
    examples=("redisq kind new shop",),
)
