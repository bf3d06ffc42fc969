"""`redisq explain`: the rule that holds something, and the verb that helps."""

from __future__ import annotations

from typing import Annotated

import typer

from .app import app, examples
from .completion import queues
from .rows import tell, tell_sentence
from .session import session


@app.command(
    epilog=examples(
        "redisq explain mail/r1/17", "redisq explain mail/r1", "redisq explain mail --json"
    )
)
def explain(
    context: typer.Context,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", show_default=False, autocompletion=queues)
    ],
) -> int:
    """Why is it not running, not finishing, or where did it go?

    Of an entry, a request or a queue: the rule that holds it, what helps, and when that will be
    over, as far as anybody can tell. Exit 1 if it isn't there; what the history says is told.
    """
    from functools import partial

    from redisq_ops.ops.explain.explanation import explain_text

    from .output import age, emit, when

    s = session(context)
    found = s.run(explain_text(s.deployment, address, partial(when, utc=s.utc), s.redaction))
    if s.json:
        emit(found.row())
        return 0 if found.known else 1
    first = found.reason
    tell(f"{found.what} {found.address}: {found.state or 'not there'}")
    tell_sentence(first.sentence)
    if first.eta_ms is not None:
        left = max(0, first.eta_ms - found.now_ms)
        about = "≈ " if first.estimate else ""
        basis = f": {first.basis}" if first.basis else ""
        tell_sentence(f"when: {about}in {age(left)} ({when(first.eta_ms, s.utc)}){basis}")
    for one in found.also:
        tell_sentence(f"also: {one.sentence}")
    for one in (first, *found.also):
        if one.command is not None:
            tell(f"  {one.verb}: {one.command}")
    return 0 if found.known else 1
