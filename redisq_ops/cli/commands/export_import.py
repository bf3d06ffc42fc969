"""`redisq export` and `redisq import`: a selection as a file, and back."""

import typer

from ..completion import queues, states
from ..options import RATE, Go, Selecting, argument, command, flag, option, options
from ..session import Session

commands = typer.Typer()


@options
class ExportOptions:
    selecting: Selecting
    state: list[str] | None = option(
        "--state", "STATE", "Only entries in this state; repeatable.", autocompletion=states
    )
    output: str | None = option(
        "--output -o", "FILE", "Write to FILE, atomically; default: stdout."
    )
    raw_payloads: bool = flag("--raw-payloads", "Write payloads unredacted.")


@command(commands, "export", prints="ExportSummary")
def export(s: Session, given: ExportOptions) -> int:
    """Write entries as JSON Lines: all waiting, pending, delayed and dead ones, or those selected.
    Nothing is changed.

    Examples:
      redisq export mail -o mail.ndjson
      redisq export mail --state dead --match Timeout --raw-payloads -o timeouts.ndjson
      redisq export mail/r1 | gzip > r1.ndjson.gz
    """
    from ..actions.export_import import export

    return export(s, given)


@options
class ImportOptions:
    file: str = argument("FILE", "File that export wrote; - is stdin.")
    queue: str | None = option(
        "--queue",
        "NAME",
        "Import into this queue; default: the one in the file.",
        autocompletion=queues,
    )
    as_waiting: bool = flag("--as-waiting", "Import every entry as waiting.")
    rate: str | None = RATE
    go: Go


@command(commands, "import", prints="ImportProblem Plan Outcome")
def import_(s: Session, given: ImportOptions) -> int:
    """Add exported entries to a queue of the same kind. Entries that are there already stay as they
    are, so it can be run again.

    Examples:
      redisq import mail.ndjson --dry-run
      redisq import timeouts.ndjson --queue mail-test --as-waiting --yes
    """
    from ..actions.export_import import import_

    return import_(s, given)
