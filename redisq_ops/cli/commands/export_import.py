"""`redisq export` and `redisq import`: a selection as a file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ..completion import queues, states
from ..options import GO, SELECTING, Options, argument, command, examples, flag

commands = typer.Typer()
_STATE = typer.Option(
    "--state", metavar="STATE", help="Only entries in this state; repeatable.",
    autocompletion=states,
)  # fmt: skip
_FILE = typer.Option(
    "--output", "-o", metavar="FILE", help="Write to FILE, atomically; default: stdout."
)
_RATE = typer.Option("--rate", metavar="N/s", help="Change at most N entries per second.")
_QUEUE = typer.Option(
    "--queue",
    metavar="NAME",
    help="Import into this queue; default: the one in the file.",
    autocompletion=queues,
)
_EXPORT: Mapping[str, Any] = {
    "state": (Annotated[list[str] | None, _STATE], None),
    "output": (Annotated[str | None, _FILE], None),
    "raw_payloads": flag("--raw-payloads", "Write payloads unredacted."),
}
_IMPORT: Options = {
    "file": argument("FILE", help="File that export wrote; - is stdin."),
    "queue": (Annotated[str | None, _QUEUE], None),
    "as_waiting": flag("--as-waiting", "Import every entry as waiting."),
    "rate": (Annotated[str | None, _RATE], None),
    **GO,
}

commands.command(
    "export",
    help="Write entries as JSON Lines: all waiting, pending, delayed and dead "
    "ones, or those selected. Nothing is changed.",
    epilog=examples(
        "redisq export mail -o mail.ndjson",
        "redisq export mail --state dead --match Timeout --raw-payloads -o timeouts.ndjson",
        "redisq export mail/r1 | gzip > r1.ndjson.gz",
    ),
)(command({**SELECTING, **_EXPORT}, "export_import.export"))

commands.command(
    "import",
    help="Add exported entries to a queue of the same kind. Entries that are "
    "there already stay as they are, so it can be run again.",
    epilog=examples(
        "redisq import mail.ndjson --dry-run",
        "redisq import timeouts.ndjson --queue mail-test --as-waiting --yes",
    ),
)(command(_IMPORT, "export_import.import_"))
