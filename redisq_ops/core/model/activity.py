"""Signs of whether a queue is worked on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BEATS_MS = 90_000
"""a worker is silent after this time without a heartbeat: it sends one every 30 s"""
FAR_MS = 366 * 86_400_000
"""a delayed entry whose ready time is further ahead is probably a mistake"""


@dataclass(frozen=True, slots=True)
class ConsumerSign:
    """The latest sign of life of one consumer."""

    name: str
    seen_ms: int | None
    """when it last asked for entries or sent a heartbeat; None: unknown"""
    beats: bool = False
    """whether it sends heartbeats: a worker that doesn't is silent while it is busy"""
    gone: bool = False
    """whether its program takes it for dead"""

    def silent_ms(self, now_ms: int, without_beats_ms: int) -> int | None:
        """For how long it has shown no sign of life; None: it lives, or nobody can tell.

        ``without_beats_ms``: after which time a consumer without heartbeats counts as silent."""
        silent = None if self.seen_ms is None else now_ms - self.seen_ms
        if self.gone:
            return silent or 0
        limit = BEATS_MS if self.beats else without_beats_ms
        return silent if silent is not None and silent >= limit else None


@dataclass(frozen=True, slots=True)
class Activity:
    """When workers last asked for entries, the first deadline, and what died.

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
    unasked: bool = False
    """no client of the server asks for entries of any queue now, nor works on any"""
    ready_ms: int | None = None
    """the ready time of the first delayed entry, past or ahead; None also where none is delayed"""
    far_ahead: int | None = None
    """delayed entries whose ready time is more than `FAR_MS` after the requested period's begin"""
    dead_since: int | None = None
    """dead entries that died after the time up to which an operator acknowledged them; None also
    where nobody did"""
    dead_since_exact: bool = True
    """False: there may be more of them"""
    signs: tuple[ConsumerSign, ...] | None = None
    """the latest sign of life of each consumer; None: unknown, or there are too many to read"""


def joined_activity(parts: Sequence[Activity]) -> Activity:
    """The activity of a queue from those of its shards."""
    asked = [part.asked_ms for part in parts if part.asked_ms is not None]
    deadlines = [part.deadline_ms for part in parts if part.deadline_ms is not None]
    ready = [part.ready_ms for part in parts if part.ready_ms is not None]
    far = [part.far_ahead for part in parts if part.far_ahead is not None]
    since = [part.dead_since for part in parts if part.dead_since is not None]
    signs: dict[str, ConsumerSign] = {}
    complete = all(part.signs is not None for part in parts)
    for sign in (sign for part in parts for sign in part.signs or ()):
        known = signs.get(sign.name)
        if known is None or (known.seen_ms or 0) < (sign.seen_ms or 0):
            signs[sign.name] = sign
    return Activity(
        max(asked, default=None),
        sum(part.askers or 0 for part in parts),
        min(deadlines, default=None),
        sum(part.dead_lately or 0 for part in parts),
        ready_ms=min(ready, default=None),
        far_ahead=sum(far) if far else None,
        dead_since=sum(since) if since else None,
        signs=tuple(signs.values()) if complete else None,
    )
