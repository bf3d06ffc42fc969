"""Changes that are not moves of entries: undo, requests, queues, retention."""

import typer

from ..completion import operations
from ..options import ADDRESS, QUEUE, Go, argument, command, flag, option
from ..session import Session

commands = typer.Typer()
_request = typer.Typer(help="Cancel, pause or resume a request; set its limit or priority.")
_queue = typer.Typer(help="Pause, resume, drain or destroy a queue.")
commands.add_typer(_request, name="request")
commands.add_typer(_queue, name="queue")
_CHANGE = "Plan Outcome"


@command(_request, "cancel", prints=_CHANGE)
def cancel(s: Session, *, address: str = ADDRESS, go: Go) -> int:
    """Cancel a request: its entries are delivered no more, and running deliveries can't settle.
    Undo reopens it.

    Examples:
      redisq request cancel mail/r1 --reason duplicate
    """
    from ..actions.admin import change_request

    return change_request(s, "cancel", address, go)


@command(_request, "pause", prints=_CHANGE)
def pause_request(s: Session, *, address: str = ADDRESS, go: Go) -> int:
    """Stop delivering a request's entries until it is resumed. Running deliveries can settle.

    Examples:
      redisq request pause mail/r1
    """
    from ..actions.admin import change_request

    return change_request(s, "pause", address, go)


@command(_request, "resume", prints=_CHANGE)
def resume_request(s: Session, *, address: str = ADDRESS, go: Go) -> int:
    """Resume a paused request.

    Examples:
      redisq request resume mail/r1
    """
    from ..actions.admin import change_request

    return change_request(s, "resume", address, go)


@command(_request, "limit", prints=_CHANGE)
def limit(
    s: Session,
    *,
    address: str = ADDRESS,
    value: int = argument("LIMIT", "New limit, 1 to 1000."),
    go: Go,
) -> int:
    """Set how many entries of a request are worked on at once.

    Examples:
      redisq request limit mail/r1 16
    """
    from ..actions.admin import change_request

    return change_request(s, "limit", address, go, str(value))


@command(_request, "priority", prints=_CHANGE)
def priority(
    s: Session,
    *,
    address: str = ADDRESS,
    value: int = argument("PRIORITY", "Priority, 0 (first) to 99."),
    go: Go,
) -> int:
    """Set the priority of a request.

    Examples:
      redisq request priority mail/r1 0
    """
    from ..actions.admin import change_request

    return change_request(s, "priority", address, go, str(value))


@command(_queue, "pause", prints=_CHANGE)
def pause_queue(s: Session, *, name: str = QUEUE, go: Go) -> int:
    """Stop delivering entries. Running deliveries can settle.

    A queue of another program is paused as that program does it, where it has such a pause.

    Examples:
      redisq queue pause mail --yes
    """
    from ..actions.admin import change_queue

    return change_queue(s, "pause", name, go)


@command(_queue, "resume", prints=_CHANGE)
def resume_queue(s: Session, *, name: str = QUEUE, go: Go) -> int:
    """Deliver entries again, and accept new ones again.

    Examples:
      redisq queue resume mail --yes
    """
    from ..actions.admin import change_queue

    return change_queue(s, "resume", name, go)


@command(_queue, "drain", prints=_CHANGE)
def drain(s: Session, *, name: str = QUEUE, go: Go) -> int:
    """Accept no new entries; deliver those that are there.

    Examples:
      redisq queue drain mail --yes
    """
    from ..actions.admin import change_queue

    return change_queue(s, "drain", name, go)


@command(_queue, "destroy", prints=_CHANGE)
def destroy(
    s: Session,
    *,
    name: str = QUEUE,
    hard: bool = flag("--hard", "Remove the queue even if it has entries."),
    go: Go,
) -> int:
    """Remove an empty queue; with --hard, a queue and all entries in it. There is no undo.

    Examples:
      redisq queue destroy mail
      redisq queue destroy mail --hard --dry-run
    """
    from ..actions.admin import destroy

    return destroy(s, name, go, hard=hard)


@command(commands, "undo", prints=_CHANGE)
def undo(
    s: Session,
    *,
    op: str | None = argument(
        "[OP]", "Operation to undo; default: the latest that can be undone.", operations
    ),
    report: str | None = option(
        "--report", "FILE", "Write the entries that could not be undone to FILE, as NDJSON."
    ),
    go: Go,
) -> int:
    """Undo a change. Entries that were changed since then stay as they are.

    Examples:
      redisq undo
      redisq undo replay-5e8d3c91f0 --dry-run
      redisq undo replay-5e8d3c91f0 --report left.ndjson --yes
    """
    from ..actions.admin import undo

    return undo(s, op, report, go)


@command(commands, "retention", prints="Setting Plan Outcome")
def retention(
    s: Session,
    *,
    name: str = QUEUE,
    changes: list[str] | None = argument("[NAME=VALUE]..."),
    go: Go,
) -> int:
    """Show or change the settings of a queue: what it keeps and how often it retries. An empty
    value restores the default; write time spans as 90s, 5m, 2h, 3d.

    Examples:
      redisq retention mail
      redisq retention mail keep_ms=48h max_failures=5 history=
    """
    from ..actions.admin import retention

    return retention(s, name, changes or (), go)
