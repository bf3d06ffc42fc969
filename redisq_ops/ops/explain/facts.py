"""All that an explanation rests on, read at one moment.

Reads only, in a number of round trips that doesn't depend on how much there is; what is looked
through has an end, and says where.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from redisq_ops.core.engine.optional_features import HasClients, HasRequests
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import STATES, Clients, Counts, Entry, Event, Rates, Request, State
from redisq_ops.core.model.queue_position import QueuePosition
from redisq_ops.core.redis.operation import both, together

from ..change import audit_log
from ..change.audit_log import Operation
from ..change.unfinished import Unfinished, unfinished
from ..groups.fingerprint import fingerprint

PAGE = 1000
"""history events read at once"""
PAGES = 5
"""as many pages of the history for something that isn't there any more"""
OPERATIONS = 50
"""latest entries of the journal in which a pause, a drain or a cancel is looked for"""
MINUTES = 5
"""over which the rate is taken that estimates rest on"""
ALIKE = 200
"""the oldest dead entries among which those of the same error are counted"""
LISTED = 100
"""requests or clients looked at to say what holds a whole queue"""
_OF_MANY = (*STATES, "undo", "set", "prune", "move")
_FIRST: tuple[State, ...] = ("pending", "delayed")


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything an explanation rests on, read at one moment."""

    queue: Queue[Any]
    id: str | None
    now_ms: int
    counts: Counts
    rates: Rates
    settings: Mapping[str, str]
    entry: Entry | None
    request: Request | None
    queue_position: QueuePosition
    first: Mapping[State, Entry | None]
    """the queue's first pending and first delayed entry: the next deadline, and the next due"""
    told: Told
    operations: tuple[Operation, ...]
    alike: SameErrorEntries | None
    unfinished: tuple[Unfinished, ...]
    """moves out of the queue to others"""
    held: tuple[str, ...]
    """why what waits in the whole queue isn't handed out, as far as it was looked at"""


@dataclass(frozen=True, slots=True)
class Told:
    """History events about it, the newest first, among the ``looked`` latest of ``total``."""

    events: tuple[Event, ...] = ()
    looked: int = 0
    total: int = 0
    undone: Mapping[int, str] = field(default_factory=dict)
    """what was taken back, by the time of the last step of it that was seen"""

    def latest(self, name: str) -> Event | None:
        return next((event for event in self.events if name in event.what), None)


@dataclass(frozen=True, slots=True)
class SameErrorEntries:
    """Dead entries of the same error."""

    group: str
    number: int
    looked: int
    total: int
    exact: bool = True
    """whether ``total`` is all that are dead, or only those that were seen"""


async def look(queue: Queue[Any], id: str | None) -> Situation:
    """Of a queue, or of an entry or request in it: two round trips, and as many side by side as the
    deepest of the looks has; up to four more through the history for what isn't there."""
    now = await queue.now.op()
    asked = id or ""
    requests = [queue] if isinstance(queue, HasRequests) and id and "/" not in asked else []
    (counts, rates), ((settings, queue_position), (first, (found, (told, journals)))) = await both(
        both(queue.counts.op(now), queue.rates.op(now, MINUTES + 1)),
        both(
            both(queue.settings.op(), queue.queue_position.op(asked)),
            both(
                together(queue.page.op(state, None, 1) for state in _FIRST),
                both(
                    both(
                        together([] if requests or not id else [queue.get.op(asked)]),
                        together(each.request.op(asked) for each in requests),
                    ),
                    both(told_of(queue, asked), both(_operations(queue), unfinished(queue))),
                ),
            ),
        ),
    )
    operations, left = journals
    entry = found[0][0] if found[0] else None
    request = found[1][0] if found[1] else None
    if id and entry is None and request is None and len(told.events) == 0:
        told = await told_of(queue, asked, PAGES)
    alike = None
    if entry is not None and entry.state == "dead" and entry.error is not None:
        alike = await _alike(queue, entry)
    if entry is not None and entry.op and all(o.id != entry.op for o in operations):
        touched = await audit_log.known(queue, entry.op)
        operations = [*operations, *([touched] if touched else [])]
    known = {o.id for o in operations}
    operations = [*operations, *(one.operation for one in left if one.operation.id not in known)]
    held = () if id else await _held(queue)
    heads = {
        state: page.entries[0] if page.entries else None
        for state, page in zip(_FIRST, first, strict=True)
    }
    return Situation(
        queue, id, now, counts, rates, settings, entry, request, queue_position, heads, told,
        tuple(operations), alike, tuple(left), held,
    )  # fmt: skip


async def told_of(queue: Queue[Any], id: str, pages: int = 1) -> Told:
    """What the history says about an id, or about a request and all its entries."""
    if not id:
        return Told()
    it = rf"{re.escape(id)}(?:/\d+)?(?:\||$)"
    about = re.compile(it)
    # A change of one thing names it behind its verb; of many it has states and numbers there.
    changed = re.compile(rf"[^|]*\|(?!(?:{'|'.join(_OF_MANY)})\|)[^|]*\|{it}")
    chosen: list[Event] = []
    undone: dict[int, str] = {}
    looked, before, total = 0, "+", 0
    for nth in range(pages):
        if nth:
            events = await queue.history.op(PAGE, before)
        else:
            events, total = await both(queue.history.op(PAGE), queue.history_length.op())
        for event in events:
            for words in (item.split("|") for item in event.what.get("op", ())):
                if words[1:2] == ["undo"]:
                    undone[event.at_ms] = words[2]
            named = {
                name: tuple(filter((changed if name == "op" else about).match, items))
                for name, items in event.what.items()
            }
            if what := {name: items for name, items in named.items() if items}:
                chosen.append(Event(event.id, event.at_ms, event.by, what))
        looked += len(events)
        if len(events) < PAGE:
            break
        before = events[-1].id
    return Told(tuple(chosen), looked, max(total, looked), undone)


async def _operations(queue: Queue[Any]) -> list[Operation]:
    """The latest of the queue's journal, the newest first."""
    return await audit_log.last(queue, OPERATIONS)


async def _alike(queue: Queue[Any], entry: Entry) -> SameErrorEntries:
    page = await queue.page.op("dead", None, ALIKE)
    group = fingerprint(entry)
    seen = {one.id: fingerprint(one) for one in page.entries}
    seen[entry.id] = group
    number = sum(mark == group for mark in seen.values())
    return SameErrorEntries(group, number, len(seen), page.total, page.exact)


async def _held(queue: Queue[Any]) -> tuple[str, ...]:
    """What holds the requests or clients of a queue, in words, of the first hundred."""
    requests = await queue.requests.op(0, LISTED) if isinstance(queue, HasRequests) else []
    clients = await queue.clients.op(0, LISTED) if isinstance(queue, HasClients) else Clients()
    waiting = [request for request in requests if request.waiting]
    busy = [client for client in clients.clients if client.waiting]
    paused = sum(request.paused for request in waiting)
    full = sum(not r.paused and r.pending >= r.limit for r in waiting)
    blocked = sum(client.blocked for client in busy)
    capped = sum(not c.blocked and c.cap is not None and c.pending >= c.cap for c in busy)
    said = [
        (paused, len(waiting), "requests with something waiting are paused"),
        (full, len(waiting), "requests with something waiting have as many pending as their limit"),
        (blocked, len(busy), "clients with something waiting are blocked"),
        (capped, len(busy), "clients with something waiting have as many pending as their cap"),
    ]
    return tuple(f"{n} of {of} {what}" for n, of, what in said if n)
