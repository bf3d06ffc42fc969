"""The rate that all tasks of a job share."""

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.pipeline.sink.request_writer import reserve

pytestmark = pytest.mark.alike


def test_all_tasks_share_one_rate(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    waits = [run(client, reserve(queue, "job", 50, 500, 50)) for _ in range(5)]
    assert waits == [0, 100, 200, 300, 400]  # whoever asks: 50 entries are 100 ms at 500/s
    clock.advance(0.45)
    assert run(client, reserve(queue, "job", 50, 500, 50)) == 50
    assert run(client, reserve(queue, "another", 50, 500, 50)) == 0


def test_an_idle_rate_limiter_saves_one_burst_only(client: redis.Redis) -> None:
    clock = FakeClock()
    queue = RequestQueue(client, "mail", clock=clock)
    run(client, reserve(queue, "job", 10, 10, 10))
    clock.advance(3600)
    assert [run(client, reserve(queue, "job", 10, 10, 10)) for _ in range(3)] == [0, 1000, 2000]


def test_the_shared_rate_is_under_the_queues_hash_tag_and_expires(client: redis.Redis) -> None:
    queue = RequestQueue(client, "mail")
    run(client, reserve(queue, "job", 50, 500, 50))
    key = b"redisq:{mail}:bucket:job"
    assert client.keys("*bucket*") == [key]
    assert 0 < client.pttl(key) <= 60_200
