"""`redisq kind`: kinds of queues outside redisq."""

from __future__ import annotations

from pathlib import Path

import typer

from ..options import argument, command
from ..output import emit, say
from ..session import Session

commands = typer.Typer()
_kind = typer.Typer()
commands.add_typer(_kind, name="kind")


@command(_kind, "new", prints="FileWritten")
def new(
    s: Session, *, name: str = argument("NAME", "Its name: lower-case letters and digits.")
) -> int:
    """Write the package of a new kind of queue into the folder NAME-redisq.

    It reads and changes a list and a sorted set of JSON jobs, and passes the conformance test; what
    to change is on the page "A new kind of queue". It never connects to a server.

    Examples:
      redisq kind new shop
    """
    from redisq_ops.testing import new_kind

    files = new_kind.write(name, into=Path())
    for path in files:
        if s.json:
            emit({"file": str(path)})
        else:
            print(path)
    say(
        f"now: pip install -e ./{files[0].parts[0]}, and python {files[0].parts[0]}/specimen.py URL"
    )
    return 0
