"""`redisq client`: the clients of a fair queue, their entries and their rules."""

from __future__ import annotations

import typer

from ..confirm_and_run import confirm_and_run
from ..options import MOST, QUEUE, Go, argument, command, option
from ..output import emit, say, table
from ..rows import client_cells, client_row
from ..session import Session

commands = typer.Typer()
clients = typer.Typer()
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
    from redisq_ops.ops.required_features import with_clients

    queue = s.run(s.deployment.queue(name))
    found = s.run(with_clients(queue).clients.op(start, max))
    rows = [client_cells(client) for client in found.clients]
    if s.json:
        for client in found.clients:
            emit(client_row(queue.name, client))
        return 0
    if rows:
        table(list(rows[0]), [list(row.values()) for row in rows])
    if len(rows) < found.total:
        say(f"{len(rows)} of {found.total:,} shown")
    return 0


@command(clients, "block", prints=_CHANGE)
def block(s: Session, *, name: str = QUEUE, client: str = _CLIENT, go: Go) -> int:
    """Stop delivering the entries of a client. New entries of it still wait.

    Examples:
      redisq client block jobs acme
    """
    return _change(s, "block", name, client, go)


@command(clients, "unblock", prints=_CHANGE)
def unblock(s: Session, *, name: str = QUEUE, client: str = _CLIENT, go: Go) -> int:
    """Deliver the entries of a client again, from the present turn on.

    Examples:
      redisq client unblock jobs acme
    """
    return _change(s, "unblock", name, client, go)


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
    return _change(s, "weight", name, client, go, value)


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
    return _change(s, "cap", name, client, go, value)


@command(clients, "rate", prints=_CHANGE)
def rate(
    s: Session,
    *,
    name: str = QUEUE,
    client: str = _CLIENT,
    value: str = argument("RATE", "Such as 10/s, 600/m or 5/h; off: no limit."),
    go: Go,
) -> int:
    """Set how many entries of a client are delivered per second, minute or hour.

    Examples:
      redisq client rate jobs acme 10/s
    """
    from redisq_ops.ops.change.control import typed_rule

    return _change(s, "rate", name, client, go, typed_rule("rate", value))


def _change(s: Session, verb: str, at: str, name: str, go: Go, typed: int | None = None) -> int:
    from redisq_ops.ops.change import control
    from redisq_ops.ops.change.control_preview import client_preview

    queue = s.run(s.deployment.queue(at))
    rule, value = control.client_rule(verb, typed)
    now = s.run(control.client_changeable(queue, name, rule, value))
    preview = client_preview(queue, now, verb, value)
    return confirm_and_run(
        s, preview, go, lambda author: control.change_client(queue, name, verb, author, value)
    )
