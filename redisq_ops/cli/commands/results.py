"""`redisq results`: what a request's handlers returned."""

import typer

from ..options import QUEUE_CHOICE, argument, command, flag
from ..session import Session

commands = typer.Typer()


@command(commands, "results", prints="Result")
def results(
    s: Session,
    *,
    request: str = argument("ID", "Request, by id or as QUEUE/REQUEST."),
    queue: str | None = QUEUE_CHOICE,
    raw: bool = flag("--raw", "Print the bytes of each result and a line feed, not JSON."),
) -> None:
    """Print the results of a request in order, a JSON object per sub-request.

    Each has n and state, then result (text), result_b64 (other bytes) or, if dead, error; result is
    null where there is none. --raw omits sub-requests without a result; on a terminal it escapes
    control characters.

    Examples:
      redisq results mail/r1
      redisq results r1 --raw
    """
    from ..actions.results import results

    results(s, request, queue, raw=raw)
