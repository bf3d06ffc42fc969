"""`redisq record | playback`: samples of all queues in a file, and the state at a moment of it."""

from __future__ import annotations

import typer

from ..completion import queues
from ..options import add, argument, option

commands = typer.Typer()

add(
    commands, "record",
    {
        "file": argument("FILE", help="File to write; an existing recording is continued."),
        "interval": option("--interval", "SPAN", "Time between two samples.", default="1s"),
        "duration": option("--for", "SPAN", "Stop after this time."),
        "most": option(
            "--max-size", "MB", "Maximum size; a larger one loses its older half.", int, 500, min=1,
            max=1_000_000,
        ),
    },
    "recording.record",
    help="""Record all queues in a file: counts, rates, consumers, groups and operators' changes.

    Runs until Ctrl+C or SIGTERM. The file is compressed. While the server can't be reached, it
    tries again. Needs the rights of a viewer.
    """,
    prints="RecordingSummary",
    examples=(
        "redisq record queues.rec",
        "redisq record /var/lib/redisq/queues.rec --interval 5s --max-size 2000",
    ),
)  # fmt: skip

add(
    commands, "playback",
    {
        "file": argument("FILE", help="File that redisq record wrote."),
        "look": argument("[ls|consumers|log]", help="What to show; default: ls."),
        "at": option("--at", "TIME", "Moment: 03:12, or ISO 8601; default: the end."),
        "diff": option("--diff", "TIME", "Show what changed since this moment."),
        "queue": option("--queue", "NAME", "Only this queue.", autocompletion=queues),
    },
    "recording.playback",
    help="""Show the queues at a moment of a recording, as ls, consumers ls and log show them.

    It never connects to a server.
    """,
    prints="RecordedQueue QueueDifference ConsumerReport Operation",
    examples=(
        "redisq playback queues.rec --at 03:12",
        "redisq playback queues.rec --at 03:12 --diff 03:05",
        "redisq playback queues.rec log --at 03:12 --queue mail --json",
    ),
)  # fmt: skip
