"""`redisq client`: the clients of a fair queue, their entries and their rules."""

import typer

from ..options import MOST, QUEUE, Go, argument, command, option
from ..session import Session

commands = typer.Typer()
clients = typer.Typer(help="List the clients of a queue; block them, set their weight or cap.")
commands.add_typer(clients, name="client")
_CHANGE = "Plan Outcome"
_CLIENT = argument("CLIENT")


@command(clients, "ls", prints="Client", repeats=True)
def ls(
    s: Session,
    *,
    name: str = QUEUE,
    start: int = option("--start", "N", "Start at the Nth name.", min=0, max=MOST, default=0),
    max: int = option("--max", None, "Maximum number of clients.", min=1, max=500, default=100),
) -> int:
    """List clients by name: their waiting and pending entries, and their rules.

    Examples:
      redisq client ls jobs
      redisq client ls jobs --start 100 --json
    """
    from ..actions.client import listed

    return listed(s, name, start, max)


@command(clients, "block", prints=_CHANGE)
def block(s: Session, *, name: str = QUEUE, client: str = _CLIENT, go: Go) -> int:
    """Stop delivering the entries of a client. New entries of it still wait.

    Examples:
      redisq client block jobs acme
    """
    from ..actions.client import change

    return change(s, "block", name, client, go)


@command(clients, "unblock", prints=_CHANGE)
def unblock(s: Session, *, name: str = QUEUE, client: str = _CLIENT, go: Go) -> int:
    """Deliver the entries of a client again, from the present turn on.

    Examples:
      redisq client unblock jobs acme
    """
    from ..actions.client import change

    return change(s, "unblock", name, client, go)


@command(clients, "weight", prints=_CHANGE)
def weight(
    s: Session,
    *,
    name: str = QUEUE,
    client: str = _CLIENT,
    value: int = argument("WEIGHT", "New weight, 1 to 100."),
    go: Go,
) -> int:
    """Set how many turns a client gets for one turn of another.

    Examples:
      redisq client weight jobs acme 3
    """
    from ..actions.client import change

    return change(s, "weight", name, client, go, value)


@command(clients, "cap", prints=_CHANGE)
def cap(
    s: Session,
    *,
    name: str = QUEUE,
    client: str = _CLIENT,
    value: int = argument("CAP", "New cap; 0: no limit."),
    go: Go,
) -> int:
    """Set how many entries of a client may be pending at once.

    Examples:
      redisq client cap jobs acme 10
    """
    from ..actions.client import change

    return change(s, "cap", name, client, go, value)
