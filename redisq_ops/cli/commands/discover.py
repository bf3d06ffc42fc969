"""`redisq discover` and `redisq forget`: find other programs' queues, register, unregister them."""

import typer

from ..options import MOST, QUEUE, Go, command, flag, option, options
from ..session import Session

commands = typer.Typer()


@options
class DiscoverOptions:
    match: str | None = option(
        "--match", "PATTERN", "Only keys that match the pattern (? * [a-c])."
    )
    rate: str | None = option("--rate", "N/s", "Scan at most N keys per second.")
    max: int | None = option("--max", None, "Scan about N keys at most.", min=1, max=MOST)
    register: bool = flag("--register", "Add the queues that were found to the registry.")
    go: Go


@command(commands, "discover", prints="DiscoveredQueue Plan Outcome", fixed={"reason": ""})
def discover(s: Session, given: DiscoverOptions) -> int:
    """Find queues of other programs: RQ, Celery, BullMQ, Bull, arq, asynq, Dramatiq, Laravel,
    Sidekiq, Resque, Carmine, streams with consumer groups, circular lists, delay sets. Scans all
    keys of every primary and writes nothing. --register adds the queues to the registry, so that
    all commands show them.

    Examples:
      redisq discover
      redisq discover --match 'jobs:*' --rate 50000/s --json
      redisq discover --register --yes
    """
    from ..actions.discover import discover

    return discover(s, given)


@command(commands, "forget", prints="Plan Outcome", fixed={"reason": ""})
def forget(s: Session, *, name: str = QUEUE, go: Go) -> int:
    """Remove another program's queue from the registry. Its keys stay as they are.

    Examples:
      redisq forget stream:orders --yes
    """
    from ..actions.discover import forget

    return forget(s, name, go)
