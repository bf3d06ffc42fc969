"""Commands that look at all queues or their logs: ls, log, history, config, fsck. None writes."""

from typing import Any

import typer

from ..completion import queues
from ..options import ANY_QUEUE, MOST, QUEUE, command, flag, option
from ..session import Session

commands = typer.Typer()


def _latest(default: int) -> Any:
    return option("--max", None, "Show the latest N.", default, min=1, max=MOST)


@command(commands, "ls", prints="Queue", repeats=True)
def ls(s: Session) -> int:
    """List the queues: entries by state, rates, oldest age, trouble.

    Rates (in, out) are of the last 60 seconds; the age is of the oldest waiting entry; the trouble
    is that of redisq check without rules of its own. Exit 3 if a queue could not be read; the
    others are shown.

    Examples:
      redisq ls
      redisq ls --json
      redisq ls --watch 2s
    """
    from ..actions.overview import ls

    return ls(s)


@command(commands, "log", prints="Operation", repeats=True)
def log(
    s: Session,
    *,
    queue: str | None = option(
        "--queue", "NAME", "Only changes of this queue.", autocompletion=queues
    ),
    max: int = _latest(50),
) -> int:
    """List the changes that operators made, newest first.

    Examples:
      redisq log
      redisq log --queue mail --max 5 --json
    """
    from ..actions.overview import log

    return log(s, queue, max)


@command(commands, "history", prints="Event", repeats=True)
def history(s: Session, *, queue: str = QUEUE, max: int = _latest(100)) -> None:
    """Show the latest events of a queue, oldest first.

    Examples:
      redisq history mail
      redisq history mail --max 1000 --json
    """
    from ..actions.overview import history

    history(s, queue, max)


@command(commands, "config", prints="ConfigurationValue Context")
def config(
    s: Session,
    *,
    contexts: bool = flag("--contexts", "List the contexts of the configuration file instead."),
) -> None:
    """Show every setting and where its value comes from.

    Secrets are never shown.

    Examples:
      redisq config
      redisq config --context live --json
      redisq config --contexts
    """
    from ..actions.overview import config, contexts_of_file

    if contexts:
        contexts_of_file(s)
    else:
        config(s)


@command(commands, "fsck", prints="Consistency")
def fsck(s: Session, *, queue: str | None = ANY_QUEUE) -> int:
    """Check the invariants of a queue, or of all queues.

    Exit 1 if one is violated, else 3 if something could not be read. A busy queue changes while it
    is read, so a finding counts only when repeated checks confirm it.

    Examples:
      redisq fsck
      redisq fsck mail --json
    """
    from ..actions.overview import fsck

    return fsck(s, queue)
