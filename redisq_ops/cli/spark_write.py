"""What the commands have in common whose tasks write on Spark, or for whom they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from redisq_ops.ops.filter.time import per_second

from .session import Session

if TYPE_CHECKING:
    from redisq_ops.pipeline.connection import Server


def server_of(s: Session) -> Server:
    """Where this invocation's queues are, as tasks are told."""
    from redisq_ops.pipeline.connection import Server

    return Server(s.config.server_address(), s.config["prefix"] or "rq")


def rate_of(s: Session, given: Mapping[str, Any]) -> float | None:
    """What was asked for, else what the configuration allows at most."""
    asked = None if given["rate"] is None else per_second(given["rate"])
    return s.config.guard.rate(asked)
