"""Plans of the entries that Spark selected: ordinary plan files, one for each queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.model.entry import Entry, State
from redisq_ops.core.model.states import Verb
from redisq_ops.ops.change.allowed import allowed, ensure_changeable
from redisq_ops.ops.change.plan import Draft
from redisq_ops.ops.change.prepare import ChangeRequest, PreparedChange
from redisq_ops.ops.change.preview import Preview
from redisq_ops.ops.change.scope import PlannedScope
from redisq_ops.ops.deployment import Deployment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PlannedQueues = Mapping[str, tuple[Queue[Any], int]]
"""by name: the queue, and its time before the selection; later entries are left out"""
_CHUNK = 1000


async def planned_queues(
    deployment: Deployment, verb: Verb, state: State, names: tuple[str, ...]
) -> PlannedQueues:
    """The named queues, or all that allow the change. Call it before entries are selected."""
    if names:
        queues = [await deployment.queue(name) for name in names]
        for queue in queues:
            allowed(queue, verb, state)
            await ensure_changeable(queue)
    else:
        every = await deployment.queues()
        queues = [queue for queue in every if state in queue.actions.get(verb, ())]
    return {queue.name: (queue, await queue.now.op()) for queue in queues}


def add_entries(frame: DataFrame, state: State, drafts: Mapping[str, Draft]) -> None:
    """Add the entries of ``frame``, which has the columns of a table of entries, to the drafts of
    their queues. Rows of other queues and states are left out, and duplicates count once."""
    held: defaultdict[str, list[Entry]] = defaultdict(list)
    for queue, entry in _entries(frame, state):
        if queue in drafts:
            held[queue].append(entry)
            if len(held[queue]) == _CHUNK:
                drafts[queue].add(held.pop(queue))
    for queue, entries in held.items():
        drafts[queue].add(entries)


def _entries(frame: DataFrame, state: State) -> Iterator[tuple[str, Entry]]:
    from pyspark.sql import functions as F

    ready = F.unix_millis("ready_at") if "ready_at" in frame.columns else F.lit(None).cast("long")
    rows = (
        frame.where(F.col("id").isNotNull() & (F.col("state") == state))
        .select("queue", "id", ready.alias("ready_ms"), F.unix_millis("since_at").alias("since_ms"))
        .dropDuplicates(["queue", "id"])
    )
    for queue, id, ready_ms, since_ms in rows.toLocalIterator(prefetchPartitions=True):
        yield queue, Entry(id, state, ready_ms, since_ms)


async def finish(
    draft: Draft,
    deployment: Deployment,
    request: ChangeRequest,
    description: str,
    high_water_ms: int,
    why: str,
) -> None:
    """Write a queue's plan. ``description``: the selection in words, for the audit log."""
    queue, state = request.queue, request.state
    scope = PlannedScope(queue, state, description, high_water_ms, draft.count)
    facts = {"verb": request.verb, "queue": queue.name, "state": state, "matched": draft.count}
    prepared = PreparedChange(request, scope, Preview("", facts=facts))
    await prepared.write_plan(draft, why, deployment)
