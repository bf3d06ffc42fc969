"""`redisq periodic`: entries that run on a schedule."""

from __future__ import annotations

from typing import Annotated

import typer

from ..completion import queues
from ..options import GO, Options, argument, command, examples

commands = typer.Typer()
periodic = typer.Typer(
    help="List the periodic entries of delay queues; add, change, pause, run and remove them."
)

commands.add_typer(periodic, name="periodic")

ENTRY = argument("QUEUE/NAME", help="Periodic entry.")
_CRON = typer.Option(
    "--cron", metavar="EXPR", help="Schedule: minute, hour, day of month, month, day of week."
)
_EVERY = typer.Option(
    "--every", metavar="SPAN", help="Schedule as an interval that divides an hour or a day: 15m."
)
_ZONE = typer.Option("--zone", metavar="ZONE", help="Time zone of the schedule. [UTC]")
_MISSED = typer.Option(
    "--missed", metavar="WHICH", help="Missed runs to make up for: one (the latest), all, none."
)
_OVERLAP = typer.Option(
    "--overlap/--no-overlap", help="Let a run begin before the run before has ended."
)
_PAYLOAD = typer.Option("--payload", metavar="PAYLOAD|-", help="Payload of the runs; -: stdin.")
SCHEDULE: Options = {
    "cron": (Annotated[str | None, _CRON], None),
    "interval": (Annotated[str | None, _EVERY], None),
    "zone": (Annotated[str | None, _ZONE], None),
    "missed": (Annotated[str | None, _MISSED], None),
    "overlap": (Annotated[bool | None, _OVERLAP], None),
}
VERBS = {
    "pause": "Schedule no runs until it is resumed. Runs that are scheduled already stay.",
    "resume": "Schedule runs again, the next one from now on; the runs of the pause are left out.",
    "run": "Run it once, now. Its schedule stays as it is.",
    "rm": "Remove a periodic entry, also a corrupt one. Runs that are scheduled already stay.",
}
_QUEUE = typer.Argument(metavar="[QUEUE]", show_default=False, autocompletion=queues)
_TEXT = typer.Argument(
    metavar="[PAYLOAD|-]", show_default=False, help="Payload of the runs; -: stdin."
)

periodic.command(
    "ls",
    help="List the periodic entries of a queue, or of all: next run, latest run, missed runs. "
    "Exit 3 if an entry is corrupt or a queue could not be read; the others are shown.",
    epilog=examples("redisq periodic ls", "redisq periodic ls later --json"),
)(command({"name": (Annotated[str | None, _QUEUE], None)}, "periodic.listed"))

periodic.command(
    "add",
    help="Add a periodic entry; creates the queue if it does not exist.",
    epilog=examples(
        "redisq periodic add later/report --cron '0 6 * * mon-fri' --zone Europe/Berlin daily",
        "redisq periodic add later/poll --every 15m --missed none --yes",
    ),
)(
    command(
        {"address": ENTRY, "payload": (Annotated[str, _TEXT], ""), **SCHEDULE, **GO},
        "periodic.change",
        "add",
    )
)

periodic.command(
    "edit",
    help="Change schedule, payload or options of a periodic entry.",
    epilog=examples("redisq periodic edit later/report --cron '30 6 * * *' --dry-run"),
)(
    command(
        {"address": ENTRY, "payload": (Annotated[str | None, _PAYLOAD], None), **SCHEDULE, **GO},
        "periodic.change",
        "edit",
    )
)


def _add(verb: str) -> None:
    periodic.command(
        verb, help=VERBS[verb], epilog=examples(f"redisq periodic {verb} later/report --yes")
    )(command({"address": ENTRY, **GO}, "periodic.change", verb))


for _verb in VERBS:
    _add(_verb)
