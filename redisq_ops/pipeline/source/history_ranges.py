"""Ranges of a history stream that tasks read, and how tasks detect trimmed events.

A history loses its oldest events whenever one is added. The server can't count the events after an
id; so a range that is part of a history begins at an event that existed when the range was
planned (`HistoryRange.first`), and each page begins with the last event of the page before. As long
as that event exists, no event after it was trimmed.

A *mark* records where an earlier read of a shard's history ended: the first event that it did not
read, or the number of events ever added if it read all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.state_scan import HistoryExtent
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.redis.operation import together
from redisq_ops.ops.typed_json import json_object

FIRST_ID = "0-0"
_CLOCK_SLACK_MS = 5000
"""maximum difference of an event's id and its own time, if a clock was set back"""
_MAX_SEQUENCE = 2**64 - 1
_EVENT_ID = re.compile(r"([0-9]{1,20})-([0-9]{1,20})")

Mark = str | int


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """Events of a history after the id ``after``, up to and including ``until``."""

    after: str
    until: str
    events: int | None = None
    """number of events if known; if a task finds fewer, some were trimmed"""
    first: str | None = None
    """id of the first event, if the events of the range were not counted"""
    missing: str | None = None
    """description of the events known to be missing before the range"""

    @property
    def empty(self) -> bool:
        return self.after == self.until


def id_ms(id: str) -> int:
    return int(id.partition("-")[0])


def id_before(id: str) -> str:
    """The greatest id that is less than ``id``."""
    ms, number = id_key(id)
    return f"{ms}-{number - 1}" if number else f"{ms - 1}-{_MAX_SEQUENCE}"


def id_key(id: str) -> tuple[int, int]:
    """Sort key of an event id."""
    ms, _, number = id.partition("-")
    return int(ms), int(number or 0)


async def plan_ranges(
    shard_queue: Queue[Any],
    since_ms: int | None,
    until_ms: int | None,
    size: int,
    mark: Mark | None,
) -> list[HistoryRange]:
    """The history from ``since_ms`` to ``until_ms`` in ranges of about ``size`` events.

    Takes two rounds to the server. Ranges are widened by a few seconds, because ids may differ from
    the events' own times.
    """
    extent = await shard_queue.history_extent.op()
    ranges: list[HistoryRange] = []
    if extent.first is not None:
        low, high = id_ms(extent.first), id_ms(extent.last)
        bottom = low if since_ms is None else max(low, since_ms - _CLOCK_SLACK_MS)
        top = high if until_ms is None else min(high, until_ms + _CLOCK_SLACK_MS)
        before = f"{bottom - 1}-{_MAX_SEQUENCE}" if bottom else FIRST_ID
        if since_ms is None and until_ms is None and extent.length <= size:
            ranges = [HistoryRange(before, extent.last, extent.length)]
        elif bottom <= top:
            share = (top - bottom + 1) / (high - low + 1)
            end = extent.last if until_ms is None else f"{top}-{_MAX_SEQUENCE}"
            ranges = await split_range(
                shard_queue, before, end, -(-int(extent.length * share) // size)
            )
    missing = None if mark is None else trimmed_since(mark, extent)
    if missing is not None:
        ranges = ranges or [HistoryRange(FIRST_ID, FIRST_ID)]
        ranges[0] = replace(ranges[0], missing=missing)
    return ranges


async def split_range(
    shard_queue: Queue[Any], after: str, until: str, parts: int
) -> list[HistoryRange]:
    """Split the events after ``after`` up to ``until`` by time into about ``parts`` ranges, none
    empty."""
    low, high = id_ms(after) + 1, id_ms(until)
    parts = max(1, min(parts, high - low))
    edges = [low + (high - low + 1) * i // parts for i in range(1, parts)]
    bounds = list(pairwise([after, *(f"{ms - 1}-{_MAX_SEQUENCE}" for ms in edges), until]))
    firsts = await together(shard_queue.history_range.op(low, high, 1) for low, high in bounds)
    return [
        HistoryRange(after, until, first=found[0][0].decode())
        for (after, until), found in zip(bounds, firsts, strict=True)
        if found
    ]


def trimmed_since(mark: Mark, extent: HistoryExtent) -> str | None:
    """Which events were trimmed since a mark was made, or None."""
    if isinstance(mark, int):
        gone = extent.added - extent.length - mark
        if extent.added < mark:
            return "the history was started anew"
        return f"{gone} events were trimmed before they were read" if gone > 0 else None
    if extent.first is None or id_key(extent.first) > id_key(mark):
        return f"events from {mark} on were trimmed before they were read"
    return None


async def read_mark(shard_queue: Queue[Any], until_ms: int) -> Mark:
    """The mark of a read of all events before ``until_ms``, a time in the past."""
    before = f"{until_ms - 1}-{_MAX_SEQUENCE}"
    # In this order: an event added between the two reads is found, not counted as read.
    extent, found = await together(
        shard_queue.history_extent.op(), shard_queue.history_range.op(before, "+", 1)
    )
    first: str | None = found[0][0].decode() if found else None
    return extent.added if first is None else first


def encode_marks(marks: Mapping[str, Mark]) -> str:
    """Marks by ``queue/shard``, as the value of the option."""
    return json.dumps(dict(marks), separators=(",", ":"), sort_keys=True)


def decode_marks(text: str) -> dict[str, Mark]:
    """Marks from the value of the option; raises ValueError."""
    try:
        found = json_object(text)
    except BadInput as error:
        raise ValueError(f"marks by queue/shard: {error}") from error
    for name, mark in found.items():
        if not is_count(mark) and not (isinstance(mark, str) and is_event_id(mark)):
            raise ValueError(
                f"marks by queue/shard: {name[:80]}: a mark is an event's id or a whole number"
            )
    return found


def is_count(value: Any) -> bool:
    """Whether a JSON value can be a number of events, or a time in ms."""
    return type(value) is int and 0 <= value < 2**63


def is_event_id(text: str) -> bool:
    """Whether a text has the form of an event id."""
    found = _EVENT_ID.fullmatch(text)
    return found is not None and all(int(part) <= _MAX_SEQUENCE for part in found.groups())
