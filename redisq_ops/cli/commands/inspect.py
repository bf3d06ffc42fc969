"""`redisq inspect`: everything known about one queue, request or entry."""

import typer

from ..options import ADDRESS, command
from ..session import Session

commands = typer.Typer()
inspect = typer.Typer(help="Show all about one queue, request or entry.")
commands.add_typer(inspect, name="inspect")


@command(inspect, "queue", prints="QueueDetails", repeats=True)
def queue(s: Session, *, address: str = ADDRESS) -> None:
    """Show a queue: counts, rates, settings, requests and priorities.

    Examples:
      redisq inspect queue mail
    """
    from ..actions.inspect import inspect_queue

    inspect_queue(s, address)


@command(inspect, "request", prints="RequestDetails", repeats=True)
def request(s: Session, *, address: str = ADDRESS) -> None:
    """Show a request: state, counts, tokens, stream, group, pending entries, results, history.

    Examples:
      redisq inspect request mail/r1
      redisq inspect request r1 --json
    """
    from ..actions.inspect import inspect_request

    inspect_request(s, address)


@command(inspect, "entry", prints="EntryDetails", repeats=True)
def entry(s: Session, *, address: str = ADDRESS) -> None:
    """Show an entry: state, attempts, error, payload and history.

    Examples:
      redisq inspect entry mail/r1/17
      redisq inspect entry later/e1
    """
    from ..actions.inspect import inspect_entry

    inspect_entry(s, address)
