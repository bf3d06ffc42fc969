"""`redisq workers`: list and prune the worker processes that other programs register."""

import typer

from ..options import QUEUE, Go, argument, command, flag, option, options
from ..session import Session

commands = typer.Typer()
_workers = typer.Typer(help="List worker processes; prune those of other programs.")
commands.add_typer(_workers, name="workers")


@command(_workers, "ls", prints="WorkerProcess", repeats=True)
def ls(
    s: Session, *, queue: str | None = argument("[QUEUE]", "Queue; default: all queues.")
) -> int:
    """List the worker processes that RQ, Sidekiq and other programs register: alive or silent,
    their last heartbeat, the jobs they hold. With a queue, also the workers of redisq that serve
    it.

    Examples:
      redisq workers ls
      redisq workers ls mail
      redisq workers ls sidekiq --json
    """
    from ..actions.workers import listed

    return listed(s, queue)


@options
class PruneOptions:
    name: str = QUEUE
    process: str | None = argument("[NAME]", "Process; default: all silent ones.")
    older_than: str | None = option(
        "--older-than", "AGE", "Minimum silence: 30s, 5m; default: the owner's own limit."
    )
    rescue: bool = flag(
        "--rescue/--no-rescue",
        "Move their jobs back to waiting, first in their queue. Without it "
        "Sidekiq loses them and Resque counts them as failed.",
        default=True,
    )
    go: Go


@command(_workers, "prune", prints="Plan Outcome")
def prune(s: Session, given: PruneOptions) -> int:
    """Remove dead worker processes from the register of Sidekiq or Resque, and rescue their jobs.
    Each process is checked again in the step that removes it. There is no undo.

    Examples:
      redisq workers prune sidekiq --dry-run
      redisq workers prune sidekiq --older-than 30s --yes
      redisq workers prune resque box:78:mail --reason rebooted --yes
    """
    from ..actions.workers import pruned

    return pruned(s, given)
