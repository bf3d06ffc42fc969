"""Plans as files: `--plan FILE` writes one and changes nothing, `apply` does just what it says."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import GO, MOST, RAMPING, Options, argument, command, examples

commands = typer.Typer()
_MAX = typer.Option("--max", min=1, max=MOST, help="Stop after so many; apply again goes on.")
_REPORT = typer.Option("--report", metavar="FILE", help="What became of each entry, as NDJSON.")
_RATE = typer.Option("--rate", metavar="N/s", help="Not faster than this.")
APPLYING: Options = {
    "file": argument("FILE", help="As --plan wrote it."),
    "rate": (Annotated[str | None, _RATE], None),
    "max": (Annotated[int | None, _MAX], None),
    "report": (Annotated[str | None, _REPORT], None),
    **RAMPING,
    **GO,
}

commands.command(
    "apply",
    help="Do what a plan says, to just its entries: each is looked at again, and left alone if it "
    "changed or came later. Run again, it goes on where it stopped.",
    epilog=examples(
        "redisq apply p.ndjson --dry-run",
        "redisq apply p.ndjson --max 100 --report r.ndjson",
        "redisq apply p.ndjson --rate 200/s --reason 'smtp is back' --yes",
    ),
)(command(APPLYING, "apply.apply"))
