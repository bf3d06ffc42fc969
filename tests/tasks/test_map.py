"""Many calls of one task as one request."""

from __future__ import annotations

import pytest
import redis

from redisq_ops.tasks import BadArguments, JobFailed, JobGone, Tasks

pytestmark = pytest.mark.alike


@pytest.fixture
def jobs(client: redis.Redis) -> Tasks:
    tasks = Tasks("jobs")
    tasks.connect(client)
    return tasks


def run(tasks: Tasks) -> None:
    tasks.worker(burst=True, concurrency=4).run()


def test_results_come_in_the_order_of_the_values(jobs: Tasks) -> None:
    @jobs.task(retries=0)
    def square(n: int, plus: int = 0) -> int:
        if n < 0:
            raise ValueError("negative")
        return n * n + plus

    batch = square.map(range(300), plus=1)
    assert (batch.progress().total, batch.progress().done) == (300, 0)
    with pytest.raises(TimeoutError, match=f"still open: 1 of 1: {batch.id}"):
        batch.results(timeout=0)
    mixed = square.map([2, -1, 3])
    run(jobs)
    assert batch.results(timeout=0) == [n * n + 1 for n in range(300)]
    assert (batch.progress().done, mixed.progress().dead) == (300, 1)
    with pytest.raises(JobFailed, match="ValueError: negative"):
        mixed.results(timeout=0)
    first, error, last = mixed.results(timeout=0, errors=True)
    assert (first, last) == (4, 9)
    assert isinstance(error, JobFailed) and error.job == f"{mixed.id}/2"
    entry = jobs.maps().get(f"{mixed.id}/2")
    assert entry and entry.task == "square"


def test_nothing_is_sent_if_one_value_does_not_fit(jobs: Tasks, client: redis.Redis) -> None:
    @jobs.task()
    def square(n: int) -> int:
        return n * n

    with pytest.raises(BadArguments, match="Expected `int`"):
        square.map([1, "two"])
    assert client.keys() == []
    assert square.map([]).results(timeout=0) == []
    batch = square.map([1])
    jobs.maps().client.flushall()
    with pytest.raises(JobGone):
        batch.progress()
