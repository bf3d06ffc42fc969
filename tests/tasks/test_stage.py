"""Tasks run at once, in the process of a test."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from redisq_ops.core.model.errors import BadInput
from redisq_ops.tasks import BadArguments, JobFailed, JobGone, Reject, Tasks, current_job
from redisq_ops.testing.tasks import at_once

jobs = Tasks("jobs", url="redis://127.0.0.1:1")  # nothing listens there
attempts: list[int] = []


@dataclass
class Size:
    width: int
    height: int


@jobs.task(retries=2, backoff=[10, 60])
def thumbnail(path: str, width: int = 200) -> Size:
    attempts.append(current_job().attempt)
    if path == "bad":
        raise OSError("no picture")
    if path == "late" and len(attempts) < 3:
        raise OSError("not yet")
    if path == "never":
        raise Reject("never")
    return Size(width, width // 2)


@jobs.task()
async def area(size: Size, factor: int = 1) -> int:
    await asyncio.sleep(0)
    return size.width * size.height * factor


@jobs.task()
def double(n: int) -> int:
    return n * 2


@jobs.task()
def twice(n: int) -> int:
    return double.submit(double.submit(n).result()).result()


@pytest.fixture(autouse=True)
def none_yet() -> None:
    attempts.clear()


def test_a_job_runs_when_it_is_submitted() -> None:
    with at_once(jobs):
        job = thumbnail.submit("a.png", width=100)
        assert (job.state(), job.result()) == ("done", Size(100, 50))
        with pytest.raises(BadArguments):
            thumbnail.submit(1)
        with pytest.raises(JobFailed, match="never"):
            thumbnail.submit("never").result()
    with at_once(jobs), pytest.raises(JobGone):
        job.result()


def test_time_passes_when_it_is_told_to() -> None:
    with at_once(jobs) as stage:
        soon = thumbnail.submit("a.png", in_=60)
        at = datetime.fromtimestamp(stage.now_ms / 1000, UTC) + timedelta(seconds=90)
        later = thumbnail.submit("b.png", at=at)
        assert soon.state() == "delayed"
        with pytest.raises(TimeoutError):
            soon.result()
        stage.advance(60)
        assert (soon.state(), later.state()) == ("done", "delayed")
        stage.advance(timedelta(seconds=30))
        assert later.result() == Size(200, 100)


def test_a_job_expires() -> None:
    with at_once(jobs) as stage:
        soon = stage.now_ms / 1000 + 30
        in_time = thumbnail.submit("a.png", in_=20, expires=soon)
        late = thumbnail.submit("b.png", in_=60, expires=soon)
        stage.advance(60)
        assert in_time.state() == "done"
        with pytest.raises(JobFailed, match="Expired: 30,000 ms too late"):
            late.result()


def test_retries_come_when_they_are_due() -> None:
    with at_once(jobs) as stage:
        bad = thumbnail.submit("bad")
        assert (bad.state(), attempts) == ("delayed", [1])
        stage.advance(10)
        assert attempts == [1, 2]
        stage.advance(60)
        assert attempts == [1, 2, 3]
        with pytest.raises(JobFailed, match="OSError: no picture"):
            bad.result()
        attempts.clear()
        late = thumbnail.submit("late")
        stage.advance(3600)
        assert late.result() == Size(200, 100), "one step over several due times"


def test_unique_jobs_and_chains() -> None:
    with at_once(jobs) as stage:
        one = thumbnail.submit("a", in_=5, unique="a")
        other = thumbnail.submit("b", in_=5, unique="a")
        assert (one.created, other.created) == (True, False)
        stage.advance(5)
        assert thumbnail.submit("a", unique="a").created, "it is done: the key is free"
        chain = thumbnail.submit("c", width=10, then=area.after("size", factor=2))
        assert chain.then[0].result() == 100


def test_async_callers() -> None:
    async def main() -> int:
        job = await area.asubmit(Size(2, 3))
        return await job.aresult()

    with at_once(jobs):
        assert asyncio.run(main()) == 6


def test_jobs_run_within_jobs() -> None:
    with at_once(jobs):
        chain = twice.submit(5, then=[twice.after("n"), twice.after("n")])
        assert chain.then[-1].result() == 5 * 4**3, "each call submits another one"


def test_what_needs_a_server_says_so() -> None:
    with at_once(jobs), pytest.raises(BadInput, match="map needs a server"):
        thumbnail.map(["a.png"])
    with at_once(jobs), pytest.raises(BadInput, match="workers and schedules need a server"):
        jobs.worker(burst=True)
