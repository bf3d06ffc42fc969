"""`redisq periodic`: entries that run on a schedule."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, WATCHING, Options, add, argument, option

commands = typer.Typer()
periodic = typer.Typer(
    help="List the periodic entries of delay sets; add, change, pause, run and remove them."
)
commands.add_typer(periodic, name="periodic")

ENTRY = argument("QUEUE/NAME", help="Periodic entry.")
_OVERLAP = typer.Option(
    "--overlap/--no-overlap", help="Let a run start while the previous one is unfinished."
)
SCHEDULE: Options = {
    "cron": option("--cron", "EXPR", "Schedule: minute, hour, day of month, month, day of week."),
    "interval": option(
        "--every", "SPAN", "Schedule as an interval that divides an hour or a day: 15m."
    ),
    "zone": option("--zone", "ZONE", "Time zone of the schedule. [UTC]"),
    "missed": option(
        "--missed", "WHICH", "Missed runs to make up for: one (the latest), all, none."
    ),
    "overlap": (Annotated[bool | None, _OVERLAP], None),
}

add(
    periodic, "ls", {"name": argument("[QUEUE]"), **WATCHING}, "periodic.listed",
    help="List the periodic entries of a queue, or of all: next run, latest run, missed runs. "
    "Exit 3 if an entry is corrupt or a queue could not be read; the others are shown.",
    prints="PeriodicEntry",
    examples=("redisq periodic ls", "redisq periodic ls later --json"),
)  # fmt: skip
add(
    periodic, "add",
    {
        "address": ENTRY,
        "payload": argument("[PAYLOAD|-]", help="Payload of the runs; -: stdin."),
        **SCHEDULE, **GO,
    },
    "periodic.change", "add",
    help="Add a periodic entry; creates the queue if it does not exist.",
    prints="Plan Outcome",
    examples=(
        "redisq periodic add later/report --cron '0 6 * * mon-fri' --zone Europe/Berlin daily",
        "redisq periodic add later/poll --every 15m --missed none --yes",
    ),
)  # fmt: skip
add(
    periodic, "edit",
    {
        "address": ENTRY,
        "payload": option("--payload", "PAYLOAD|-", "Payload of the runs; -: stdin."),
        **SCHEDULE, **GO,
    },
    "periodic.change", "edit",
    help="Change schedule, payload or options of a periodic entry.",
    prints="Plan Outcome",
    examples=("redisq periodic edit later/report --cron '30 6 * * *' --dry-run",),
)  # fmt: skip

VERBS = {
    "pause": "Schedule no runs until it is resumed. Runs that are scheduled already stay.",
    "resume": "Schedule runs again, from now on; runs due during the pause are skipped.",
    "run": "Run a periodic entry once, now. Its schedule stays as it is.",
    "rm": "Remove a periodic entry, also a corrupt one. Runs that are scheduled already stay.",
}
for _verb, _help in VERBS.items():
    add(
        periodic, _verb, {"address": ENTRY, **GO}, "periodic.change", _verb,
        help=_help, prints="Plan Outcome",
        examples=(f"redisq periodic {_verb} later/report --yes",),
    )  # fmt: skip
