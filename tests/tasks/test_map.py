"""Many calls of one task as one request."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from pathlib import Path

import pytest
import redis

from redisq_ops import Work, connect
from redisq_ops.core.model.errors import BadInput
from redisq_ops.tasks import BadArguments, JobFailed, JobGone, Task, Tasks

from ..queue_steps import move

pytestmark = pytest.mark.alike


@pytest.fixture
def jobs(url: str) -> Tasks:
    tasks = Tasks("jobs")
    tasks.connect(connect(url))
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
    entry = jobs.queues.queue("jobs.map").get(f"{mixed.id}/2")
    assert entry and entry.task == "square"


def test_nothing_is_sent_if_one_value_does_not_fit(jobs: Tasks, client: redis.Redis) -> None:
    @jobs.task()
    def square(n: int) -> int:
        return n * n

    with pytest.raises(BadArguments, match="Expected `int`"):
        square.map([1, "two"])
    for values, options, said in (
        ("ab", {}, "values must be a list, not str"),
        (3, {}, "values must be a list, not int"),
        ([1], {"unique": "a"}, "unexpected keyword argument 'unique'"),
        ([1], {"then": square}, "^then has <task square of jobs>: write what follows as TASK"),
    ):
        with pytest.raises(BadInput, match=said):
            square.map(values, **options)  # type: ignore[arg-type]
    assert client.keys() == []
    assert square.map([]).results(timeout=0) == []
    batch = square.map([1])
    jobs.queues.queue("jobs.map").client.flushall()
    with pytest.raises(JobGone):
        batch.progress()


def test_what_follows_runs_once_with_the_results_in_order(jobs: Tasks) -> None:
    told, mended = list[list[int]](), list[bool]()

    @jobs.task(retries=0)
    def square(n: int) -> int:
        if n < 0 and not mended:
            raise ValueError("negative")
        return n * n

    @jobs.task()
    def add(numbers: list[int], plus: int = 0) -> int:
        told.append(numbers)
        return sum(numbers) + plus

    @jobs.task()
    async def double(n: int) -> int:
        return 2 * n

    batch = square.map(range(4), then=[add.after("numbers", plus=1), double.after("n")])
    none = square.map([], then=add.after("numbers"))
    assert [job.state() for job in batch.then] == ["waiting", None]
    with pytest.raises(TimeoutError):
        batch.then[0].result(timeout=0)
    run(jobs)
    assert [job.result(timeout=0) for job in (*batch.then, *none.then)] == [15, 30, 0]
    assert asyncio.run(batch.then[1].aresult(timeout=0)) == 30
    broken = square.map([1, -2, 3], then=add.after("numbers"))
    run(jobs)
    with pytest.raises(JobFailed, match=f"the result of {broken.id}/2, which is dead: replay"):
        broken.then[0].result(timeout=0)
    mended.append(True)
    for n, id in enumerate((f"{broken.id}/2", broken.then[0].id), 1):
        move(jobs.queues.queue("jobs.map"), f"replay-{n}", "replay", "dead", id)
        run(jobs)
    assert broken.then[0].result(timeout=0) == 14
    assert sorted(told) == [[], [0, 1, 4, 9], [1, 4, 9]]
    with pytest.raises(BadArguments, match="missing a required argument"):
        square.map([1], then=add.after("plus"))


@pytest.mark.parametrize("dies", ["before", "after"])
def test_what_follows_runs_once_though_the_worker_of_the_last_part_is_killed(
    client: redis.Redis, url: str, tmp_path: Path, dies: str
) -> None:
    runs, killed = tmp_path / "runs", tmp_path / "killed"

    def declared(client: redis.Redis) -> tuple[Tasks, Task[..., int], Task[..., int]]:
        tasks = Tasks("jobs")
        tasks.connect(client)

        @tasks.task()
        def part(n: int) -> int:
            return n

        @tasks.task()
        def add(numbers: list[int]) -> int:
            with runs.open("a") as file:
                file.write("x")
            return sum(numbers)

        return tasks, part, add

    def worker() -> None:
        tasks, _, _ = declared(redis.Redis.from_url(url))

        def kill(job: Work, *_: object) -> None:
            if job.id.endswith("/5") and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        tasks.hook("before" if dies == "before" else "after")(kill)
        tasks.worker(lease=0.2, concurrency=2).run()

    _, part, add = declared(client)
    batch = part.map(range(1, 6), then=add.after("numbers"))
    for code in (-signal.SIGKILL, -signal.SIGTERM):
        process = multiprocessing.get_context("fork").Process(target=worker)
        process.start()
        if killed.exists():
            assert batch.then[0].result(timeout=60) == 15
            process.terminate()
        process.join()
        assert process.exitcode in (code, 0)
    assert runs.read_text() == "x"
