"""`redisq export` and `redisq import`: a selection as a file, and back."""

from __future__ import annotations

import typer

from ..completion import queues, states
from ..options import GO, RATE, SELECTING, add, argument, flag, option

commands = typer.Typer()

add(
    commands, "export",
    {
        **SELECTING,
        "state": option(
            "--state", "STATE", "Only entries in this state; repeatable.", list[str],
            autocompletion=states,
        ),
        "output": option("--output -o", "FILE", "Write to FILE, atomically; default: stdout."),
        "raw_payloads": flag("--raw-payloads", "Write payloads unredacted."),
    },
    "export_import.export",
    help="Write entries as JSON Lines: all waiting, pending, delayed and dead ones, or those "
    "selected. Nothing is changed.",
    prints="ExportSummary",
    examples=(
        "redisq export mail -o mail.ndjson",
        "redisq export mail --state dead --match Timeout --raw-payloads -o timeouts.ndjson",
        "redisq export mail/r1 | gzip > r1.ndjson.gz",
    ),
)  # fmt: skip

add(
    commands, "import",
    {
        "file": argument("FILE", help="File that export wrote; - is stdin."),
        "queue": option(
            "--queue", "NAME", "Import into this queue; default: the one in the file.",
            autocompletion=queues,
        ),
        "as_waiting": flag("--as-waiting", "Import every entry as waiting."),
        "rate": RATE,
        **GO,
    },
    "export_import.import_",
    help="Add exported entries to a queue of the same kind. Entries that are there already stay as "
    "they are, so it can be run again.",
    prints="ImportProblem Plan Outcome",
    examples=(
        "redisq import mail.ndjson --dry-run",
        "redisq import timeouts.ndjson --queue mail-test --as-waiting --yes",
    ),
)  # fmt: skip
