"""Plans as files: `--plan FILE` writes one and changes nothing, `apply` does just what it says."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, MOST, RAMPING, Options, argument, command, examples

commands = typer.Typer()
_MAX = typer.Option("--max", min=1, max=MOST, help="Stop after N entries; run again to continue.")
_REPORT = typer.Option(
    "--report", metavar="FILE", help="Write the result for each entry to FILE, as NDJSON."
)
_RATE = typer.Option("--rate", metavar="N/s", help="Change at most N entries per second.")
APPLYING: Options = {
    "file": argument("FILE", help="Plan file that --plan wrote."),
    "rate": (Annotated[str | None, _RATE], None),
    "max": (Annotated[int | None, _MAX], None),
    "report": (Annotated[str | None, _REPORT], None),
    **RAMPING,
    **GO,
}

commands.command(
    "apply",
    help="Carry out a plan file on the entries that it lists. Each is checked "
    "again, and skipped if it changed or entered its state later. Run again"
    " to continue where it stopped.",
    epilog=examples(
        "redisq apply p.ndjson --dry-run",
        "redisq apply p.ndjson --max 100 --report r.ndjson",
        "redisq apply p.ndjson --rate 200/s --reason 'smtp is back' --yes",
    ),
)(command(APPLYING, "apply.apply"))
