"""Signs of whether a queue is worked on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Activity:
    """When workers last asked for entries, the first deadline, and what died lately.

    None: the layout doesn't have it.
    """

    asked_ms: int | None = None
    """when a worker last took entries, or tried to; None also where none did for a day"""
    askers: int | None = None
    """consumers that asked within a day"""
    deadline_ms: int | None = None
    """the earliest deadline of a pending entry; None also where nothing is pending"""
    dead_lately: int | None = None
    """dead entries that died in the requested period"""
    registered: bool = False
    """the queue's program registers its workers; ``askers`` counts those of them that are alive and
    serve the queue"""
    ready_ms: int | None = None
    """the ready time of the first delayed entry, past or ahead; None also where none is delayed"""


def joined_activity(parts: Sequence[Activity]) -> Activity:
    """The activity of a queue from those of its shards."""
    asked = [part.asked_ms for part in parts if part.asked_ms is not None]
    deadlines = [part.deadline_ms for part in parts if part.deadline_ms is not None]
    ready = [part.ready_ms for part in parts if part.ready_ms is not None]
    return Activity(
        max(asked, default=None),
        sum(part.askers or 0 for part in parts),
        min(deadlines, default=None),
        sum(part.dead_lately or 0 for part in parts),
        ready_ms=min(ready, default=None),
    )
