"""`redisq demo`: the dashboard on a demo server that has every kind of queue, and incidents."""

import typer

from ..options import command, option
from ..session import Session

INCIDENTS = ("wrong-deploy", "stuck", "silent-worker", "blocked-client", "poison", "flood")
FRAMEWORKS = ("arq", "bullmq", "celery", "dramatiq", "rq")
"""named here too: the help must not load the demo and with it the Redis client"""

commands = typer.Typer()


@command(commands, "demo", prints="")
def demo(
    s: Session,
    *,
    incident: str | None = option(
        "--incident",
        "NAME",
        f"One incident instead of all: {', '.join(INCIDENTS)}.",
        autocompletion=lambda incomplete: [n for n in INCIDENTS if n.startswith(incomplete)],
    ),
    frameworks: str | None = option(
        "--with",
        "NAME[=DIR],...",
        f"Also run these frameworks' own producers and workers: {', '.join(FRAMEWORKS)}. DIR: "
        "where it is installed, if not beside redisq (virtual environment, npm prefix).",
        autocompletion=lambda incomplete: [n for n in FRAMEWORKS if n.startswith(incomplete)],
    ),
) -> int:
    """Open the dashboard on a demo server with incidents to solve; both end together.

    The server is temporary and has queues of every kind and a workload. A line below the tabs
    names what is wrong and the next key. No other server is used.

    Queues of other programs hold sample data. With --with, the programs themselves fill and
    work theirs; they end with the demo.

    Without a terminal, prints one frame.

    Examples:
      redisq demo
      redisq demo --incident poison
      redisq demo --with celery,rq
      redisq demo --with celery,bullmq=~/shop,arq=~/jobs/.venv
    """
    from .top import TopOptions, open_dashboard

    return open_dashboard(s, TopOptions(demo=True), incident, frameworks)
