"""Reads a `Snapshot` for the dashboard: a fixed number of round trips, whatever a queue's size.

Modules for views other than the overview are imported when one is opened: the first frame, which
shows the overview, appears sooner.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING

from redisq_ops.core.engine.optional_features import features
from redisq_ops.core.engine.queue_classes import queue_class
from redisq_ops.core.engine.registry import Registered, all_queues, server_ms
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.redis.operation import apart, together

from ..deployment import Deployment
from ..redaction import NO_REDACTION, Redaction
from ..terminal import date
from .chart_reader import ChartReader
from .overview import QueueRow
from .rolling_overview import RollingOverview
from .snapshot import ExplainSubject, ListedQueue, Snapshot, Viewport

if TYPE_CHECKING:
    from ..doctor.server_report import ServerReport
    from ..explain.reason import Explanation
    from ..groups.error_groups import ErrorGroup
    from .dead_reader import DeadReader
    from .kept_tasks import KeptTasks

TASKS_MS = 5000
"""the figures of tasks are at most this old"""


class KeptReads:
    """What a dashboard keeps from refresh to refresh, so as not to read it again."""

    def __init__(self, deployment: Deployment) -> None:
        self.overview = RollingOverview(deployment)
        self.charts = ChartReader(deployment, self.overview)
        self.tasks: KeptTasks | None = None
        """made when its view is opened"""
        self._deployment = deployment
        self._dead: DeadReader | None = None
        self._entry: Registered | None = None
        self._now, self._at = 0, 0.0

    @property
    def dead(self) -> DeadReader:
        from .dead_reader import DeadReader

        self._dead = self._dead or DeadReader(self._deployment, self.overview)
        return self._dead

    async def worst(self, column: str, redaction: Redaction) -> tuple[ErrorGroup, ...]:
        """The largest groups of dead letters, of the overview as it was last read."""
        return await self.dead.worst(column, redaction) if self.overview.worst_dead(1) else ()

    @property
    def worst_left(self) -> bool:
        """Whether these groups were not read of each queue once."""
        if self.overview.slow or not self.overview.worst_dead(1):
            return False
        return self._dead is None or self._dead.begins

    def keep(self, entry: Registered, now: int) -> None:
        """Keep the registry entry of the queue that is shown, and the server's time (ms)."""
        self._entry, self._now, self._at = entry, now, monotonic()

    def guess(self, queue: str | None) -> tuple[Registered, int] | None:
        """The entry and the time that `keep` would get now, if the queue is the same."""
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
    if viewport.servers:
        snapshot, found = await together(
            _view(deployment, viewport, redaction, kept), apart(_servers(deployment))
        )
        if isinstance(found, Exception):
            return replace(snapshot, servers_problem=str(found))
        return replace(snapshot, servers=tuple(found))
    if viewport.explain is None:
        return await _view(deployment, viewport, redaction, kept)
    snapshot, explanation = await together(
        _view(deployment, viewport, redaction, kept),
        apart(_explanation(deployment, viewport.explain, viewport, redaction)),
    )
    if isinstance(explanation, Exception):
        return replace(snapshot, explain_error=str(explanation))
    return replace(snapshot, explanation=explanation)


async def _servers(deployment: Deployment) -> list[ServerReport]:
    from ..doctor.server_report import server_reports

    return await server_reports(deployment, await deployment.queues())


async def _explanation(
    deployment: Deployment, subject: ExplainSubject, viewport: Viewport, redaction: Redaction
) -> Explanation:
    from ..explain.explanation import explain

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
        found, worst = await together(
            kept.overview.read(viewport.in_sight), kept.worst(viewport.column, redaction)
        )
        queues = tuple(map(_listed, found.rows))
        return Snapshot(
            viewport,
            found.now_ms,
            queues,
            overview=found.rows,
            unread=found.unread,
            worst=worst,
            worst_left=kept.worst_left,
        )
    if viewport.view == "dead-all":
        found, dead, left = await kept.dead.read(viewport.column, viewport.buckets, redaction)
        queues = tuple(map(_listed, found.rows))
        # Until all were read, the next read follows at once.
        unread = found.unread + left
        return Snapshot(
            viewport, found.now_ms, queues, overview=found.rows, unread=unread, dead=dead
        )
    if viewport.view == "charts" and viewport.charts.all_queues:
        found, data = await kept.charts.of_all(viewport.charts)
        queues = tuple(map(_listed, found.rows))
        return Snapshot(viewport, found.now_ms, queues, overview=found.rows, charts=data)
    registry = together(all_queues(deployment.prefix), server_ms())
    read: Snapshot | Exception | None = None
    guessed = kept.guess(viewport.queue)
    if guessed is None:
        registered, now = await registry
    else:
        # Separate errors: on a cluster, the error then names the node that does not answer.
        known, read = await together(
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
        counts, data = await together(
            queue.counts.op(now), kept.charts.of_queue(queue, entry, now, viewport.charts)
        )
        return replace(bare, counts=counts, charts=data)
    if viewport.view == "tasks":
        from .kept_tasks import KeptTasks

        kept.tasks = kept.tasks or KeptTasks(TASKS_MS)
        counts, report = await together(
            queue.counts.op(now), kept.tasks.read(queue, now, redaction)
        )
        return replace(bare, counts=counts, tasks=report)
    from .queue_snapshot import read_view

    return await read_view(queue, bare, redaction)


def _listed(entry: Registered | QueueRow) -> ListedQueue:
    return _listed_queue(entry.name, entry.kind)


@lru_cache(4096)
def _listed_queue(name: str, kind: str) -> ListedQueue:
    type_ = queue_class(kind)
    if type_ is None:
        return ListedQueue(name, kind, actions={}, editable_states=(), has_settings=False)
    return ListedQueue(
        name,
        kind,
        features(type_),
        type_.actions,
        type_.editable_states,
        type_.has_settings,
        type_.no_commands,
        type_.unlisted,
    )
