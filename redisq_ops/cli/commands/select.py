"""`redisq select`: the entries that match an expression, in all states of one or all queues."""

import typer

from ..completion import fields
from ..options import Conditions, argument, command, flag, option, options
from ..session import Session

commands = typer.Typer()


@options
class SelectOptions:
    name: str | None = argument("[QUEUE]", "Name of the queue.")
    all_queues: bool = flag("--all-queues", "Select from every queue.")
    count: bool = flag("--count", "Print only the number of entries, by state.")
    by: str | None = option(
        "--by",
        "FIELD",
        "Print the number of entries by value: task, client, payload.region.",
        autocompletion=fields,
    )
    conditions: Conditions


@command(commands, "select", prints="Entry EntryCount ValueCount")
def select(s: Session, given: SelectOptions) -> int:
    """List or count the entries that match an expression, in every state of a queue; done ones,
    which may be millions, only if the expression names them (state=done). Nothing is changed. The
    expressions are the same as in --where of other commands.

    Examples:
      redisq select mail --where 'error~timeout age>2h'
      redisq select mail --where 'state:dead,delayed payload.region=eu' --json
      redisq select rq:low --where 'state=done run>5s'
      redisq select --all-queues --where 'client=acme' --count
      redisq select jobs --by task
    """
    from ..actions.select import selected

    return selected(s, given)
