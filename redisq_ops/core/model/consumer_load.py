"""The load of consumer groups, and deliveries that aren't settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .entry import Entry, Failure
from .row_fields import Duration

PENDING_PAGE = 500
"""deliveries on a page"""


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """The work of a consumer group. A queue without groups counts as one group."""

    group: str
    pending: int | None
    """delivered and not settled; None: the layout doesn't have it"""
    lag: int | None
    """not delivered yet; None: the server doesn't know"""
    again: int = 0
    """waiting or delayed for a retry"""


class StreamId(NamedTuple):
    """The id of a stream's entry, in the stream's order; ``0-0`` is before all of them."""

    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """How far a consumer group has read."""

    group: str
    last: StreamId
    """the last entry delivered to it"""
    read: int | None
    """entries delivered to it, since the stream began; None: the server doesn't know"""
    lag: int | None
    """entries not delivered to it yet; None: the server doesn't know"""
    pending: int
    first_pending: StreamId | None
    """its oldest pending entry; None: it has none"""
    consumers: int

    @property
    def done(self) -> StreamId:
        """Up to here it has received all entries and acknowledged them."""
        first = self.first_pending
        return self.last if first is None else min(self.last, before(first))


def before(id: StreamId) -> StreamId:
    """The greatest id before another."""
    return StreamId(id.ms, id.seq - 1) if id.seq else StreamId(id.ms - 1, 2**64 - 1)


def after(id: StreamId) -> StreamId:
    """The smallest id behind another."""
    return StreamId(id.ms, id.seq + 1) if id.seq < 2**64 - 1 else StreamId(id.ms + 1, 0)


@dataclass(frozen=True, slots=True)
class GroupPositions:
    """The consumer groups of a stream, by name."""

    groups: tuple[GroupPosition, ...]
    start: StreamId
    """of the first entry that is there"""
    end: StreamId
    """of the last entry ever added"""
    length: int


@dataclass(frozen=True, slots=True)
class PendingDelivery:
    """One delivery that isn't settled."""

    id: str
    """entry"""
    consumer: str | None
    """consumer that holds it"""
    age_ms: Duration | None
    """time since its delivery"""
    deliveries: int | None
    """how often the entry was delivered, this time included; `null`: its consumer gave it up for
    good (XNACK FATAL), and the number is lost"""
    late_ms: Duration | None = None
    """time since its lease expired; negative: time left; `null`: there are no leases"""


NOBODY = "-"
"""in place of a consumer's name: for stream entries that their consumers gave back (XNACK)"""


@dataclass(frozen=True, slots=True)
class PendingQuery:
    """The arguments of `QueueReads.pending_deliveries`."""

    group: str = ""
    max: int = PENDING_PAGE
    consumer: str = ""
    after: str | None = None
    glance: bool = False

    @property
    def low(self) -> str:
        """The lower bound of the page's ids, as stream commands write it."""
        return "-" if self.after is None else f"({self.after}"


@dataclass(frozen=True, slots=True)
class PendingPage:
    """A page of pending deliveries."""

    rows: tuple[PendingDelivery, ...]
    total: int
    after: str | None = None
    """the cursor of the next page; None: this is the last"""
    errors: Mapping[str, Failure] = field(default_factory=dict)
    """id -> its latest error, for entries that were read and had failed before"""


@dataclass(frozen=True, slots=True)
class Reassigned:
    """The result of `reassign`."""

    words: tuple[str, ...]
    """for each id: moved | changed (it isn't the consumer's any more) | gone (not in the stream)"""
    removed: bool = False
    """whether the consumer was removed"""
    already: int = 0
    """how many of the `moved` ones the other consumer had already"""
    counted: bool = False
    """whether the step counted its entries in the audit log itself"""


def pending_delivery(entry: Entry, now: int) -> PendingDelivery:
    since, deadline = entry.since_ms, entry.at_ms
    return PendingDelivery(
        entry.id,
        entry.consumer,
        None if since is None else now - since,
        entry.attempts + 1 if entry.deliveries is None else entry.deliveries,
        None if deadline is None else now - deadline,
    )
