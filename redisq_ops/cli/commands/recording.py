"""`redisq record | playback`: samples of all queues in a file, and the state at a moment of it."""

import typer

from ..completion import queues
from ..options import argument, command, option, options
from ..session import Session

commands = typer.Typer()


@command(commands, "record", prints="RecordingSummary")
def record(
    s: Session,
    *,
    file: str = argument("FILE", "File to write; an existing recording is continued."),
    interval: str = option("--interval", "SPAN", "Time between two samples.", default="1s"),
    duration: str | None = option("--for", "SPAN", "Stop after this time."),
    most: int = option(
        "--max-size",
        "MB",
        "Maximum size; a larger one loses its oldest minutes.",
        min=1,
        max=1_000_000,
        default=500,
    ),
) -> int:
    """Record all queues in a file: counts, rates, consumers, groups and operators' changes.

    Runs until Ctrl+C or SIGTERM. The file is an SQLite database. While the server can't be reached,
    it tries again. Needs the rights of a viewer.

    Examples:
      redisq record queues.rec
      redisq record /var/lib/redisq/queues.rec --interval 5s --max-size 2000
    """
    from ..actions.recording import record

    return record(s, file, interval, duration, most)


@options
class PlaybackOptions:
    file: str = argument("FILE", "File that redisq record wrote.")
    look: str | None = argument("[ls|consumers|log]", "What to show; default: ls.")
    at: str | None = option("--at", "TIME", "Moment: 03:12, or ISO 8601; default: the end.")
    diff: str | None = option("--diff", "TIME", "Show what changed since this moment.")
    queue: str | None = option("--queue", "NAME", "Only this queue.", autocompletion=queues)


@command(commands, "playback", prints="RecordedQueue QueueDifference ConsumerReport Operation")
def playback(s: Session, given: PlaybackOptions) -> int:
    """Show the queues at a moment of a recording, as ls, consumers ls and log show them.

    It never connects to a server.

    Examples:
      redisq playback queues.rec --at 03:12
      redisq playback queues.rec --at 03:12 --diff 03:05
      redisq playback queues.rec log --at 03:12 --queue mail --json
    """
    from ..actions.recording import playback

    return playback(s, given)
