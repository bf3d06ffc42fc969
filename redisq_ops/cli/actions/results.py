"""`redisq results`: what a request's handlers returned."""

from __future__ import annotations

import sys
from typing import Any

from redisq_ops.core.queues.request.outcomes import SubRequestOutcome
from redisq_ops.ops.inspect.results import Results

from ..address import request_at
from ..output import count, emit, printable, say
from ..session import Session, redaction


def results(s: Session, request: str, queue: str | None, *, raw: bool) -> None:
    reader = Results(*request_at(s, request, queue))
    record = s.run(reader.request())
    while page := s.run(reader.page()):
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
