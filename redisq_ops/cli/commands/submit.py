"""`redisq submit`: lines of a file become a request."""

from __future__ import annotations

from typing import Annotated

import typer

from redisq_ops.core.model.settings import LIMIT, MAX_PAYLOAD, PRIORITY

from ..options import MOST, OneQueue, SkipInvalid, examples, perform

commands = typer.Typer()
_MOST_BYTES = 512 * 1024 * 1024


@commands.command(
    epilog=examples(
        "redisq submit in.txt --queue mail",
        "redisq submit - --id today --split 100 --wait",
        "redisq submit in.txt --dry-run",
    )
)
def submit(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="File of lines, any bytes; - is stdin.")
    ],
    queue: OneQueue = None,
    id: Annotated[str | None, typer.Option(help="Id of the request; default: a new ULID.")] = None,
    limit: Annotated[int, typer.Option(help="Sub-requests worked on at once, 1 to 1000.")] = LIMIT,
    priority: Annotated[int, typer.Option(help="Priority, 0 (first) to 99.")] = PRIORITY,
    split: Annotated[int, typer.Option(max=MOST, help="Lines per sub-request.")] = 1,
    per_line: Annotated[
        bool, typer.Option("--per-line", help="Submit a request per line: ID-1, ID-2, …")
    ] = False,
    max_payload: Annotated[
        int, typer.Option(min=0, max=_MOST_BYTES, help="Maximum bytes of a sub-request.")
    ] = MAX_PAYLOAD,
    skip_invalid: SkipInvalid = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the request to end, as redisq wait does.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count and send nothing.")] = False,
) -> int:
    """Submit a file as one request, a sub-request per line. Prints the request's id.

    If it is interrupted, run it again with the same --id: it continues where it stopped, from stdin
    too. The line feed at the end of a line is removed; an empty line is a sub-request as well.

    A line over --max-payload is refused before anything is sent (from stdin: when it is read).
    """
    return perform(
        context,
        "submit.submit",
        file,
        queue,
        id,
        limit,
        priority,
        split,
        per_line,
        max_payload,
        skip_invalid,
        wait,
        dry_run,
    )
