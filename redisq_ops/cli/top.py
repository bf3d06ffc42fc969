"""`redisq top`, also as `redisq-top`: the dashboard, or one frame of it as text."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from datetime import UTC
from typing import TYPE_CHECKING, Annotated

import typer

from . import run
from .app import app, examples
from .completion import queues
from .session import Session, session

if TYPE_CHECKING:
    from redisq_ops.ops.inspect.snapshot import Snapshot
    from redisq_ops.tui.poller import Connected

DEMO_S = 4.0
"""how long the demo works before its only frame is taken"""


@app.command(
    epilog=examples(
        "redisq top", "redisq top --queue mail --interval 0.5", "redisq top --once --json"
    )
)
def top(
    context: typer.Context,
    queue: Annotated[
        str | None, typer.Option(help="Open this queue at once.", autocompletion=queues)
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between refreshes.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame as text.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Change nothing.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="On a server and work of its own.")] = False,
) -> int:
    """The dashboard: what all queues do, and the keys to put them right.

    Without a terminal, or with --once, prints one frame of COLUMNS × LINES, else 120 × 40. With
    --json it prints once what redisq ls prints, with --queue what redisq inspect queue does.
    """
    from math import isfinite

    from redisq_ops.core.model.errors import BadInput

    if not isfinite(interval):
        raise BadInput(f"--interval {interval}: say how many seconds")
    invocation = session(context)
    invocation.role = "top"
    with ExitStack() as stack:
        once = once or invocation.json or not sys.stdout.isatty()
        if demo:
            from redisq_ops.demo.demonstration import demonstration

            invocation.flags["url"] = stack.enter_context(demonstration())
            if once:
                time.sleep(DEMO_S)
        if invocation.no_redact:
            _ = invocation.redaction  # refused before there is a screen
        if invocation.json:
            return _told(context, queue)
        return _show(invocation, queue, interval, once, read_only)


def _told(context: typer.Context, queue: str | None) -> int:
    """What a frame is drawn from, for programs: the same rows as other commands have."""
    from . import inspect, overview

    if queue is None:
        return overview.ls(context)
    inspect.inspect_queue(context, queue)
    return 0


def _show(
    invocation: Session, queue: str | None, interval: float, once: bool, read_only: bool
) -> int:
    from redisq_ops.tui.app import Top
    from redisq_ops.tui.poller import Live

    dashboard = Top(
        Live(lambda: _connect(invocation)),
        interval=interval,
        queue=queue,
        read_only=read_only,
        zone=UTC if invocation.utc else None,
    )
    if once:
        if queue is not None:  # a frame of something else would answer another question
            invocation.run(invocation.deployment.queue(queue))
        from redisq_ops.tui.frame import frame

        sys.stdout.write(frame(dashboard, _size()))
        return 3 if dashboard.snapshot and _unread(dashboard.snapshot) else 0
    if error := dashboard.run():
        raise error
    return 0


def _unread(seen: Snapshot) -> bool:
    """Whether some of it couldn't be read, as `ls` says it of the same queues."""
    shown = [row.counts for row in seen.overview] + [seen.counts]
    refused = [row.problem for row in seen.overview] + [seen.problem]
    return any(refused) or any(counts.problem for counts in shown if counts)


def main() -> None:
    """The command `redisq-top`."""
    sys.exit(run(["top", *sys.argv[1:]]))


def _connect(invocation: Session) -> Connected:
    from redisq_ops.core.redis.client import aconnect
    from redisq_ops.ops.deployment import Deployment
    from redisq_ops.tui.poller import Connected

    config = invocation.config
    target = config.server_address()
    client = aconnect(target, invocation.role)
    deployment = Deployment(client, prefix=config["prefix"] or "rq")
    word = config["label"] or config.context or ""
    return Connected(
        str(target), deployment, config.read_only, config.guard, invocation.redaction, word,
        config["color"] or "",
    )  # fmt: skip


def _size() -> tuple[int, int]:
    def cells(name: str, usual: int) -> int:
        word = os.environ.get(name, "")
        return int(word) if word.isdigit() and 0 < len(word) < 5 and int(word) else usual

    return cells("COLUMNS", 120), cells("LINES", 40)
