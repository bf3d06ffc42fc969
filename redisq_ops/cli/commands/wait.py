"""`redisq wait`: until requests end, or until counts meet a condition."""

import typer

from ..options import QUEUE_CHOICE, argument, command, option
from ..session import Session

commands = typer.Typer()
waiting = typer.Typer(
    help="Wait until requests end or counts meet a condition.", no_args_is_help=True
)
commands.add_typer(waiting, name="wait")
_TIMEOUT = option("--timeout", "TIME", "Give up after this time (90s, 5m) with exit code 124.")


@command(waiting, "request", prints="Request")
def wait_request(
    s: Session,
    *,
    requests: list[str] = argument("ID…", "Requests, by id or as QUEUE/REQUEST."),
    queue: str | None = QUEUE_CHOICE,
    timeout: str | None = _TIMEOUT,
) -> int:
    """Wait for requests to end, also across a restart of the server.

    Exit 0: all are done. 3: some have dead entries. 1: one was cancelled. 124: timed out.

    Examples:
      redisq wait request mail/r1 --timeout 5m
      redisq wait request r1 r2 r3 --json
    """
    from ..actions.wait import wait_request

    return wait_request(s, requests, queue, timeout)


@command(waiting, "when", prints="Condition")
def wait_when(
    s: Session,
    *,
    expression: str = argument("EXPR", "Condition: 'waiting=0', 'dead>0 or waiting>=1000'."),
    queue: str | None = QUEUE_CHOICE,
    timeout: str | None = _TIMEOUT,
) -> int:
    """Wait until a queue's counts meet a condition, also across a restart of the server.

    Checks five times a second. EXPR is an expression of the filter language whose fields are the
    counts: waiting, pending, delayed, dead, trash and done.

    Examples:
      redisq wait when 'waiting=0 pending=0' --queue mail
      redisq wait when 'dead>0' --timeout 1h
    """
    from ..actions.wait import wait_when

    return wait_when(s, expression, queue, timeout)
