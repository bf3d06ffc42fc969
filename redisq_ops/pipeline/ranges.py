"""Which events of a history one task reads, and how it is known that none of them is missing.

A history is trimmed at its begin, whenever something is added to it. How many events are behind an
id the server doesn't say; so a part that isn't all there is begins with an event that was seen when
it was cut (`Range.first`), and each page of it with the last one of the page before: as long as
these are there, so is all that is behind them.

What an earlier read knew of a shard's history is a *mark*: the first event it didn't read, or how
many there had been when it had read all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.state_scan import HistoryExtent
from redisq_ops.core.redis.operation import both, together

BEGIN = "0-0"
_SLACK_MS = 5000
"""a history id may be so much off the event's own time: a clock that was set back"""
_LAST = 2**64 - 1

Mark = str | int


@dataclass(frozen=True, slots=True)
class Range:
    """Part of a history: events behind the id ``after``, up to and with ``until``."""

    after: str
    until: str
    events: int | None = None
    """how many there are, if that is known; fewer were trimmed"""
    first: str | None = None
    """of a range whose events nobody counted: the first"""
    missed: str | None = None
    """what is known to be missing before it"""

    @property
    def empty(self) -> bool:
        return self.after == self.until


def id_ms(id: str) -> int:
    return int(id.partition("-")[0])


def before(id: str) -> str:
    """The id that could stand right before one."""
    ms, number = place(id)
    return f"{ms}-{number - 1}" if number else f"{ms - 1}-{_LAST}"


def place(id: str) -> tuple[int, int]:
    """What ids are compared by."""
    ms, _, number = id.partition("-")
    return int(ms), int(number or 0)


async def planned(
    leaf: Queue[Any], since_ms: int | None, until_ms: int | None, size: int, mark: Mark | None
) -> list[Range]:
    """The history from ``since_ms`` to ``until_ms`` in parts of about ``size`` events, by two
    looks. Ids are off from events' own times by some seconds: there are more events in the parts.
    """
    reach = await leaf.history_extent.op()
    ranges: list[Range] = []
    if reach.first is not None:
        low, high = id_ms(reach.first), id_ms(reach.last)
        bottom = low if since_ms is None else max(low, since_ms - _SLACK_MS)
        top = high if until_ms is None else min(high, until_ms + _SLACK_MS)
        before = f"{bottom - 1}-{_LAST}" if bottom else BEGIN
        if since_ms is None and until_ms is None and reach.length <= size:
            ranges = [Range(before, reach.last, reach.length)]
        elif bottom <= top:
            share = (top - bottom + 1) / (high - low + 1)
            end = reach.last if until_ms is None else f"{top}-{_LAST}"
            ranges = await cut(leaf, before, end, -(-int(reach.length * share) // size))
    missed = None if mark is None else missing(mark, reach)
    if missed is not None:
        ranges = ranges or [Range(BEGIN, BEGIN)]
        ranges[0] = replace(ranges[0], missed=missed)
    return ranges


async def cut(leaf: Queue[Any], after: str, until: str, parts: int) -> list[Range]:
    """The events behind ``after`` up to ``until``, by time in about so many parts, none empty."""
    low, high = id_ms(after) + 1, id_ms(until)
    parts = max(1, min(parts, high - low))
    edges = [low + (high - low + 1) * i // parts for i in range(1, parts)]
    bounds = list(pairwise([after, *(f"{ms - 1}-{_LAST}" for ms in edges), until]))
    firsts = await together(leaf.history_range.op(low, high, 1) for low, high in bounds)
    return [
        Range(after, until, first=found[0][0].decode())
        for (after, until), found in zip(bounds, firsts, strict=True)
        if found
    ]


def missing(mark: Mark, reach: HistoryExtent) -> str | None:
    """What was trimmed since a mark was made; None: nothing."""
    if isinstance(mark, int):
        gone = reach.added - reach.length - mark
        if reach.added < mark:
            return "the history was begun anew"
        return f"{gone} events were trimmed before they were read" if gone > 0 else None
    if reach.first is None or place(reach.first) > place(mark):
        return f"events from {mark} on were trimmed before they were read"
    return None


async def mark(leaf: Queue[Any], until_ms: int) -> Mark:
    """The mark of a read of all events before ``until_ms``, a moment that has passed."""
    before = f"{until_ms - 1}-{_LAST}"
    # In this order: an event that comes between the two is found, and not counted as read.
    reach, found = await both(leaf.history_extent.op(), leaf.history_range.op(before, "+", 1))
    first: str | None = found[0][0].decode() if found else None
    return reach.added if first is None else first


def encoded(marks: Mapping[str, Mark]) -> str:
    """Marks by ``queue/shard`` as the option has them."""
    return json.dumps(dict(marks), separators=(",", ":"), sort_keys=True)


def decoded(text: str) -> dict[str, Mark]:
    """The same read; raises ValueError."""
    found: Any = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("a JSON object of marks by queue/shard")
    for name, value in found.items():
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not whole and not (isinstance(value, str) and _is_id(value)):
            raise ValueError(f"{name}: a mark is an event's id or a whole number")
    return found


def _is_id(text: str) -> bool:
    ms, dash, number = text.partition("-")
    return ms.isdecimal() and dash == "-" and number.isdecimal()
