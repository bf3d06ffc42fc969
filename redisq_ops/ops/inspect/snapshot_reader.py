"""Reads a `Snapshot` for the dashboard: a fixed number of round trips, whatever a queue's size.

It reads the rows on the screen and a page around them, without Lua: read permission is enough.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from redisq_ops.core.engine.optional_features import (
    HasClients,
    HasPeriodicEntries,
    HasPriorityLevels,
    HasRequests,
    features,
)
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import queue_class
from redisq_ops.core.engine.registry import Registered, all_queues, server_ms
from redisq_ops.core.model.entry import Request, State
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.redis.operation import apart, attempt, both, together

from ..change import audit_log
from ..change.control import requests_of, retention
from ..deployment import Deployment
from ..explain.explanation import Explanation, explain
from ..filter.scan import PAGE
from ..groups.error_groups import ErrorGroups
from ..redaction import NO_REDACTION, Redaction
from ..terminal import date
from .consumers import consumer_reports
from .details import entry_details, request_details
from .overview import overview
from .periodic import periodic_status
from .snapshot import GROUPED, ExplainSubject, ListedQueue, Snapshot, Upcoming, Viewport
from .worker_processes import processes_of

OPEN_REQUESTS = 200
"""open requests shown in the view of priority levels"""
HISTORY = 100
"""history events searched at every refresh; one event can list 500 entries"""
OPERATIONS = 200
"""latest changes in the view of the audit log"""
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
STEPS = (
    _SECOND, 2 * _SECOND, 5 * _SECOND, 10 * _SECOND, 15 * _SECOND, 30 * _SECOND,
    _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE,
    _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 30 * _DAY,
)  # fmt: skip
"""possible widths of a bar of the timeline (ms)"""


async def fetch(
    deployment: Deployment, viewport: Viewport, redaction: Redaction = NO_REDACTION
) -> Snapshot:
    """Read what a viewport shows. A missing queue is the snapshot's ``problem``, not an error."""
    if viewport.explain is None:
        return await _view(deployment, viewport, redaction)
    snapshot, explanation = await both(
        _view(deployment, viewport, redaction),
        apart(_explanation(deployment, viewport.explain, viewport, redaction)),
    )
    if isinstance(explanation, Exception):
        return replace(snapshot, explain_error=str(explanation))
    return replace(snapshot, explanation=explanation)


async def _explanation(
    deployment: Deployment, subject: ExplainSubject, viewport: Viewport, redaction: Redaction
) -> Explanation:
    queue = await deployment.queue(subject.queue)
    return await explain(queue, subject.id, partial(date, zone=viewport.zone), redaction)


async def _view(deployment: Deployment, viewport: Viewport, redaction: Redaction) -> Snapshot:
    if viewport.view == "overview":
        found = await overview(deployment, signs=True)
        queues = tuple(_listed(row) for row in found.rows)
        return Snapshot(viewport, found.now_ms, queues, overview=found.rows)
    registered, now = await both(all_queues(deployment.prefix), server_ms())
    bare = Snapshot(viewport, now, tuple(map(_listed, registered)))
    entry = next((entry for entry in registered if entry.name == viewport.queue), None)
    if entry is None:
        return replace(bare, problem=f"no queue {viewport.queue!r} here")
    try:
        queue = deployment.open(entry)
    except Refused as refusal:
        return replace(bare, problem=str(refusal))
    # Separate errors: on a cluster, the error then names the node that does not answer.
    filled, detail = await both(apart(_filled(queue, bare, redaction)), apart(_detail(queue, bare)))
    if isinstance(filled, Exception):
        raise filled
    if isinstance(detail, Exception):
        raise detail
    return replace(filled, entry=detail.entry, request=detail.request)


def _listed(entry: Registered | Any) -> ListedQueue:
    type_ = queue_class(entry.kind)
    if type_ is None:
        return ListedQueue(
            entry.name, entry.kind, actions={}, editable_states=(), has_settings=False
        )
    return ListedQueue(
        entry.name,
        entry.kind,
        features(type_),
        type_.actions,
        type_.editable_states,
        type_.has_settings,
    )


async def _filled(queue: Queue[Any], bare: Snapshot, redaction: Redaction) -> Snapshot:
    counts = await queue.counts.op(bare.now_ms)
    snapshot = replace(bare, counts=counts)
    match bare.viewport.view:
        case "levels" if isinstance(queue, HasPriorityLevels):
            levels, (requests, open) = await both(queue.levels.op(), _open_requests(queue))
            return replace(snapshot, levels=tuple(levels), requests=requests, open=open)
        case "requests" if isinstance(queue, HasRequests):
            return await _requests(queue, snapshot)
        case "waiting" | "pending" | "dead" | "trash" as state:
            return await _entries(queue, snapshot, state, counts.of(state))
        case "groups":
            return await _grouped(queue, snapshot, redaction)
        case "consumers":
            return replace(snapshot, reports=tuple(await consumer_reports(queue)))
        case "clients" if isinstance(queue, HasClients):
            first, end = bare.viewport.start, bare.viewport.end
            found = await queue.clients.op(first, max(1, end - first))
            return replace(snapshot, start=first, total=found.total, clients=found.clients)
        case "processes":
            return replace(snapshot, processes=tuple(await processes_of(queue)))
        case "log":
            return replace(snapshot, operations=tuple(await audit_log.last(queue, OPERATIONS)))
        case "periodic" if isinstance(queue, HasPeriodicEntries):
            return replace(snapshot, periodic=tuple(await periodic_status(queue)))
        case "settings":
            return replace(snapshot, settings=tuple(await retention(queue)))
        case "delayed":
            filled, upcoming = await both(
                _entries(queue, snapshot, "delayed", counts.of("delayed")),
                _upcoming(queue, bare, counts.delayed),
            )
            return replace(filled, upcoming=upcoming)
    return snapshot


async def _entries(
    queue: Queue[Any], snapshot: Snapshot, state: State, total: int | None
) -> Snapshot:
    viewport = snapshot.viewport
    first, end = viewport.start, viewport.end
    if total is None:
        # Counted by rank, as the rows are read: other pages count only what they show.
        total = (await queue.page.op(state, max=1, start=0)).total
    if viewport.descending:
        first, end = max(0, total - viewport.end), max(0, total - viewport.start)
    pages = await together(
        queue.page.op(
            state, start=low, max=max(1, min(PAGE, end - low)), payloads="payload" in viewport.needs
        )
        for low in range(first, max(end, first + 1), PAGE)
    )
    # By id: an entry that moved between two pages of one round trip is in both.
    found, size = {entry.id: entry for page in pages for entry in page.entries}, pages[-1].total
    entries, snapshot = tuple(found.values()), replace(snapshot, exact=pages[-1].exact)
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


async def _grouped(queue: Queue[Any], snapshot: Snapshot, redaction: Redaction) -> Snapshot:
    """The latest dead letters in groups: so few that a refresh costs the same for any number."""
    latest = replace(snapshot.viewport, start=0, end=GROUPED, descending=True)
    found = await _entries(
        queue, replace(snapshot, viewport=latest), "dead", _number(snapshot, "dead")
    )
    groups = ErrorGroups(redaction=redaction)
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
    found, open = await both(
        queue.requests.op(0, OPEN_REQUESTS), requests_of(queue).requests_total.op(False)
    )
    return tuple(found), open


async def _requests(queue: HasRequests[Any], snapshot: Snapshot) -> Snapshot:
    """Open requests, oldest first, then settled ones, latest first, as one list."""
    totals = requests_of(queue).requests_total
    open, settled = await both(totals.op(False), totals.op(True))
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


async def _upcoming(queue: Queue[Any], bare: Snapshot, total: int) -> Upcoming:
    """The timeline, scaled to show 95 % of the delayed entries: one far entry is cut off."""
    now, buckets = bare.now_ms, bare.viewport.buckets
    within = await queue.due_counts.op([now, *(now + buckets * step for step in STEPS)])
    enough = (
        step for step, sum_ in zip(STEPS, accumulate(within), strict=True) if sum_ >= 0.95 * total
    )
    step = next(enough, STEPS[-1])
    # Bars begin at multiples of their width, so that they move left and don't flicker.
    start = now // step * step
    numbers = await queue.due_counts.op([start + k * step for k in range(buckets + 1)])
    return Upcoming(start, step, tuple(numbers), max(0, total - sum(numbers)))


async def _detail(queue: Queue[Any], bare: Snapshot) -> Snapshot:
    id = bare.viewport.detail
    if id is None:
        return bare
    if bare.viewport.view in ("levels", "requests"):
        request = await attempt(request_details(queue, id, HISTORY))
        return bare if isinstance(request, Exception) else replace(bare, request=request)
    entry = await attempt(entry_details(queue, id, HISTORY))
    return bare if isinstance(entry, Exception) else replace(bare, entry=entry)
