"""The first line of a plan file: what the plan is for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from redisq_ops.core.model.entry import State
from redisq_ops.core.model.row_fields import OPTIONAL, MoreWords, Time, Unstable
from redisq_ops.core.model.states import Verb


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """What a plan is for. Times in ms of the server's clock."""

    op: str
    """operation that all runs of the plan share"""
    queue: str
    kind: str
    prefix: str
    """prefix of the keys"""
    created_ms: Time | None
    """when the queue was created, to refuse another queue of that name; `null`: another program's,
    unregistered"""
    server: Annotated[str, Unstable()]
    """run id of the server"""
    verb: Annotated[Verb, MoreWords()]
    """the change"""
    state: State
    """state of the entries"""
    consumer: str
    """consumer that receives claimed entries"""
    argument: int
    """lease of a claim (ms) or new ready time (ms UTC)"""
    high_water_ms: Time
    """entries that came into the state later are left alone"""
    filter: str
    """which entries"""
    who: str
    """author"""
    whence: str
    """host"""
    why: str
    """reason"""
    planned_ms: Time
    """when"""
    step: Annotated[int, Unstable()]
    """most entries of one step"""
    rate: float | None = None
    """entries per second"""
    into: str = field(default="", metadata=OPTIONAL)
    """only a move: target queue"""
    into_ms: Time | None = field(default=None, metadata=OPTIONAL)
    """only a move: when that queue was created"""
