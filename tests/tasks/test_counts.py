"""What workers count of their tasks, and what `redisq tasks` says of it."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

from redisq_ops.core.engine.reads import TASK_SLICE_MS
from redisq_ops.core.engine.task_counts import BUCKETS, RunCounts, report
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.task_figures import TaskReport
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.inspect.task_report import HOUR_MS, TaskReader, window_words
from redisq_ops.tasks import Tasks

from ..command_line import Redisq

pytestmark = pytest.mark.alike


def declared(client: redis.Redis, clock: FakeClock | None, release: str = "") -> Tasks:
    jobs = Tasks("jobs", release=release)
    jobs.connect(client, "redisq", clock)

    @jobs.task(retries=0)
    def good(n: int) -> int:
        return n

    @jobs.task(retries=1, backoff=0)
    def bad() -> None:
        raise OSError("disk")

    return jobs


def work(jobs: Tasks, task: str, *values: Any, **options: Any) -> None:
    for value in values:
        jobs.tasks[task].submit(*value)
    jobs.worker(burst=True, **options).run()


def read(jobs: Tasks, span_ms: int = HOUR_MS) -> TaskReport:
    queue = jobs.queues.queue("jobs")
    return run(queue.client, TaskReader(queue, span_ms).read(queue.now()))


def test_each_attempt_of_each_task_is_counted_in_the_window_that_is_named(
    client: redis.Redis,
) -> None:
    clock = FakeClock()
    old, new = (declared(client, clock, release) for release in ("v2.4.0", "v2.4.1"))
    work(old, "good", *[(n,) for n in range(20)], concurrency=4)
    batch = old.tasks["good"].map(range(3))
    clock.now_ms += 2 * TASK_SLICE_MS
    began = clock.now_ms
    work(new, "bad", (), ())
    work(new, "good", (1,))
    clock.advance(60)
    found = read(new)
    figures = {each.task: (each.ended, each.failed, each.timed) for each in found.tasks}
    assert figures == {"good": (21, 0, 21), "bad": (4, 4, 0)}
    good, bad = sorted(found.tasks, key=lambda each: each.failed or 0)
    assert good.p50_ms in BUCKETS and found.times == "at most" and bad.p50_ms is None
    assert bad.error is not None and bad.error.line == "OSError: disk"
    assert found.since_ms == began - 2 * TASK_SLICE_MS, "when the first worker counted"
    assert [(mark.label, mark.at_ms) for mark in found.marks[1:]] == [("v2.4.1", began)]
    assert window_words(found).endswith("11m 00s; since v2.4.1 1m 00s")
    latest = {each.task: each.ended for each in read(new, TASK_SLICE_MS).tasks}
    assert latest == {"bad": 4, "good": 1}
    assert batch.results(timeout=0) == [0, 1, 2]
    (mapped,) = run(client, TaskReader(new.queues.queue("jobs.map")).read(clock.now_ms)).tasks
    assert (mapped.task, mapped.ended) == ("good", 3)


def test_a_run_time_is_in_the_bucket_that_bounds_it() -> None:
    runs = RunCounts()
    for seconds in (0, 0.001, 0.0011, 3600, 3601):
        runs.add("jobs", "a", seconds, failed=False)
    runs.add("jobs", "a", 1, failed=True)
    buckets = {"a|0": 2, "a|1": 1, f"a|{len(BUCKETS) - 1}": 1, f"a|{len(BUCKETS)}": 1}
    assert runs.take() == {"jobs": {"a|n": 6, "a|f": 1} | buckets}
    assert runs.take() == {}


def test_operators_see_them_and_a_destroyed_queue_leaves_none(
    client: redis.Redis, redisq: Redisq
) -> None:
    jobs = declared(client, None, "v1")
    work(jobs, "good", (1,), (2,))
    (row,) = redisq.rows("tasks", "jobs")
    assert (row["task"], row["ended"], row["failed"]) == ("good", 2, 0)
    assert [deploy["label"] for deploy in row["deploys"]] == ["v1"]
    assert time.time() * 1000 - row["since_ms"] < HOUR_MS
    redisq("queue", "rm", "jobs", "--yes")
    runs = RunCounts()  # of a worker that still runs
    runs.add("jobs", "good", 1.0, failed=False)
    run(client, report(jobs.queues.queue("jobs"), runs.take()["jobs"], "v1"))
    assert not [key for key in client.scan_iter() if b"{jobs}:task:" in key]
