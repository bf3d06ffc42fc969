"""Jobs for clients, who take turns."""

from __future__ import annotations

import asyncio

import pytest
import redis

from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.tasks import JobFailed, Tasks, current_job, exponential
from redisq_ops.testing.tasks import at_once

from ..command_line import Redisq
from .test_tasks import of, run

pytestmark = pytest.mark.alike


def test_a_client_with_much_to_do_does_not_make_another_wait(client: redis.Redis) -> None:
    jobs, seen = of(Tasks("jobs"), client), list[tuple[str | None, int]]()

    @jobs.task()
    def render(n: int) -> int:
        seen.append((current_job().delivery.client, n))
        return n

    submitted = [render.submit(n, for_client="acme") for n in range(5)]
    submitted += [render.submit(n, for_client="ann") for n in range(2)]
    assert submitted[0].queue == "jobs.fair" and submitted[0].state() == "waiting"
    assert render.job(submitted[0].id, for_client="acme").state() == "waiting"
    run(jobs)
    assert [n for name, n in seen if name == "ann"] == [0, 1]
    assert {name for name, _ in seen[:4]} == {"acme", "ann"}, "ann's are among the first four"
    assert sum(name == "ann" for name, _ in seen[:4]) == 2
    assert [job.result(timeout=0) for job in submitted] == [*range(5), 0, 1]


def test_a_clients_job_is_retried_unique_and_followed_as_any_other(
    client: redis.Redis,
) -> None:
    clock, failing = FakeClock(), [True]
    jobs = of(Tasks("jobs"), client, clock)

    @jobs.task(retries=1, backoff=exponential(5, 600))
    def fetch(path: str) -> str:
        if failing[0]:
            raise OSError("not there")
        return path.upper()

    @jobs.task()
    def count(text: str) -> int:
        return len(text)

    job = fetch.submit("ab", for_client="acme", unique="ab", then=count.after("text"))
    assert not fetch.submit("ab", for_client="acme", unique="ab").created
    run(jobs)
    assert job.state() == "delayed"
    failing.clear()
    failing.append(False)
    clock.advance(6)
    run(jobs)
    assert (job.result(timeout=0), job.then[0].result(timeout=0)) == ("AB", 2)
    failing[0] = True
    dead = fetch.submit("c", for_client="acme")
    for _ in range(2):
        run(jobs)
        clock.advance(700)
    with pytest.raises(JobFailed, match="OSError: not there"):
        dead.result(timeout=0)


def test_awaited_and_seen_by_the_tools(url: str, client: redis.Redis, redisq: Redisq) -> None:
    jobs = Tasks("jobs", url=url)

    @jobs.task()
    async def double(n: int) -> int:
        return 2 * n

    async def submitted() -> str:
        job = await double.asubmit(4, for_client="acme")
        return job.id

    id = asyncio.run(submitted())
    (row,) = redisq.rows("waiting", "ls", "jobs.fair")
    assert (row["id"], row["task"], row["client"]) == (id, "double", "acme")
    run(jobs)
    assert double.job(id, for_client="acme").result(timeout=0) == 8
    assert "done" in redisq("wait", f"jobs.fair/{id}")
    assert redisq.rows("results", id) == [{"n": 1, "state": "done", "result": "8"}]
    assert redisq("results", f"jobs.fair/{id}", "--raw") == "8\n"
    assert "never was" in redisq.refusal("results", "jobs.fair/none", code=1)
    shown = redisq("inspect", "entry", f"jobs.fair/{id}")
    assert "8" in shown and "done" in shown
    jobs.close()


def test_no_queue_of_clients_appears_where_nobody_asked_for_it(client: redis.Redis) -> None:
    jobs = of(Tasks("jobs"), client)

    @jobs.task()
    def nothing() -> None: ...

    nothing.submit()
    run(jobs)
    assert not FairQueue(client, "jobs.fair").exists()
    with pytest.raises(BadInput, match=r"^level 'fair': jobs\.fair is a queue of its own"):
        Tasks("jobs", levels=["default", "fair"])


def test_at_once_a_clients_job_runs_like_any_other() -> None:
    jobs = Tasks("jobs")

    @jobs.task()
    def whose() -> str | None:
        return current_job().delivery.client

    with at_once(jobs):
        assert whose.submit(for_client="acme").result() == "acme"
        assert whose.submit().result() is None
