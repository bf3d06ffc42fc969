"""`redisq explain`: the rule that holds something, and the command that helps."""

import typer

from ..options import ADDRESS, command
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
    from ..actions.explain import explain

    return explain(s, address)
