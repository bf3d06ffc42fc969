"""`redisq results`: what the handlers of a request or entry returned."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from ..address import request_of
from ..options import argument, command, flag
from ..output import count, emit, printable, say
from ..session import Session, redaction

if TYPE_CHECKING:
    from redisq_ops.core.queues.request.outcomes import SubRequestOutcome

commands = typer.Typer()


@command(commands, "results", prints="Result")
def results(
    s: Session,
    *,
    id: str = argument("ID", "Request, sub-request or entry, by id or as QUEUE/ID."),
    raw: bool = flag("--raw", "Print the bytes of each result and a line feed, not JSON."),
) -> None:
    """Print the results of a request in order, or of an entry: a JSON object for each.

    Each has n and state, then result (text), result_b64 (other bytes) or, if dead, error; result is
    null where there is none. --raw omits sub-requests without a result; on a terminal it escapes
    control characters. An entry is a sub-request, or one of a delay set or fair queue, such as a
    job of redisq_ops.tasks.

    Examples:
      redisq results mail/r1
      redisq results r1 --raw
      redisq results mail/r1/17
      redisq results later/e1
    """
    from redisq_ops.core.engine.entry_results import EntryResults
    from redisq_ops.ops.inspect.results import Results, of_entry

    at = s.run(s.deployment.resolve(id))
    if isinstance(at.queue, EntryResults) and at.id is not None:
        return _print(s.run(of_entry(at.queue, at.id)), raw)
    queue, request = request_of(at)
    if "/" in request:
        return _print(s.run(of_entry(queue, request)), raw)
    reader = Results(queue, request)
    record = s.run(reader.request())
    while page := s.run(reader.page()):
        for outcome in page:
            _print(outcome, raw)
    if record.results_dropped:
        say(f"{count(record.results_dropped)} results weren't kept: over 64 MiB in this request")


def _print(outcome: SubRequestOutcome, raw: bool) -> None:
    if not raw:
        emit(_row(outcome))
    elif outcome.result is not None:
        result = redaction().payload(outcome.result)
        if sys.stdout.isatty():
            print(printable(result))
        else:
            sys.stdout.buffer.write(result + b"\n")


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
