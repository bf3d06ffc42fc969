"""`redisq explain`: the rule that holds something, and the command that helps."""

from __future__ import annotations

from functools import partial

import typer

from ..options import ADDRESS, command
from ..output import age, emit, tell, when
from ..rows import tell_sentence
from ..session import Session

commands = typer.Typer()


@command(commands, "explain", prints="Explanation", repeats=True)
def explain(s: Session, *, address: str = ADDRESS) -> int:
    """Explain why an entry, request or queue does not progress, or where an entry went.

    Shows the rule that holds it, what helps, and when it will end, as far as known. Exit 1 if
    it does not exist; what the history has about it is shown.

    Examples:
      redisq explain mail/r1/17
      redisq explain mail/r1
      redisq explain mail --json
    """
    from redisq_ops.ops.explain.explanation import explain_text

    show_time = partial(when, utc=s.utc)
    found = s.run(explain_text(s.deployment, address, show_time, s.redaction))
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
            tell(f"  {one.deed}:")
            tell(f"    {one.command}")
    return 0 if found.known else 1
