"""When each queue was created: a queue that is gone, or created anew, has lost what it had."""

from __future__ import annotations

from collections.abc import Sequence

from redisq_ops.core.engine.queue_types import KINDS
from redisq_ops.core.engine.registration_marks import marked
from redisq_ops.core.engine.registry import all_queues
from redisq_ops.core.model.entry import STATES
from redisq_ops.core.redis.operation import apart, together

from ..deployment import Deployment
from ..inspect.overview import QueueRow


async def births(deployment: Deployment, rows: Sequence[QueueRow]) -> dict[str, int]:
    """When each queue that has its data was created, in ms by its name; 0: unknown.

    At most two round trips. ``rows``: what was read of them before. Left out are queues that are
    not registered any more, and queues of ours that are registered and have no keys. Whether
    another program's queue has lost its keys can't be told: an empty one has none.
    """
    entries = await all_queues(deployment.prefix)
    empty = {
        row.name
        for row in rows
        if row.counts is not None and not any(row.counts.of(state) for state in STATES)
    }
    ours = [e for e in entries if e.name in empty and e.at is None and e.kind in KINDS]
    shards = [(entry.name, n) for entry in ours for n in range(entry.all_shards)]
    marks = await together(apart(marked(name, deployment.prefix, n)) for name, n in shards)
    kept = {name for (name, _), mark in zip(shards, marks, strict=True) if mark is not None}
    # A mark that can't be read is an exception here: not known to be lost.
    lost = {entry.name for entry in ours} - kept
    return {entry.name: entry.created_ms for entry in entries if entry.name not in lost}
