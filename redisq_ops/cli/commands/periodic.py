"""`redisq periodic`: entries that run on a schedule."""

import typer

from ..options import ANY_QUEUE, Go, argument, command, flag, option, options
from ..session import Session

commands = typer.Typer()
periodic = typer.Typer(
    help="List the periodic entries of delay sets; add, change, pause, run and remove them."
    " Schedules of other programs are listed as well, and changed where the program can."
)
commands.add_typer(periodic, name="periodic")
_CHANGE = "Plan Outcome"
_ADDRESS = argument("QUEUE/NAME", "Periodic entry.")


@options
class Schedule:
    """When a periodic entry runs, and how runs go together."""

    cron: str | None = option(
        "--cron", "EXPR", "Schedule: minute, hour, day of month, month, day of week."
    )
    interval: str | None = option(
        "--every", "SPAN", "Schedule as an interval that divides an hour or a day: 15m."
    )
    zone: str | None = option("--zone", "ZONE", "Time zone of the schedule. [UTC]")
    missed: str | None = option(
        "--missed", "WHICH", "Missed runs to make up for: one (the latest), all, none."
    )
    overlap: bool | None = flag(
        "--overlap/--no-overlap",
        "Let a run start while the previous one is unfinished.",
        default=None,
    )


@command(periodic, "ls", prints="PeriodicEntry", repeats=True)
def ls(s: Session, *, name: str | None = ANY_QUEUE) -> int:
    """List the periodic entries of a queue, or of all: next run, latest run, missed runs. Exit 3 if
    an entry is corrupt or a queue could not be read; the others are shown.

    Examples:
      redisq periodic ls
      redisq periodic ls later --json
    """
    from ..actions.periodic import listed

    return listed(s, name)


@command(periodic, "add", prints=_CHANGE)
def add(
    s: Session,
    *,
    address: str = _ADDRESS,
    payload: str | None = argument("[PAYLOAD|-]", "Payload of the runs; -: stdin."),
    schedule: Schedule,
    go: Go,
) -> int:
    """Add a periodic entry; creates the queue if it does not exist.

    Examples:
      redisq periodic add later/report --cron '0 6 * * mon-fri' --zone Europe/Berlin daily
      redisq periodic add later/poll --every 15m --missed none --yes
    """
    from ..actions.periodic import scheduled

    return scheduled(s, "add", address, schedule, payload, go)


@command(periodic, "edit", prints=_CHANGE)
def edit(
    s: Session,
    *,
    address: str = _ADDRESS,
    payload: str | None = option("--payload", "PAYLOAD|-", "Payload of the runs; -: stdin."),
    schedule: Schedule,
    go: Go,
) -> int:
    """Change schedule, payload or options of a periodic entry.

    Examples:
      redisq periodic edit later/report --cron '30 6 * * *' --dry-run
    """
    from ..actions.periodic import scheduled

    return scheduled(s, "edit", address, schedule, payload, go)


@command(periodic, "pause", prints=_CHANGE)
def pause(s: Session, *, address: str = _ADDRESS, go: Go) -> int:
    """Schedule no runs until it is resumed. Runs that are scheduled already stay.

    Examples:
      redisq periodic pause later/report --yes
    """
    from ..actions.periodic import change

    return change(s, "pause", address, go)


@command(periodic, "resume", prints=_CHANGE)
def resume(s: Session, *, address: str = _ADDRESS, go: Go) -> int:
    """Schedule runs again, from now on; runs due during the pause are skipped.

    Examples:
      redisq periodic resume later/report --yes
    """
    from ..actions.periodic import change

    return change(s, "resume", address, go)


@command(periodic, "run", prints=_CHANGE)
def run(s: Session, *, address: str = _ADDRESS, go: Go) -> int:
    """Run a periodic entry once, now. Its schedule stays as it is.

    Examples:
      redisq periodic run later/report --yes
    """
    from ..actions.periodic import change

    return change(s, "run", address, go)


@command(periodic, "rm", prints=_CHANGE)
def rm(s: Session, *, address: str = _ADDRESS, go: Go) -> int:
    """Remove a periodic entry, also a corrupt one. Runs that are scheduled already stay.

    Examples:
      redisq periodic rm later/report --yes
    """
    from ..actions.periodic import change

    return change(s, "rm", address, go)
