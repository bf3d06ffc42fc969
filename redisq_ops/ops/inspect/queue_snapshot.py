"""Reads what a view shows of one queue: the rows on the screen and a page around them.

It runs no Lua scripts: read permission is enough.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import accumulate
from typing import Any

from redisq_ops.core.engine.optional_features import (
    HasClients,
    HasPeriodicEntries,
    HasPriorityLevels,
    HasRequests,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Request, State
from redisq_ops.core.redis.operation import apart, attempt, together

from ..change import audit_log
from ..change.control import queue_settings
from ..filter.scan import PAGE
from ..groups.error_groups import ErrorGroups
from ..redaction import Redaction
from ..required_features import requests_of
from .client_details import client_details
from .consumers import consumer_reports
from .details import entry_details, request_details
from .periodic import periodic_status
from .snapshot import BAR_WIDTHS, GROUPED, Snapshot, Upcoming
from .worker_processes import processes_of

OPEN_REQUESTS = 200
"""open requests shown in the view of priority levels"""
HISTORY = 100
"""history events searched at every refresh; one event can list 500 entries"""
OPERATIONS = 200
"""latest changes in the view of the audit log"""


async def read_view(queue: Queue[Any], bare: Snapshot, redaction: Redaction) -> Snapshot:
    """The snapshot ``bare`` filled with what its viewport shows of the queue."""
    filled, detail = await together(
        apart(_filled(queue, bare, redaction)), apart(_detail(queue, bare))
    )
    if isinstance(filled, Exception):
        raise filled
    if isinstance(detail, Exception):
        raise detail
    return replace(filled, entry=detail.entry, request=detail.request, client=detail.client)


async def _filled(queue: Queue[Any], bare: Snapshot, redaction: Redaction) -> Snapshot:
    viewport = bare.viewport
    if viewport.view in ("groups", "delayed") or viewport.descending:
        # What is read depends on how many there are.
        counts = await queue.counts.op(bare.now_ms)
        return await _shown(queue, replace(bare, counts=counts), redaction)
    counts, shown = await together(queue.counts.op(bare.now_ms), _shown(queue, bare, redaction))
    return replace(shown, counts=counts)


async def _shown(queue: Queue[Any], snapshot: Snapshot, redaction: Redaction) -> Snapshot:
    """The snapshot with the view's rows; which rows these are may depend on its counts."""
    viewport = snapshot.viewport
    match viewport.view:
        case "levels" if isinstance(queue, HasPriorityLevels):
            levels, (requests, open) = await together(queue.levels.op(), _open_requests(queue))
            return replace(snapshot, levels=tuple(levels), requests=requests, open=open)
        case "requests" if isinstance(queue, HasRequests):
            return await _requests(queue, snapshot)
        case "waiting" | "pending" | "dead" | "done" | "trash" as state:
            return await _entries(queue, snapshot, state)
        case "groups":
            return await _grouped(queue, snapshot, redaction)
        case "consumers":
            return replace(snapshot, reports=tuple(await consumer_reports(queue)))
        case "clients" if isinstance(queue, HasClients):
            first, end = viewport.start, viewport.end
            found = await queue.clients.op(first, max(1, end - first))
            return replace(snapshot, start=first, total=found.total, clients=found.clients)
        case "processes":
            return replace(snapshot, processes=tuple(await processes_of(queue)))
        case "log":
            return replace(snapshot, operations=tuple(await audit_log.last(queue, OPERATIONS)))
        case "periodic" if isinstance(queue, HasPeriodicEntries):
            return replace(snapshot, periodic=tuple(await periodic_status(queue)))
        case "settings":
            return replace(snapshot, settings=tuple(await queue_settings(queue)))
        case "delayed":
            filled, upcoming = await together(
                _entries(queue, snapshot, "delayed"),
                _upcoming(queue, snapshot, _number(snapshot, "delayed") or 0),
            )
            return replace(filled, upcoming=upcoming)
    return snapshot


async def _entries(queue: Queue[Any], snapshot: Snapshot, state: State) -> Snapshot:
    viewport = snapshot.viewport
    depth = (queue.waiting_depth if state == "waiting" else None) or sys.maxsize
    first, end, total = min(viewport.start, depth - 1), min(viewport.end, depth), 0
    if viewport.descending:
        known = _number(snapshot, state)
        # Counted by rank, as the rows are read: other pages count only what they show.
        total = (await queue.page.op(state, max=1, start=0)).total if known is None else known
        total = min(total, depth)
        first, end = max(0, total - viewport.end), max(0, total - viewport.start)
    pages = await together(
        queue.page.op(
            state,
            start=low,
            max=max(1, min(PAGE, end - low)),
            payloads="payload" in viewport.needs,
            glance="record" not in viewport.needs,
        )
        for low in range(first, max(end, first + 1), PAGE)
    )
    # By id: an entry that moved between two pages of one round trip is in both.
    found, size = {entry.id: entry for page in pages for entry in page.entries}, pages[-1].total
    entries = tuple(found.values())
    snapshot = replace(snapshot, exact=pages[-1].exact and size <= depth)
    size = min(size, depth)
    if "priority" in viewport.needs and isinstance(queue, HasRequests):
        ids = {entry.id.rpartition("/")[0] for entry in entries} - {""}
        requests = await together(queue.request.op(id) for id in sorted(ids))
        snapshot = replace(
            snapshot, priorities={r.id: r.priority for r in requests if r is not None}
        )
    if not viewport.descending:
        return replace(snapshot, start=first, total=size, entries=entries)
    # The state was counted before it was read and may have changed: show what was read.
    rows, total = entries[: end - first], min(total, size)
    return replace(
        snapshot, start=max(0, total - first - len(rows)), total=total, entries=rows[::-1]
    )


async def latest_dead(queue: Queue[Any], snapshot: Snapshot, most: int) -> Snapshot:
    """The snapshot with the latest dead letters, at most so many, the latest first."""
    page = await queue.latest.op(
        "dead",
        most,
        "payload" in snapshot.viewport.needs,
        "record" not in snapshot.viewport.needs,
        number=_number(snapshot, "dead"),
    )
    return replace(snapshot, total=page.total, exact=page.exact, entries=page.entries[::-1])


async def _grouped(queue: Queue[Any], snapshot: Snapshot, redaction: Redaction) -> Snapshot:
    """The latest dead letters in groups: so few that a refresh costs the same for any number."""
    found = await latest_dead(queue, snapshot, GROUPED)
    groups = ErrorGroups(redaction=redaction, times=True)
    groups.add(found.entries)
    return replace(
        snapshot,
        groups=tuple(groups.ranked()),
        looked=len(found.entries),
        total=found.total,
        exact=found.exact,
    )


def _number(snapshot: Snapshot, state: State) -> int | None:
    return snapshot.counts.of(state) if snapshot.counts else None


async def _open_requests(queue: Queue[Any]) -> tuple[tuple[Request, ...], int]:
    if not isinstance(queue, HasRequests):
        return (), 0
    found, open = await together(
        queue.requests.op(0, OPEN_REQUESTS), requests_of(queue).requests_total.op(False)
    )
    return tuple(found), open


async def _requests(queue: HasRequests[Any], snapshot: Snapshot) -> Snapshot:
    """Open requests, oldest first, then settled ones, latest first, as one list."""
    totals = requests_of(queue).requests_total
    open, settled = await together(totals.op(False), totals.op(True))
    start, end = snapshot.viewport.start, snapshot.viewport.end
    parts = await together(
        queue.requests.op(low, high - low, part == "settled")
        for part, low, high in (
            ("open", min(start, open), min(end, open)),
            ("settled", max(0, start - open), max(0, end - open)),
        )
        if high > low
    )
    rows = tuple(request for part in parts for request in part)
    return replace(snapshot, start=start, total=open + settled, open=open, requests=rows)


async def _upcoming(queue: Queue[Any], snapshot: Snapshot, total: int) -> Upcoming:
    """The timeline, scaled to show 95 % of the delayed entries: one far entry is cut off."""
    now, buckets = snapshot.now_ms, snapshot.viewport.buckets
    if snapshot.viewport.bar_ms is not None:
        return await _bars(queue, now, snapshot.viewport.bar_ms, buckets, total)
    within = await queue.due_counts.op([now, *(now + buckets * step for step in BAR_WIDTHS)])
    enough = (
        step
        for step, sum_ in zip(BAR_WIDTHS, accumulate(within), strict=True)
        if sum_ >= 0.95 * total
    )
    return await _bars(queue, now, next(enough, BAR_WIDTHS[-1]), buckets, total)


async def _bars(queue: Queue[Any], now: int, step: int, buckets: int, total: int) -> Upcoming:
    # Bars begin at multiples of their width, so that they move left and don't flicker.
    start = now // step * step
    numbers = await queue.due_counts.op([start + k * step for k in range(buckets + 1)])
    return Upcoming(step, tuple(numbers), max(0, total - sum(numbers)))


async def _detail(queue: Queue[Any], bare: Snapshot) -> Snapshot:
    id = bare.viewport.detail
    if id is None:
        return bare
    if isinstance(queue, HasClients) and bare.viewport.view == "clients":
        client = await attempt(client_details(queue, id))
        return bare if isinstance(client, Exception) else replace(bare, client=client)
    if bare.viewport.view in ("levels", "requests"):
        request = await attempt(request_details(queue, id, HISTORY))
        return bare if isinstance(request, Exception) else replace(bare, request=request)
    entry = await attempt(entry_details(queue, id, HISTORY))
    return bare if isinstance(entry, Exception) else replace(bare, entry=entry)
