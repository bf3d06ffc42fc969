"""Plans as files: `--plan FILE` writes one and changes nothing, `apply` does just what it says."""

import typer

from ..options import MOST, RATE, Go, Ramping, argument, command, option, options
from ..session import Session

commands = typer.Typer()


@options
class ApplyOptions:
    file: str = argument("FILE", "Plan file that --plan wrote.")
    rate: str | None = RATE
    max: int | None = option(
        "--max", None, "Stop after N entries; run again to continue.", min=1, max=MOST
    )
    report: str | None = option(
        "--report", "FILE", "Write the result for each entry to FILE, as NDJSON."
    )
    ramping: Ramping
    go: Go


@command(commands, "apply", prints="Plan Outcome")
def apply(s: Session, given: ApplyOptions) -> int:
    """Carry out a plan file on the entries that it lists. Each is checked again, and skipped if it
    changed or entered its state later. Run again to continue where it stopped.

    Examples:
      redisq apply p.ndjson --dry-run
      redisq apply p.ndjson --max 100 --report r.ndjson
      redisq apply p.ndjson --rate 200/s --reason 'smtp is back' --yes
    """
    from ..actions.apply import apply

    return apply(s, given)
