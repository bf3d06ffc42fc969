"""What charts show of the past."""

from __future__ import annotations

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.rates import Rates
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.change import control
from redisq_ops.ops.change.audit_log import Author
from redisq_ops.ops.deployment import Deployment
from redisq_ops.ops.inspect.chart_reader import DAY, QUEUES
from redisq_ops.ops.inspect.snapshot import ChartData, ChartScope, Viewport
from redisq_ops.ops.inspect.snapshot_reader import KeptReads, fetch

pytestmark = pytest.mark.alike

MINUTE = 60_000
NAMES = [f"q{n:02}" for n in range(QUEUES + 5)]


def charts(deployment: Deployment, kept: KeptReads, scope: ChartScope) -> tuple[ChartData, int]:
    viewport = Viewport("charts", NAMES[0], charts=scope)
    snapshot = run(deployment.client, fetch(deployment, viewport, kept=kept))
    assert snapshot.charts is not None
    return snapshot.charts, snapshot.now_ms


def test_rates_of_a_queue_and_of_all(client: redis.Redis) -> None:
    queues = {name: RequestQueue(client, name) for name in NAMES}
    now = queues[NAMES[0]].now()
    for number, name in enumerate(NAMES, 1):
        for ago in (0, 3, 50, 70, 600, DAY - 3):
            clock = FakeClock(now - ago * MINUTE)
            RequestQueue(client, name, clock=clock).submit([b"x"] * number, id=f"r{ago}")
    deployment = Deployment(client)
    kept = KeptReads(deployment)
    for minutes in (60, DAY):
        for _ in range(2):  # also with what was kept
            data, at = charts(deployment, kept, ChartScope(minutes))
            assert data.rates == queues[NAMES[0]].rates(at, minutes)

    data, at = charts(deployment, kept, ChartScope(60, all_queues=True))
    assert data.rates == Rates.total([queue.rates(at) for queue in queues.values()])
    seen = []
    for _ in range(3):
        data, at = charts(deployment, kept, ChartScope(DAY, all_queues=True))
        seen.append((data.read, data.of))
    assert seen == [(QUEUES, len(NAMES)), (len(NAMES), len(NAMES)), (len(NAMES), len(NAMES))]
    # What is read of a day ends before the last hour; both ends are in it.
    assert data.rates == Rates.total([queue.rates(at, DAY) for queue in queues.values()])


def test_changes_are_the_queues_own_or_those_of_all(client: redis.Redis) -> None:
    for name in NAMES[:3]:
        queue = RequestQueue(client, name)
        queue.submit([b"x"], id="r")
        run(client, control.pause(queue, Author("kim", "ops-1", f"stop {name}")))
    deployment = Deployment(client)
    kept = KeptReads(deployment)
    own, _ = charts(deployment, kept, ChartScope())
    assert [operation.why for operation in own.operations] == ["stop q00"]
    every, _ = charts(deployment, kept, ChartScope(all_queues=True))
    assert {operation.why for operation in every.operations} == {"stop q00", "stop q01", "stop q02"}
