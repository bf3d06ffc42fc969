"""`redisq submit`: lines of a file become a request."""

from __future__ import annotations

import typer

from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from ..options import MOST, QUEUE, SKIP_INVALID, add, argument, flag, option

commands = typer.Typer()
_MOST_BYTES = 512 * 1024 * 1024

add(
    commands, "submit",
    {
        "file": argument("FILE", help="File of lines, any bytes; - is stdin."),
        "queue": QUEUE,
        "id": option("--id", "ID", "Id of the request; default: a new ULID."),
        "limit": option("--limit", None, "Sub-requests worked on at once, 1 to 1000.", int, LIMIT),
        "priority": option("--priority", None, "Priority, 0 (first) to 99.", int, PRIORITY),
        "split": option("--split", None, "Lines per sub-request.", int, 1, min=1, max=MOST),
        "per_line": flag("--per-line", "Submit a request per line: ID-1, ID-2, …"),
        "max_payload": option(
            "--max-payload", None, "Maximum bytes of a sub-request.", int, MAX_PAYLOAD, min=0,
            max=_MOST_BYTES,
        ),
        "skip_invalid": SKIP_INVALID,
        "wait": flag("--wait", "Wait for the request to end, as redisq wait does."),
        "dry_run": flag("--dry-run", "Check all, count, and send nothing."),
    },
    "submit.submit",
    help="""Submit a file as one request, a sub-request per line. Prints the request's id.

    If it is interrupted, run it again with the same --id: it continues where it stopped, from stdin
    too. The line feed at the end of a line is removed; an empty line is a sub-request as well.

    A line over --max-payload is refused before anything is sent (from stdin: when it is read).
    """,
    prints="Submission Request",
    examples=(
        "redisq submit in.txt --queue mail",
        "redisq submit - --id today --split 100 --wait",
        "redisq submit in.txt --dry-run",
    ),
)  # fmt: skip
