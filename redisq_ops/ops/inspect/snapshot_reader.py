"""Reads a `Snapshot` for the dashboard: a fixed number of round trips, whatever a queue's size.

It reads the rows on the screen and a page around them, without Lua: read permission is enough.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate
from time import monotonic
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
from .chart_reader import ChartReader
from .consumers import consumer_reports
from .details import entry_details, request_details
from .overview import QueueRow
from .periodic import periodic_status
from .rolling_overview import RollingOverview
from .snapshot import BAR_WIDTHS, GROUPED, ExplainSubject, ListedQueue, Snapshot, Upcoming, Viewport
from .worker_processes import processes_of

OPEN_REQUESTS = 200
"""open requests shown in the view of priority levels"""
HISTORY = 100
"""history events searched at every refresh; one event can list 500 entries"""
OPERATIONS = 200
"""latest changes in the view of the audit log"""


class KeptReads:
    """What a dashboard keeps from refresh to refresh, so as not to read it again."""

    def __init__(self, deployment: Deployment) -> None:
        self.overview = RollingOverview(deployment)
        self.charts = ChartReader(deployment, self.overview)
        self._entry: Registered | None = None
        self._now, self._at = 0, 0.0

    def keep(self, entry: Registered, now: int) -> None:
        """Keep the registry entry of the queue that is shown, and the server's time (ms)."""
        self._entry, self._now, self._at = entry, now, monotonic()

    def guess(self, queue: str | None) -> tuple[Registered, int] | None:
        """What `keep` would get now, unless the queue was changed: it saves a round trip."""
        if self._entry is None or self._entry.name != queue:
            return None
        return self._entry, self._now + round(1000 * (monotonic() - self._at))


async def fetch(
    deployment: Deployment,
    viewport: Viewport,
    redaction: Redaction = NO_REDACTION,
    kept: KeptReads | None = None,
) -> Snapshot:
    """Read what a viewport shows. A missing queue is the snapshot's ``problem``, not an error.

    With ``kept``, rows of the overview that are out of sight may be some seconds old."""
    if viewport.explain is None:
        return await _view(deployment, viewport, redaction, kept)
    snapshot, explanation = await both(
        _view(deployment, viewport, redaction, kept),
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


async def _view(
    deployment: Deployment,
    viewport: Viewport,
    redaction: Redaction,
    kept: KeptReads | None,
) -> Snapshot:
    kept = kept or KeptReads(deployment)
    if viewport.view == "overview":
        found = await kept.overview.read(viewport.in_sight)
        queues = tuple(map(_listed, found.rows))
        return Snapshot(viewport, found.now_ms, queues, overview=found.rows)
    if viewport.view == "charts" and viewport.charts.all_queues:
        found, data = await kept.charts.of_all(viewport.charts)
        queues = tuple(map(_listed, found.rows))
        return Snapshot(viewport, found.now_ms, queues, overview=found.rows, charts=data)
    registry = both(all_queues(deployment.prefix), server_ms())
    read: Snapshot | Exception | None = None
    guessed = kept.guess(viewport.queue)
    if guessed is None:
        registered, now = await registry
    else:
        # Separate errors: on a cluster, the error then names the node that does not answer.
        known, read = await both(
            apart(registry), apart(_of_queue(deployment, *guessed, viewport, redaction, kept))
        )
        if isinstance(known, Exception):
            raise known
        registered, now = known
    queues = tuple(map(_listed, registered))
    entry = next((entry for entry in registered if entry.name == viewport.queue), None)
    if entry is None:
        problem = f"no queue {viewport.queue!r} here"
        return Snapshot(viewport, now, queues, problem=problem)
    if read is None or guessed is None or entry != guessed[0]:
        kept.keep(entry, now)
        read = await _of_queue(deployment, entry, now, viewport, redaction, kept)
    elif isinstance(read, Exception):
        raise read
    kept.keep(entry, now)
    return replace(read, queues=queues, now_ms=now)


async def _of_queue(
    deployment: Deployment,
    entry: Registered,
    now: int,
    viewport: Viewport,
    redaction: Redaction,
    kept: KeptReads,
) -> Snapshot:
    bare = Snapshot(viewport, now)
    try:
        queue = deployment.open(entry)
    except Refused as refusal:
        return replace(bare, problem=str(refusal))
    if viewport.view == "charts":
        counts, data = await both(
            queue.counts.op(now), kept.charts.of_queue(queue, entry, now, viewport.charts)
        )
        return replace(bare, counts=counts, charts=data)
    filled, detail = await both(apart(_filled(queue, bare, redaction)), apart(_detail(queue, bare)))
    if isinstance(filled, Exception):
        raise filled
    if isinstance(detail, Exception):
        raise detail
    return replace(filled, entry=detail.entry, request=detail.request)


def _listed(entry: Registered | QueueRow) -> ListedQueue:
    return _listed_queue(entry.name, entry.kind)


@lru_cache(4096)
def _listed_queue(name: str, kind: str) -> ListedQueue:
    type_ = queue_class(kind)
    if type_ is None:
        return ListedQueue(name, kind, actions={}, editable_states=(), has_settings=False)
    return ListedQueue(
        name, kind, features(type_), type_.actions, type_.editable_states, type_.has_settings
    )


async def _filled(queue: Queue[Any], bare: Snapshot, redaction: Redaction) -> Snapshot:
    viewport = bare.viewport
    if viewport.view in ("groups", "delayed") or viewport.descending:
        # What is read depends on how many there are.
        counts = await queue.counts.op(bare.now_ms)
        return await _shown(queue, replace(bare, counts=counts), redaction)
    counts, shown = await both(queue.counts.op(bare.now_ms), _shown(queue, bare, redaction))
    return replace(shown, counts=counts)


async def _shown(queue: Queue[Any], snapshot: Snapshot, redaction: Redaction) -> Snapshot:
    """What the view lists; ``snapshot`` has the counts where that depends on them."""
    viewport = snapshot.viewport
    match viewport.view:
        case "levels" if isinstance(queue, HasPriorityLevels):
            levels, (requests, open) = await both(queue.levels.op(), _open_requests(queue))
            return replace(snapshot, levels=tuple(levels), requests=requests, open=open)
        case "requests" if isinstance(queue, HasRequests):
            return await _requests(queue, snapshot)
        case "waiting" | "pending" | "dead" | "trash" as state:
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
            return replace(snapshot, settings=tuple(await retention(queue)))
        case "delayed":
            filled, upcoming = await both(
                _entries(queue, snapshot, "delayed"),
                _upcoming(queue, snapshot, _number(snapshot, "delayed") or 0),
            )
            return replace(filled, upcoming=upcoming)
    return snapshot


async def _entries(queue: Queue[Any], snapshot: Snapshot, state: State) -> Snapshot:
    viewport = snapshot.viewport
    first, end, total = viewport.start, viewport.end, 0
    if viewport.descending:
        known = _number(snapshot, state)
        # Counted by rank, as the rows are read: other pages count only what they show.
        total = (await queue.page.op(state, max=1, start=0)).total if known is None else known
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
    found = await _entries(queue, replace(snapshot, viewport=latest), "dead")
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
