"""Who holds what, as values: the load of consumer groups, and deliveries that weren't settled."""

from __future__ import annotations

from dataclasses import dataclass

from .entry import Entry

PENDING_PAGE = 500
"""deliveries looked at in one go"""


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """What a group of consumers has to do. Where a queue has no groups it is one by itself."""

    group: str
    pending: int | None
    """given to a consumer, and not settled; None: the layout doesn't say"""
    lag: int | None
    """given to nobody yet; None: the server can't tell"""
    again: int = 0
    """to run again, now or later; no consumer has them"""


@dataclass(frozen=True, slots=True)
class PendingDelivery:
    """One delivery that isn't settled."""

    id: str
    consumer: str | None
    age_ms: int | None
    """since it was given"""
    deliveries: int
    late_ms: int | None = None
    """how long its lease is over, negative: how long it stands; None: there are none"""


@dataclass(frozen=True, slots=True)
class PendingPage:
    """Some of them, the ``total`` there are, and where to go on."""

    rows: tuple[PendingDelivery, ...]
    total: int
    after: str | None = None
    """None: these were the last"""


@dataclass(frozen=True, slots=True)
class Reassigned:
    """What came of giving a consumer's deliveries to another."""

    words: tuple[str, ...]
    """a word for each: moved | changed (not its any more) | gone (trimmed from the stream)"""
    removed: bool = False
    """the consumer held nothing then, and was removed"""
    already: int = 0
    """how many of those that are `moved` were the other's before"""
    beside: tuple[str, ...] = ()
    """what it was given meanwhile, and had to be moved too for it to be removed"""
    counted: bool = False
    """the step itself counted in the journal what it gave"""


def pending_delivery(entry: Entry, now: int) -> PendingDelivery:
    since, deadline = entry.since_ms, entry.at_ms
    return PendingDelivery(
        entry.id, entry.consumer, None if since is None else now - since,
        entry.attempts + 1 if entry.deliveries is None else entry.deliveries,
        None if deadline is None else now - deadline,
    )  # fmt: skip
