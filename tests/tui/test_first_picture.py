"""The README's first picture: queues of five other programs and ours on one screen."""

from dataclasses import replace

import pytest
import redis

from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.redis.operation import run
from redisq_ops.demo.other_programs import register_found, write_keys
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.overview import QueueRow
from redisq_ops.ops.inspect.overview import overview as read_overview
from redisq_ops.ops.inspect.snapshot import Snapshot, Viewport

from .test_snapshots import NOW, Seeded, overview, told

pytestmark = [pytest.mark.slow, pytest.mark.alike]

PROGRAMS = {"arq", "bullmq", "celery", "dramatiq", "rq"}
NOT_SHOWN = {"audit-log", "crm-sync", "fraud-check"}
"""of our own queues: the screen is full"""


def rows_of_programs(client: redis.Redis) -> list[QueueRow]:
    """What redisq reads of keys as the frameworks write them, and of two queues in trouble."""
    now_ms = run(client, server_ms())
    write_keys(client, now_ms)
    client.hset("bull:invoicing:meta", mapping={"version": "bullmq:5.81.5", "paused": 1})
    client.lpush("bull:invoicing:paused", *range(1, 13))
    client.sadd("rq:queues", "rq:queue:retina")
    client.rpush("rq:queue:retina", *(f"job-{n}" for n in range(8)))
    register_found(client)
    found = run(client, read_overview(Deployment(client)))
    return [at_picture_time(row, now_ms) for row in found.rows if row.kind in PROGRAMS]


def at_picture_time(row: QueueRow, now_ms: int) -> QueueRow:
    """The age of the oldest entry as it was at ``now_ms``, by the picture's fixed clock."""
    if row.counts is None or row.counts.oldest_ms is None:
        return row
    oldest_ms = row.counts.oldest_ms + NOW - now_ms
    return replace(row, counts=replace(row.counts, oldest_ms=oldest_ms))


def test_the_first_picture_shows_five_programs(client: redis.Redis) -> None:
    rows = rows_of_programs(client)
    assert {row.kind for row in rows} == PROGRAMS
    rows += [row for row in overview() if row.name not in NOT_SHOWN]
    rows.sort(key=lambda row: row.name)

    class FivePrograms(Seeded):
        async def look(self, viewport: Viewport) -> Snapshot:
            return replace(await super().look(viewport), overview=tuple(rows))

    told("readme", ((132, 28), {"readme/programs": ()}), source=FivePrograms())
