"""`redisq submit`: lines of a file become a request."""

from pathlib import Path

import typer

from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from ..options import MOST, QUEUE_CHOICE, SKIP_INVALID, argument, command, flag, option, options
from ..session import Session

commands = typer.Typer()
_MOST_BYTES = 512 * 1024 * 1024


@options
class SubmitOptions:
    file: str = argument("FILE", "File of lines, any bytes; - is stdin.")
    queue: str | None = QUEUE_CHOICE
    id: str | None = option("--id", "ID", "Id of the request; default: a new ULID.")
    limit: int = option(
        "--limit", None, "Sub-requests worked on at once, 1 to 1000.", default=LIMIT
    )
    priority: int = option("--priority", None, "Priority, 0 (first) to 99.", default=PRIORITY)
    split: int = option("--split", None, "Lines per sub-request.", min=1, max=MOST, default=1)
    per_line: bool = flag("--per-line", "Submit a request per line: ID-1, ID-2, …")
    max_payload: int = option(
        "--max-payload",
        None,
        "Maximum bytes of a sub-request.",
        min=0,
        max=_MOST_BYTES,
        default=MAX_PAYLOAD,
    )
    skip_invalid: Path | None = SKIP_INVALID
    wait: bool = flag("--wait", "Wait for the request to end, as redisq wait does.")
    dry_run: bool = flag("--dry-run", "Check all, count, and send nothing.")


@command(commands, "submit", prints="Submission Request")
def submit(s: Session, given: SubmitOptions) -> int:
    """Submit a file as one request, a sub-request per line. Prints the request's id.

    If it is interrupted, run it again with the same --id: it continues where it stopped, from stdin
    too. The line feed at the end of a line is removed; an empty line is a sub-request as well.

    A line over --max-payload is refused before anything is sent (from stdin: when it is read).

    Examples:
      redisq submit in.txt --queue mail
      redisq submit - --id today --split 100 --wait
      redisq submit in.txt --dry-run
    """
    from ..actions.submit import submit

    return submit(s, given)
