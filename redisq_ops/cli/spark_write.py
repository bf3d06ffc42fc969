"""What the commands have in common whose tasks write on Spark, or for whom they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Options
from .session import Session

if TYPE_CHECKING:
    from redisq_ops.pipeline.connection import Server

_PARTS = typer.Option("--parts", min=1, help="Tasks that write; each is one client.")
_RATE = typer.Option("--rate", metavar="N/s", help="Not faster than this, all tasks together.")
_QUEUE = typer.Option("--queue", metavar="NAME", help="The queue.")
QUEUE: Options = {"queue": (Annotated[str | None, _QUEUE], None)}
PACE: Options = {
    "rate": (Annotated[str | None, _RATE], None),
    "parts": (Annotated[int, _PARTS], 8),
}


def server_of(s: Session) -> Server:
    """Where this invocation's queues are, as tasks are told."""
    from redisq_ops.pipeline.connection import Server

    return Server(s.config.server_address(), s.config["prefix"] or "rq")


def rate_of(s: Session, given: Mapping[str, Any]) -> float | None:
    """What was asked for, else what the configuration allows at most."""
    from redisq_ops.ops.filter.time import per_second

    asked = None if given["rate"] is None else per_second(given["rate"])
    return s.guard.rate(asked)
