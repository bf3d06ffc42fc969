"""Fetching a `Snapshot`: for each view a fixed number of round trips, whatever the queue's size.

Windows only: the rows on the screen and a page around them. Reads only, no Lua: a viewer's rights
are enough.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from redisq_ops.core.engine.optional_features import HasPriorityLevels, HasRequests, features
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.queue_classes import queue_class
from redisq_ops.core.engine.registry import Registered, all_queues, server_ms
from redisq_ops.core.model.entry import Request, State
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.redis.operation import apart, attempt, both, together

from ..change.control import requests_of
from ..deployment import Deployment
from ..explain.explanation import Explanation, explain
from ..filter.scan import PAGE
from ..groups.error_groups import ErrorGroups
from ..redaction import NOTHING, Redaction
from ..terminal import date
from .consumers import reports
from .details import entry_view, request_view
from .overview import overview
from .snapshot import GROUPED, About, ListedQueue, Snapshot, Upcoming, Wish

HOLDERS = 200
HISTORY = 100
"""events looked through at every refresh; one of them may be about 500 entries"""
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
STEPS = (
    _SECOND, 2 * _SECOND, 5 * _SECOND, 10 * _SECOND, 15 * _SECOND, 30 * _SECOND,
    _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE,
    _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 30 * _DAY,
)  # fmt: skip
"""widths a bar of the timeline may have, ms"""


async def fetch(deployment: Deployment, wish: Wish, redaction: Redaction = NOTHING) -> Snapshot:
    """What ``wish`` asks for. A queue that isn't there is a ``problem``, not an error."""
    if wish.why is None:
        return await _picture(deployment, wish, redaction)
    picture, explained = await both(
        _picture(deployment, wish, redaction),
        apart(_explained(deployment, wish.why, wish, redaction)),
    )
    if isinstance(explained, Exception):
        return replace(picture, unexplained=str(explained))
    return replace(picture, explanation=explained)


async def _explained(
    deployment: Deployment, about: About, wish: Wish, redaction: Redaction
) -> Explanation:
    queue = await deployment.queue(about.queue)
    return await explain(queue, about.id, partial(date, zone=wish.zone), redaction)


async def _picture(deployment: Deployment, wish: Wish, redaction: Redaction) -> Snapshot:
    if wish.view == "overview":
        seen = await overview(deployment)
        queues = tuple(_listed(row) for row in seen.rows)
        return Snapshot(wish, seen.now_ms, queues, overview=seen.rows)
    registered, now = await both(all_queues(deployment.prefix), server_ms())
    bare = Snapshot(wish, now, tuple(map(_listed, registered)))
    entry = next((entry for entry in registered if entry.name == wish.queue), None)
    if entry is None:
        return replace(bare, problem=f"no queue {wish.queue!r} here")
    try:
        queue = deployment.open(entry)
    except Refused as refusal:
        return replace(bare, problem=str(refusal))
    # Apart, so that a node of several that doesn't answer is called that, as in the overview.
    filled, detail = await both(apart(_filled(queue, bare, redaction)), apart(_detail(queue, bare)))
    if isinstance(filled, Exception):
        raise filled
    if isinstance(detail, Exception):
        raise detail
    return replace(filled, entry=detail.entry, request=detail.request)


def _listed(entry: Registered | Any) -> ListedQueue:
    made = queue_class(entry.kind)
    if made is None:
        return ListedQueue(
            entry.name, entry.kind, actions={}, editable_states=(), has_settings=False
        )
    return ListedQueue(
        entry.name,
        entry.kind,
        features(made),
        made.actions,
        made.editable_states,
        made.has_settings,
    )


async def _filled(queue: Queue[Any], bare: Snapshot, redaction: Redaction) -> Snapshot:
    counts = await queue.counts.op(bare.now_ms)
    seen = replace(bare, counts=counts)
    match bare.wish.view:
        case "levels" if isinstance(queue, HasPriorityLevels):
            levels, (requests, open) = await both(queue.levels.op(), _holders(queue))
            return replace(seen, levels=tuple(levels), requests=requests, open=open)
        case "requests" if isinstance(queue, HasRequests):
            return await _requests(queue, seen)
        case "pending":
            return await _entries(queue, seen, "pending", counts.of("pending"))
        case "dead":
            return await _entries(queue, seen, "dead", counts.of("dead"))
        case "groups":
            return await _grouped(queue, seen, redaction)
        case "consumers":
            return replace(seen, reports=tuple(await reports(queue)))
        case "delayed":
            filled, upcoming = await both(
                _entries(queue, seen, "delayed", counts.of("delayed")),
                _upcoming(queue, bare, counts.delayed),
            )
            return replace(filled, upcoming=upcoming)
    return seen


async def _entries(queue: Queue[Any], seen: Snapshot, state: State, total: int | None) -> Snapshot:
    wish = seen.wish
    first, end = wish.start, wish.end
    if total is None:
        # Asked as the rows are: a page that begins at its front counts but what it shows.
        total = (await queue.page.op(state, max=1, start=0)).total
    if wish.descending:
        first, end = max(0, total - wish.end), max(0, total - wish.start)
    pages = await together(
        queue.page.op(
            state, start=low, max=max(1, min(PAGE, end - low)), payloads="payload" in wish.needs
        )
        for low in range(first, max(end, first + 1), PAGE)
    )
    # By id: between two pages of one round trip something may have come or gone.
    found, size = {entry.id: entry for page in pages for entry in page.entries}, pages[-1].total
    entries, seen = tuple(found.values()), replace(seen, exact=pages[-1].exact)
    if "priority" in wish.needs and isinstance(queue, HasRequests):
        ids = {entry.id.rpartition("/")[0] for entry in entries} - {""}
        requests = await together(queue.request.op(id) for id in sorted(ids))
        seen = replace(seen, priorities={r.id: r.priority for r in requests if r is not None})
    if not wish.descending:
        return replace(seen, start=first, total=size, entries=entries)
    # Counted and read one after the other: what came between is seen next time, what went is not
    # there any more.
    rows, total = entries[: end - first], min(total, size)
    return replace(seen, start=max(0, total - first - len(rows)), total=total, entries=rows[::-1])


async def _grouped(queue: Queue[Any], seen: Snapshot, redaction: Redaction) -> Snapshot:
    """The latest dead letters in groups: what a refresh may cost doesn't grow with their number."""
    latest = replace(seen.wish, start=0, end=GROUPED, descending=True)
    found = await _entries(queue, replace(seen, wish=latest), "dead", _number(seen, "dead"))
    groups = ErrorGroups(redaction=redaction)
    groups.add(found.entries)
    return replace(
        seen,
        groups=tuple(groups.ranked()),
        looked=len(found.entries),
        total=found.total,
        exact=found.exact,
    )


def _number(seen: Snapshot, state: State) -> int | None:
    return seen.counts.of(state) if seen.counts else None


async def _holders(queue: Queue[Any]) -> tuple[tuple[Request, ...], int]:
    if not isinstance(queue, HasRequests):
        return (), 0
    found, open = await both(
        queue.requests.op(0, HOLDERS), requests_of(queue).requests_total.op(False)
    )
    return tuple(found), open


async def _requests(queue: HasRequests[Any], seen: Snapshot) -> Snapshot:
    """Open requests by age, then settled ones, the latest first: one list of two."""
    totals = requests_of(queue).requests_total
    open, settled = await both(totals.op(False), totals.op(True))
    start, end = seen.wish.start, seen.wish.end
    parts = await together(
        queue.requests.op(low, high - low, part == "settled")
        for part, low, high in (
            ("open", min(start, open), min(end, open)),
            ("settled", max(0, start - open), max(0, end - open)),
        )
        if high > low
    )
    rows = tuple(request for part in parts for request in part)
    return replace(seen, start=start, total=open + settled, open=open, requests=rows)


async def _upcoming(queue: Queue[Any], bare: Snapshot, total: int) -> Upcoming:
    """A scale on which 95 % of what is delayed is in the picture; one far-off entry is not."""
    now, buckets = bare.now_ms, bare.wish.buckets
    within = await queue.due_counts.op([now, *(now + buckets * step for step in STEPS)])
    enough = (
        step for step, sum_ in zip(STEPS, accumulate(within), strict=True) if sum_ >= 0.95 * total
    )
    step = next(enough, STEPS[-1])
    # Edges on whole steps, so that the bars wander to the left and don't flicker.
    start = now // step * step
    numbers = await queue.due_counts.op([start + k * step for k in range(buckets + 1)])
    return Upcoming(start, step, tuple(numbers), max(0, total - sum(numbers)))


async def _detail(queue: Queue[Any], seen: Snapshot) -> Snapshot:
    id = seen.wish.detail
    if id is None:
        return seen
    if seen.wish.view in ("levels", "requests"):
        request = await attempt(request_view(queue, id, HISTORY))
        return seen if isinstance(request, Exception) else replace(seen, request=request)
    entry = await attempt(entry_view(queue, id, HISTORY))
    return seen if isinstance(entry, Exception) else replace(seen, entry=entry)
