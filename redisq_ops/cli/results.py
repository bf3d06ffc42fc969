"""`redisq results`: what a request's handlers returned."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .address import request_at
from .app import app, examples
from .options import OneQueue
from .session import redaction, session

if TYPE_CHECKING:
    from redisq_ops.core.queues.request.outcomes import SubRequestOutcome


@app.command(epilog=examples("redisq results mail/r1", "redisq results r1 --raw"))
def results(
    context: typer.Context,
    request: Annotated[str, typer.Argument(metavar="ID", help="An id, or QUEUE/REQUEST.")],
    queue: OneQueue = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The bytes of each result and a line feed, no JSON.")
    ] = False,
) -> None:
    """The results of a request in order, a JSON object per sub-request.

    It has n and state, then result (text), result_b64 (other bytes) or, where dead, error; result
    is null where there is none. --raw leaves those out; a terminal gets them escaped, as it would
    act on their bytes.
    """
    from redisq_ops.ops.inspect.results import Results

    from .output import count, emit, printable, say

    s = session(context)
    look = Results(*request_at(s, request, queue))
    record = s.run(look.request())
    while page := s.run(look.page()):
        for outcome in page:
            if not raw:
                emit(_row(outcome))
            elif outcome.result is not None:
                result = redaction().payload(outcome.result)
                if sys.stdout.isatty():
                    print(printable(result))
                else:
                    sys.stdout.buffer.write(result + b"\n")
    if record.results_dropped:
        say(f"{count(record.results_dropped)} results weren't kept: over 64 MiB in this request")


def _row(outcome: SubRequestOutcome) -> dict[str, Any]:
    row: dict[str, Any] = {"n": outcome.number, "state": outcome.state}
    if outcome.state != "dead":
        result = outcome.result
        return row | {"result": None if result is None else redaction().payload(result)}
    error = redaction().failure(outcome.error)
    return row | {
        "error": {
            "reason": outcome.reason,
            "type": error.type if error else None,
            "message": error.message if error else outcome.problem,
        }
    }
