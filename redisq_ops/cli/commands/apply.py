"""Plans as files: `--plan FILE` writes one and changes nothing, `apply` does just what it says."""

from __future__ import annotations

import typer

from ..options import GO, MOST, RAMPING, RATE, add, argument, option

commands = typer.Typer()

add(
    commands, "apply",
    {
        "file": argument("FILE", help="Plan file that --plan wrote."),
        "rate": RATE,
        "max": option(
            "--max", None, "Stop after N entries; run again to continue.", int, min=1, max=MOST
        ),
        "report": option("--report", "FILE", "Write the result for each entry to FILE, as NDJSON."),
        **RAMPING,
        **GO,
    },
    "apply.apply",
    help="Carry out a plan file on the entries that it lists. Each is checked again, and skipped "
    "if it changed or entered its state later. Run again to continue where it stopped.",
    prints="Plan Outcome",
    examples=(
        "redisq apply p.ndjson --dry-run",
        "redisq apply p.ndjson --max 100 --report r.ndjson",
        "redisq apply p.ndjson --rate 200/s --reason 'smtp is back' --yes",
    ),
)  # fmt: skip
