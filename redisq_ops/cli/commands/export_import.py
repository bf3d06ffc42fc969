"""`redisq export` and `redisq import`: a selection as a file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ..completion import queues, states
from ..options import GO, SELECTING, Options, argument, command, examples, flag

commands = typer.Typer()
_STATE = typer.Option(
    "--state", metavar="STATE", help="Only this one; may be given repeatedly.",
    autocompletion=states,
)  # fmt: skip
_FILE = typer.Option(
    "--output", "-o", metavar="FILE", help="Instead of stdout; whole or not there."
)
_RATE = typer.Option("--rate", metavar="N/s", help="Not faster than this.")
_QUEUE = typer.Option(
    "--queue", metavar="NAME", help="Into this one, not the file's.", autocompletion=queues
)
_EXPORT: Mapping[str, Any] = {
    "state": (Annotated[list[str] | None, _STATE], None),
    "output": (Annotated[str | None, _FILE], None),
    "raw_payloads": flag("--raw-payloads", "Payloads as they are, whatever is redacted."),
}
_IMPORT: Options = {
    "file": argument("FILE", help="What export wrote; - is stdin."),
    "queue": (Annotated[str | None, _QUEUE], None),
    "as_waiting": flag("--as-waiting", "All wait for a worker, whatever they were."),
    "rate": (Annotated[str | None, _RATE], None),
    **GO,
}

commands.command(
    "export",
    help="Write entries as JSON Lines: all that wait, are pending, delayed or dead, or those "
    "chosen. Nothing is changed.",
    epilog=examples(
        "redisq export mail -o mail.ndjson",
        "redisq export mail --state dead --match Timeout --raw-payloads -o timeouts.ndjson",
        "redisq export mail/r1 | gzip > r1.ndjson.gz",
    ),
)(command({**SELECTING, **_EXPORT}, "export_import.export"))

commands.command(
    "import",
    help="Put exported entries into a queue of the same kind. What is there already is left as "
    "it is, so it can be run again.",
    epilog=examples(
        "redisq import mail.ndjson --dry-run",
        "redisq import timeouts.ndjson --queue mail-test --as-waiting --yes",
    ),
)(command(_IMPORT, "export_import.import_"))
