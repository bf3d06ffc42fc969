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
    file: Annotated[str, typer.Argument(metavar="FILE", help="Lines of any bytes; - is stdin.")],
    queue: OneQueue = None,
    id: Annotated[str | None, typer.Option(help="The request's id, else a new ULID.")] = None,
    limit: Annotated[int, typer.Option(help="Sub-requests worked on at once, 1 to 1000.")] = LIMIT,
    priority: Annotated[int, typer.Option(help="0 (first) to 99.")] = PRIORITY,
    split: Annotated[int, typer.Option(max=MOST, help="Lines per sub-request.")] = 1,
    per_line: Annotated[
        bool, typer.Option("--per-line", help="A request per line: ID-1, ID-2, …")
    ] = False,
    max_payload: Annotated[
        int, typer.Option(min=0, max=_MOST_BYTES, help="Bytes a sub-request may have.")
    ] = MAX_PAYLOAD,
    skip_invalid: SkipInvalid = None,
    wait: Annotated[bool, typer.Option("--wait", help="Then wait for it, as redisq wait.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count; send nothing.")] = False,
) -> int:
    """Submit a file: one request, a sub-request per line. Prints the request's id.

    Interrupted anywhere, the same command with the same --id goes on where it stopped, from stdin
    too. Of a line its end (a line feed) is removed; empty lines are sub-requests as well.

    A line over --max-payload is refused before anything is sent (on stdin: when it comes).
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
