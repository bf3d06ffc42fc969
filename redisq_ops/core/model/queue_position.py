"""An entry's position in its queue: facts about why it isn't handed out, for ``redisq explain``.

A field that a kind of queue can't fill keeps its default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .entry import Client, Entry, Request

SEEN = 200
"""caller slots that are read to find out when a worker last took entries"""
DEPTH = 1000
"""elements of a list that are searched for an entry"""
OTHERS = 100
"""other requests that are read to estimate how many entries come first"""
HOLDERS = 20
"""deliveries that are listed where all tokens of a request are in use"""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A number of things that come first."""

    what: str
    number: int
    exact: bool = True
    """False: an estimate or a lower bound"""


@dataclass(frozen=True, slots=True)
class Holder:
    """A delivery that keeps other entries from being handed out."""

    id: str
    consumer: str | None
    since_ms: int | None
    until_ms: int | None
    """when its lease expires"""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """What a queue knows about why an entry or request isn't handed out (yet)."""

    here: bool = False
    """whether the queue has the id"""
    asked_ms: int | None = None
    """when a worker last took entries, or tried to"""
    askers: int | None = None
    """number of consumers that were seen; None: the layout doesn't have it"""
    askers_all: bool = True
    """False: there are more consumers than were read"""
    open: int | None = None
    """tokens, or clients that can be served now; None: unknown"""
    ahead: tuple[Ahead, ...] = ()
    before: int | None = None
    """about how many entries are handed out before this one; None: unknown"""
    before_exact: bool = False
    request: Request | None = None
    holders: tuple[Holder, ...] = ()
    """the oldest deliveries of its request or client"""
    holders_all: bool = True
    next_ms: int | None = None
    """when the first delayed entry of its request is due"""
    client: Client | None = None
    heard_ms: int | None = None
    """the last sign of life of its holder, where there are no leases"""
    group: str | None = None
    """the consumer group that this is about, where several read the same entries"""
    beside: tuple[Entry, ...] = ()
    """the same entry in the other groups for which it isn't done"""


def joined(parts: list[QueuePosition]) -> QueuePosition:
    """Merge the positions of a queue's shards: that of the shard that has the id, with the
    consumers and open turns of all."""
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
