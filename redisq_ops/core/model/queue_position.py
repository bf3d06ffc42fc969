"""Where something stands in its queue: what only the queue's room can tell of why it isn't handed
out. Plain facts; the words are made elsewhere. What a layout doesn't say stays at its default."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .entry import Client, Entry, Request

SEEN = 200
"""callers looked at to find out whether anybody takes"""
DEPTH = 1000
"""elements of a list that are looked through for a place in it"""
OTHERS = 100
"""requests looked at to estimate what comes before one"""
HOLDERS = 20
"""deliveries named where all tokens are out"""


@dataclass(frozen=True, slots=True)
class Ahead:
    """How many of something come first."""

    what: str
    number: int
    exact: bool = True
    """False: about so many, or at least"""


@dataclass(frozen=True, slots=True)
class Holder:
    """A delivery that keeps something else from being handed out."""

    id: str
    consumer: str | None
    since_ms: int | None
    until_ms: int | None
    """its lease ends"""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """What a queue knows of one entry's, or one request's, way to a worker."""

    here: bool = False
    """whether the room knows the id; of several shards the one that does is heard"""
    asked_ms: int | None = None
    """when a worker last asked for work or was heard of"""
    askers: int | None = None
    """how many were seen; None: the layout doesn't say who takes"""
    askers_all: bool = True
    """these were all there are; else more were not looked at"""
    open: int | None = None
    """how many turns there are to be had now: tokens, clients that can be served; None: unknown"""
    ahead: tuple[Ahead, ...] = ()
    before: int | None = None
    """entries handed out before this one, about; None: unknown"""
    before_exact: bool = False
    request: Request | None = None
    holders: tuple[Holder, ...] = ()
    """the oldest deliveries of its request, or of its client"""
    holders_all: bool = True
    next_ms: int | None = None
    """when the first delayed entry of its request becomes due"""
    client: Client | None = None
    heard_ms: int | None = None
    """when the one who has it was last heard of, where that isn't said by a lease"""
    group: str | None = None
    """whose reading position is meant, where several read the same"""
    beside: tuple[Entry, ...] = ()
    """the same entry as those others see it for whom it isn't done"""


def joined(parts: list[QueuePosition]) -> QueuePosition:
    """Of one queue's shards: the one that knows the id, and the askers and turns of all."""
    best = next((part for part in parts if part.here), parts[0])
    asked = [part.asked_ms for part in parts if part.asked_ms is not None]
    askers = [part.askers for part in parts if part.askers is not None]
    open = [part.open for part in parts if part.open is not None]
    return replace(
        best,
        asked_ms=max(asked, default=None),
        askers=sum(askers) if askers else None,
        askers_all=all(part.askers_all for part in parts),
        open=sum(open) if open else None,
    )
