"""Tasks as their users know them: declared, submitted, run by a worker, awaited."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import threading
import time
import warnings
import weakref
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops import Work, connect
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.tasks import (
    BadArguments,
    JobFailed,
    JobFilter,
    JobGone,
    Reject,
    Retry,
    Task,
    Tasks,
    current_job,
    exponential,
)

from ..queue_steps import move

pytestmark = pytest.mark.alike


@dataclass
class Size:
    width: int
    height: int


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def jobs(client: redis.Redis, clock: FakeClock) -> Tasks:
    return of(Tasks("jobs"), client, clock)


def of(tasks: Tasks, client: redis.Redis, clock: FakeClock | None = None) -> Tasks:
    tasks.connect(client, "redisq", clock)
    return tasks


def run(tasks: Tasks, **options: Any) -> None:
    """Work until nothing is due."""
    tasks.worker(**{"burst": True, "concurrency": 1} | options).run()


def test_a_result_has_the_type_of_its_annotation(jobs: Tasks) -> None:
    @jobs.task()
    def thumbnail(path: Path, width: int = 200, since: datetime | None = None) -> Size:
        assert isinstance(path, Path)
        return Size(width, width // 2)

    first, second = thumbnail.submit(Path("a.png"), width=100), thumbnail.submit(Path("b.png"))
    assert (first.state(), first.created) == ("waiting", True)
    run(jobs)
    assert first.result(timeout=0) == Size(100, 50)
    assert first.result(timeout=0) == Size(100, 50), "a result may be asked for again"
    assert second.result(timeout=0) == Size(200, 100)
    assert thumbnail(Path("c.png"), 10) == Size(10, 5), "called, it is the function"


def test_a_result_may_be_awaited_before_it_is_there(client: redis.Redis) -> None:
    jobs = of(Tasks("jobs"), client)

    @jobs.task()
    def add(a: int, b: int) -> int:
        return a + b

    job, found = add.submit(1, b=2), list[int]()
    channel = f"redisq:{{jobs}}:result:{job.id}"
    waiter = threading.Thread(target=lambda: found.append(job.result(timeout=60)))
    waiter.start()
    while not client.pubsub_numsub(channel)[0][1]:
        time.sleep(0.005)
    run(jobs)
    waiter.join()
    assert found == [3]


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing a required argument: 'path'"),
        (("a", 1, 2), {}, "too many positional arguments"),
        (("a",), {"wdth": 1}, "unexpected keyword argument 'wdth'"),
        ((3,), {}, r"Expected `str`, got `int` - at `\$.path`"),
        (("a",), {"width": "wide"}, r"Expected `int`, got `str` - at `\$.width`"),
        (("a",), {"width": object()}, "object has no JSON"),
    ],
)
def test_arguments_are_checked_before_anything_is_sent(
    jobs: Tasks, client: redis.Redis, args: Any, kwargs: Any, said: str
) -> None:
    @jobs.task()
    def thumbnail(path: str, width: int = 200) -> None: ...

    with pytest.raises(BadArguments, match=f"^task thumbnail: .*{said}"):
        thumbnail.submit(*args, **kwargs)
    assert issubclass(BadArguments, TypeError)
    assert client.keys() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"in_": -1}, "in_ of -1: seconds from 0"),
        ({"at": 5}, "at of 5: Unix seconds expected"),
        ({"at": datetime(2026, 1, 1)}, "^at 2026-01-01T00:00:00 has no time zone"),
        ({"in_": 1, "at": datetime.now(UTC)}, "^in_ or at: give one of them"),
        ({"priority": "high"}, "jobs has default"),
        ({"unique": "a b"}, "unique"),
        ({"unique": ""}, "^unique '' can't be used: 1 to 128"),
        ({"expires": 60}, "^expires of 60: Unix seconds expected"),
        ({"for_client": "acme", "in_": 5}, "^for_client: clients take turns: leave in_, at and"),
        ({"for_client": "acme", "priority": "default"}, "^for_client: clients take turns"),
        ({"for_client": "a b"}, "client name"),
        ({"then": [print]}, "write what follows as TASK.after"),
        ({"then": 3}, "^then must be a list, not int"),
    ],
)
def test_options_are_checked_too(jobs: Tasks, options: Any, said: str) -> None:
    @jobs.task()
    def ping() -> None: ...

    with pytest.raises(BadInput, match=said):
        ping.submit(**options)


def test_a_declaration_that_can_not_work_is_refused(jobs: Tasks) -> None:
    def refused(said: str, function: Any, **options: Any) -> None:
        with pytest.raises(BadInput, match=said):
            jobs.task(**options)(function)

    def several(*paths: str) -> None: ...
    def optional(in_: int) -> None: ...
    def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def fine() -> None: ...

    def stream(n: int) -> Any:
        yield n

    async def astream(n: int) -> Any:
        yield n

    class Stream:
        def __call__(self, n: int) -> Any:
            yield n

    refused("^task stream yields: a task returns its result", stream)
    refused("^task astream yields", astream)
    refused("^task Stream yields", Stream())
    refused("each argument of a task has a name", several)
    refused("in_ is an option of submit", optional)
    refused("Nowhere", unknown)
    refused("retries must be 0 to 19", fine, retries=20)
    refused("timeout is seconds", fine, timeout="5s")
    refused("timeout of 0: seconds from 0.001", fine, timeout=0)
    refused("backoff must be a list, not str", fine, backoff="10")
    refused("backoff is an empty list", fine, backoff=[])
    refused("a name is letters", fine, name="a b")
    jobs.task()(fine)
    refused("declared twice", fine)
    with pytest.raises(BadInput, match="with parentheses"):
        jobs.task(fine)  # type: ignore[arg-type]


def test_an_object_that_is_called_is_awaited_if_its_call_is(jobs: Tasks) -> None:
    class Double:
        async def __call__(self, n: int) -> int:
            await asyncio.sleep(0)
            return 2 * n

    job = jobs.task()(Double()).submit(4)
    run(jobs)
    assert job.result(timeout=0) == 8


def test_retries_wait_as_the_policy_says_and_the_last_error_comes_back(
    jobs: Tasks, clock: FakeClock
) -> None:
    attempts = []

    @jobs.task(retries=2, backoff=exponential(10, 600))
    def shaky(x: int) -> int:
        attempts.append((clock.now_ms, current_job().attempt))
        raise ValueError(f"no {x}")

    job = shaky.submit(7)
    run(jobs)
    for wait in (9_000, 2_000, 18_000, 4_000):  # 10 s and 20 s, each ± 10 %
        assert job.state() == "delayed"
        clock.now_ms += wait
        run(jobs)
    first = attempts[0][0]
    assert [(at - first, n) for at, n in attempts] == [(0, 1), (11_000, 2), (33_000, 3)]
    with pytest.raises(JobFailed) as caught:
        job.result(timeout=0)
    failed = caught.value
    assert (failed.type, failed.message, failed.reason) == ("ValueError", "no 7", "failed")
    assert "in shaky" in failed.traceback


def test_retry_and_reject_are_as_in_any_handler(jobs: Tasks, clock: FakeClock) -> None:
    @jobs.task(retries=1, backoff=100)
    def picky(how: str) -> str:
        if how == "reject":
            raise Reject("never")
        if current_job().attempt == 1:
            raise Retry(after=5)
        return "in the end"

    later, never = picky.submit("retry"), picky.submit("reject")
    run(jobs)
    with pytest.raises(JobFailed, match="never"):
        never.result(timeout=0)
    clock.advance(5)
    run(jobs)
    assert later.result(timeout=0) == "in the end"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_task_that_takes_too_long_fails(client: redis.Redis, is_async: bool) -> None:
    jobs, ended = of(Tasks("jobs"), client), threading.Event()

    @jobs.task(retries=0, timeout=timedelta(milliseconds=50))
    def slow() -> None:
        ended.wait(90)

    @jobs.task(retries=0, timeout=0.05)
    async def aslow() -> None:
        await asyncio.sleep(20)

    @jobs.task(timeout=60)
    def quick() -> int:
        return 1

    job, other = (aslow if is_async else slow).submit(), quick.submit()
    if not is_async:
        del jobs.tasks["aslow"]
    run(jobs, concurrency=2)
    ended.set()
    with pytest.raises(JobFailed, match=r"Timeout: not done after 0\.05 s"):
        job.result(timeout=0)
    assert other.result(timeout=0) == 1


def test_what_the_code_of_a_worker_does_not_know_is_dead_at_once_and_can_be_replayed(
    jobs: Tasks, client: redis.Redis, clock: FakeClock
) -> None:
    new, old = jobs, of(Tasks("jobs"), client, clock)

    @new.task(name="resize")
    def resize(path: str, ratio: float = 1.0) -> str:
        return path

    @new.task()
    def added() -> int:
        return 5

    @old.task(name="resize")
    def old_resize(path: str) -> str:
        return path

    more, unknown = resize.submit("a", ratio=2.0), added.submit()
    queue = jobs.queues.queue("jobs")
    queue.schedule([("resize~x", b'{"task":"resize","kwargs":{}}'), ("other", b"\xff")])
    run(old)
    said = {entry.id: entry.error for entry in queue.page("dead").entries}
    assert {error.type for error in said.values() if error} == {"UnknownTask", "UnfitArguments"}
    texts = {id: error.message for id, error in said.items() if error}
    assert "has no task 'added' in jobs (it has resize)" in texts[unknown.id]
    assert "unknown field `ratio`" in texts[more.id]
    assert "missing required field `path`" in texts["resize~x"]
    assert "the payload calls no task" in texts["other"]
    with pytest.raises(JobFailed, match="UnknownTask"):
        unknown.result(timeout=0)
    queue.move(
        "replay-1",
        1,
        [more.id, unknown.id],
        source="dead",
        target="waiting",
        high_water_ms=clock.now_ms,
    )
    run(new)
    assert (more.result(timeout=0), unknown.result(timeout=0)) == ("a", 5)


def test_a_result_that_has_no_json_is_dead_and_says_so(jobs: Tasks) -> None:
    @jobs.task()
    def odd() -> Any:
        return threading.Lock()

    @jobs.task()
    def long() -> str:
        return "x" * (1024 * 1024 + 1)

    one, other = odd.submit(), long.submit()
    run(jobs)
    with pytest.raises(JobFailed, match="UnfitResult: task odd returned lock"):
        one.result(timeout=0)
    with pytest.raises(JobFailed, match="over 1,048,576 bytes"):
        other.result(timeout=0)


def test_nan_and_infinity_are_refused_and_none_is_not(jobs: Tasks) -> None:
    @jobs.task()
    def share(parts: Any) -> Any:
        return {"share": parts, "of": None}

    @jobs.task()
    def endless() -> list[float]:
        return [1.5, float("-inf")]

    with pytest.raises(BadArguments, match="float values are not JSON"):
        share.submit({"a": [float("nan")]})
    none, other = share.submit(None), endless.submit()
    run(jobs)
    assert none.result(timeout=0) == {"share": None, "of": None}
    with pytest.raises(JobFailed, match=r"UnfitResult: task endless returned list: .*float values"):
        other.result(timeout=0)


def test_a_job_that_was_purged_or_let_go_is_gone(jobs: Tasks, clock: FakeClock) -> None:
    @jobs.task()
    def ping() -> int:
        return 1

    purged, kept = ping.submit(), ping.submit()
    queue = jobs.queues.queue("jobs")
    move(queue, "purge-1", "purge", "waiting", purged.id)
    with pytest.raises(JobGone, match="was purged"):
        purged.result(timeout=0)
    with pytest.raises(TimeoutError, match=f"still open: 1 of 1: {kept.id}"):
        kept.result(timeout=0)
    run(jobs)
    clock.now_ms += 24 * 3_600_000
    queue.sweep()
    with pytest.raises(JobGone, match="or no longer"):
        kept.result(timeout=0)


def test_time_and_uniqueness(jobs: Tasks, clock: FakeClock) -> None:
    @jobs.task()
    def mail(to: str) -> str:
        return to

    soon = mail.submit("a", in_=10)
    later = mail.submit("b", at=datetime.fromtimestamp((clock.now_ms + 20_000) / 1000, UTC))
    one = mail.submit("c", in_=timedelta(seconds=30), unique="c")
    other = mail.submit("d", unique="c")
    assert (one.id, one.created, other.id, other.created) == ("mail~c", True, "mail~c", False)
    for wait, states in (
        (0, ("delayed", "delayed", "delayed")),
        (10_000, ("done", "delayed", "delayed")),
        (10_000, ("done", "done", "delayed")),
        (10_000, ("done", "done", "done")),
    ):
        clock.now_ms += wait
        run(jobs)
        assert tuple(job.state() for job in (soon, later, one)) == states
    assert other.result(timeout=0) == "c", "the job that was there"
    again = mail.submit("e", unique="c")
    assert again.created and again.state() == "waiting", "not the result before"
    run(jobs)
    assert again.result(timeout=0) == "e"


def test_a_worker_runs_several_jobs_at_a_time_unless_it_is_told_otherwise(
    client: redis.Redis,
) -> None:
    jobs = of(Tasks("jobs", concurrency=3), client)
    together, alone = threading.Barrier(3), threading.Lock()

    @jobs.task(retries=0)
    def meet(all_: bool) -> None:
        if all_:
            together.wait(90)
        else:
            assert alone.acquire(blocking=False)
            time.sleep(0.01)
            alone.release()

    met = [meet.submit(True) for _ in range(3)]
    jobs.worker(burst=True).run()
    apart = [meet.submit(False) for _ in range(3)]
    jobs.worker(burst=True, concurrency=1).run()
    assert [job.result(timeout=0) for job in (*met, *apart)] == [None] * 6


def test_levels_are_served_in_their_order(client: redis.Redis) -> None:
    jobs = of(Tasks("jobs", levels=["high", "default", "low"]), client)
    seen = []

    @jobs.task()
    def note(text: str) -> None:
        seen.append(text)

    @jobs.task(priority="low")
    def clean() -> None:
        seen.append("clean")

    clean.submit()
    for n in range(20):
        note.submit(f"d{n}")
        note.submit(f"h{n}", priority="high")
    run(jobs)
    # Within a level by ms, and those of one ms in any order.
    assert [text[0] for text in seen] == ["h"] * 20 + ["d"] * 20 + ["c"]
    with pytest.raises(BadInput, match="'default' among them"):
        Tasks("jobs", levels=["high"])
    with pytest.raises(BadInput, match="is a queue of its own"):
        Tasks("jobs", levels=["default", "map"])


def test_async_tasks_beside_others_and_async_callers(url: str) -> None:
    jobs = Tasks("jobs", url=url)

    @jobs.task()
    async def fetch(n: int) -> str:
        await asyncio.sleep(0.001)
        return f"{current_job().id}: {n}"

    @jobs.task()
    def plain(n: int) -> str:
        return f"{current_job().id}: {threading.current_thread().name}"

    @jobs.task(retries=0)
    async def blocking() -> str:
        return fetch.submit(0).result()

    stuck = blocking.submit()

    async def main() -> list[tuple[str, str]]:
        sent = await asyncio.gather(*(fetch.asubmit(n) for n in range(20)), plain.asubmit(1))
        worker = jobs.worker(burst=True, concurrency=8)
        running = asyncio.get_running_loop().run_in_executor(None, worker.run)
        results = await asyncio.gather(*(job.aresult(timeout=60) for job in sent))
        await running
        return [(job.id, result) for job, result in zip(sent, results, strict=True)]

    found = asyncio.run(main())
    assert [result.partition(":")[0] for _, result in found] == [id for id, _ in found]
    assert "redisq-task" in found[-1][1]
    with pytest.raises(JobFailed, match="to wait here stops the worker's event loop"):
        stuck.result(timeout=0)


def test_awaited_calls_go_to_the_server_and_prefix_of_the_client(url: str) -> None:
    clock = FakeClock()
    with connect(url, prefix="shop") as client:
        jobs = Tasks("jobs", url="redis://127.0.0.1:1", prefix="elsewhere")  # nobody listens there
        jobs.connect(client, clock=clock)

        @jobs.task()
        async def double(n: int) -> int:
            return 2 * n

        @jobs.task(retries=0)
        async def total(n: int) -> int:
            return await (await double.asubmit(n)).aresult(timeout=60) + 1

        async def submitted() -> str:
            return (await total.asubmit(4)).id

        job = total.job(asyncio.run(submitted()))
        assert job.state() == "waiting"
        jobs.worker(burst=True).run()
        assert job.result(timeout=0) == 9
        assert asyncio.run(job.aresult(timeout=0)) == 9

        async def delayed() -> str | None:
            late = await double.asubmit(1, in_=60)
            before = late.state()
            clock.advance(61)
            jobs.worker(burst=True).run()
            return before

        assert asyncio.run(delayed()) == "delayed"


def test_awaited_calls_are_refused_with_a_client_whose_server_is_not_known(
    client: redis.Redis, url: str
) -> None:
    jobs = Tasks("jobs", url=url)
    jobs.connect(client)

    @jobs.task()
    def double(n: int) -> int:
        return 2 * n

    with pytest.raises(BadInput, match=r"awaited calls want a client made by connect\(\)"):
        asyncio.run(double.asubmit(4))


def test_many_callers_await_results_at_the_same_time(url: str) -> None:
    jobs = Tasks("jobs", url=url)

    @jobs.task()
    def double(n: int) -> int:
        return 2 * n

    async def main() -> list[int]:
        sent = await asyncio.gather(*(double.asubmit(n) for n in range(120)))
        running = asyncio.create_task(asyncio.to_thread(jobs.worker(burst=True).run))
        results = await asyncio.gather(*(job.aresult(timeout=60) for job in sent))
        await running
        return results

    assert asyncio.run(main()) == [2 * n for n in range(120)]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_event_loops_that_were_only_closed_are_forgotten(url: str) -> None:
    """As programs close them that don't use `asyncio.run`."""
    jobs = Tasks("jobs", url=url)

    @jobs.task()
    def double(n: int) -> int:
        return 2 * n

    kept = []
    for n in range(5):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(double.asubmit(n))
        loop.close()
        kept.append(weakref.ref(loop))
        del loop
    gc.collect()
    assert sum(loop() is not None for loop in kept) <= 1
    del jobs, double
    gc.collect()  # warns of open connections, here and not in another test


def test_the_connections_of_an_event_loop_end_with_it(client: redis.Redis, url: str) -> None:
    jobs = Tasks("jobs", url=url)

    @jobs.task()
    def double(n: int) -> int:
        return 2 * n

    others = {each["id"] for each in client.client_list()}

    def open_ones() -> int:
        there = (each for each in client.client_list() if each["id"] not in others)
        return sum(each["name"].endswith("/tasks") for each in there)

    async def several() -> int:
        await asyncio.gather(*(double.asubmit(n) for n in range(5)))
        return open_ones()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(several()) > 1
        assert asyncio.run(several()) > 1
        gc.collect()
    for _ in range(200):
        if open_ones() == 0:
            break
        time.sleep(0.01)
    assert open_ones() == 0


def test_chains_hand_results_on(jobs: Tasks) -> None:
    @jobs.task()
    def fetch(path: str) -> Size:
        return Size(3, 4)

    @jobs.task()
    def area(size: Size, factor: int) -> int:
        return size.width * size.height * factor

    @jobs.task()
    def tell(text: str = "fine") -> str:
        return text

    job = fetch.submit("a", then=[area.after("size", factor=10), tell.after()])
    failing = fetch.submit("b", then=tell.after("text"))
    with pytest.raises(BadArguments, match="factor"):
        fetch.submit("a", then=area.after("size"))
    with pytest.raises(BadArguments, match="Expected `int`"):
        area.after("size", factor="much")
    run(jobs)
    assert [step.result(timeout=0) for step in job.then] == [120, "fine"]
    with pytest.raises(JobFailed, match=r"UnfitArguments.*Expected `str`"):
        failing.then[0].result(timeout=0)


def test_what_follows_a_dead_job_raises_its_error(jobs: Tasks) -> None:
    @jobs.task(retries=0)
    def broken() -> str:
        raise OSError("disk")

    @jobs.task()
    def tell(text: str) -> str:
        return text

    job = broken.submit(then=tell.after("text"))
    with pytest.raises(TimeoutError):
        job.then[0].result(timeout=0)
    run(jobs)
    with pytest.raises(JobFailed, match="OSError: disk"):
        job.then[0].result(timeout=0)


def test_hooks_and_log_lines_know_the_job(jobs: Tasks, caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, str | None, Any]] = []
    log = logging.getLogger("app")

    @jobs.task(retries=0)
    def divide(a: int, b: int) -> float:
        log.warning("dividing")
        return a / b

    @jobs.hook("before")
    def before(job: Work) -> None:
        told.append(("before", job.task, job.attempt))

    @jobs.hook("after")
    def after(job: Work, result: Any) -> None:
        told.append(("after", job.task, result))
        raise RuntimeError("a hook's own fault")

    @jobs.hook("failed")
    def failed(job: Work, error: BaseException) -> None:
        told.append(("failed", job.task, type(error)))

    good, bad = divide.submit(6, 3), divide.submit(1, 0)
    with caplog.filtering(JobFilter()):
        run(jobs)
    assert good.result(timeout=0) == 2.0
    assert told == [
        ("before", "divide", 1),
        ("after", "divide", 2.0),
        ("before", "divide", 1),
        ("failed", "divide", ZeroDivisionError),
    ]
    lines = [record for record in caplog.records if record.name == "app"]
    assert [(r.job, r.task, r.queue, r.attempt) for r in lines] == [  # type: ignore[attr-defined]
        (good.id, "divide", "jobs", 1),
        (bad.id, "divide", "jobs", 1),
    ]
    (dead,) = [vars(record) for record in caplog.records if "dead letter" in record.getMessage()]
    assert (dead["job"], dead["queue"]) == (bad.id, "jobs"), "a worker's line says it already"
    assert "a hook's own fault" in caplog.text
    with pytest.raises(LookupError, match="no job runs here"):
        current_job()
    with pytest.raises(BadInput, match="one of before, after, failed"):
        jobs.hook("never")  # type: ignore[arg-type]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_job_that_nobody_began_in_time_is_dead_and_says_so(
    jobs: Tasks, clock: FakeClock, is_async: bool
) -> None:
    ran = []

    @jobs.task()
    def offer(text: str) -> None:
        ran.append(text)

    if is_async:

        @jobs.task()
        async def other() -> None: ...

    soon = datetime.fromtimestamp((clock.now_ms + 60_000) / 1000, UTC)
    in_time, late = offer.submit("a", expires=soon), offer.submit("b", in_=90, expires=soon)
    run(jobs)
    clock.advance(90)
    run(jobs)
    assert (ran, in_time.state()) == (["a"], "done")
    with pytest.raises(JobFailed, match="Expired: 30,000 ms too late") as dead:
        late.result(timeout=0)
    assert dead.value.reason == "rejected"


def test_what_a_task_returns_after_its_attempt_was_over_starts_nothing(
    client: redis.Redis,
) -> None:
    jobs, released = of(Tasks("jobs"), client), threading.Event()
    told: list[tuple[str, Any]] = []

    @jobs.task(retries=0, timeout=0.05)
    def slow() -> int:
        released.wait(90)
        return 1

    @jobs.task()
    def next_(n: int) -> None: ...

    jobs.hook("after")(lambda job, result: told.append(("after", result)))
    jobs.hook("failed")(lambda job, error: told.append(("failed", str(error))))
    job = slow.submit(then=next_.after("n"))
    worker = threading.Thread(target=run, args=(jobs,))
    worker.start()
    with pytest.raises(JobFailed, match="Timeout"):
        job.result(timeout=60)
    released.set()
    worker.join()
    while not told:
        time.sleep(0.005)
    assert told == [("failed", "task slow returned after this attempt had ended")]
    assert job.then[0].state() is None


def test_a_hook_hears_of_a_job_that_the_code_does_not_know(jobs: Tasks) -> None:
    told = []

    @jobs.task()
    def ping() -> None: ...

    jobs.hook("failed")(lambda job, error: told.append((job.id, type(error).__name__)))
    job = ping.submit()
    del jobs.tasks["ping"]
    run(jobs)
    assert told == [(job.id, "UnknownTask")]


def test_a_function_that_outran_its_time_out_keeps_its_slot_also_beside_async_tasks(
    client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    jobs, released = of(Tasks("jobs"), client), threading.Event()

    @jobs.task()
    async def other() -> None: ...

    @jobs.task(retries=0, timeout=0.05)
    def slow() -> None:
        released.wait(90)

    @jobs.task(retries=0, timeout=0.05)
    def quick() -> int:
        return 2

    job = slow.submit()
    worker = jobs.worker(concurrency=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    with pytest.raises(JobFailed, match="Timeout"):
        job.result(timeout=60)
    after = quick.submit()
    time.sleep(0.3)
    assert after.state() == "waiting"
    released.set()
    assert after.result(timeout=60) == 2
    worker.stop()
    thread.join()
    assert "every slot is taken by a handler that outran its time-out" in caplog.text


def test_a_function_that_hangs_beside_async_tasks_does_not_keep_the_process(
    client: redis.Redis, url: str, tmp_path: Path
) -> None:
    def declared(client: redis.Redis) -> tuple[Tasks, Task[[], None]]:
        jobs = of(Tasks("jobs"), client)

        @jobs.task()
        async def other() -> None: ...

        @jobs.task()
        def hang() -> None:
            (tmp_path / "began").touch()
            threading.Event().wait()

        return jobs, hang

    def work() -> None:
        jobs, _ = declared(redis.Redis.from_url(url))
        jobs.worker(grace=0.1).run()

    _, hang = declared(client)
    job = hang.submit()
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    while not (tmp_path / "began").exists():
        time.sleep(0.005)
    process.terminate()
    process.join(30)
    ended = process.exitcode
    process.kill()
    assert (ended, job.state()) == (0, "waiting"), "given back"


def test_schedules_follow_the_code(client: redis.Redis, clock: FakeClock) -> None:
    old, new = (of(Tasks("jobs"), client, clock) for _ in range(2))
    seen = []

    @old.cron("0 6 * * *")
    @old.task()
    def gone() -> None: ...

    @old.cron("0 * * * *", text="old")
    @old.task(name="note")
    def old_note(text: str) -> None: ...

    @new.cron("*/5 * * * *", zone="Europe/Berlin", text="new")
    @new.task(name="note")
    def note(text: str) -> None:
        seen.append((text, current_job().id.partition("@")[0]))

    queue: DelaySet[Any] = new.queues.queue("jobs")
    old.declare_schedules()
    run(old)
    assert {one.name for one in queue.periodics()} == {"gone~cron", "note~cron"}
    run(new)
    (there,) = queue.periodics()
    assert (there.name, there.cron, there.zone, there.task) == (
        "note~cron",
        "*/5 * * * *",
        "Europe/Berlin",
        "note",
    )
    clock.now_ms += 5 * 60_000
    queue.tick()
    run(new)
    assert seen == [("new", "note~cron")]
    with pytest.raises(BadArguments, match="unexpected"):
        old.cron("* * * * *", text="x", more=1)(old.task(name="other")(note.function))
    with pytest.raises(BadInput, match="has a schedule already"):
        new.cron("* * * * *", text="x")(note)
    with pytest.raises(BadInput, match="above"):
        new.cron("* * * * *")(lambda: None)  # type: ignore[arg-type]


def test_a_waiting_job_takes_at_most_350_bytes(jobs: Tasks, client: redis.Redis) -> None:
    @jobs.task()
    def thumbnail(path: str) -> None: ...

    def used() -> int:
        return sum(client.memory_usage(key, samples=0) or 0 for key in client.scan_iter())

    thumbnail.submit("x")
    before, n = used(), 5000
    for _ in range(n):
        thumbnail.submit("x" * 59)  # with the task's name 100 bytes
    (entry,) = jobs.queues.queue("jobs").page("waiting", None, 1, payloads=True).entries
    (last,) = jobs.queues.queue("jobs").page("waiting", None, 1, n, payloads=True).entries
    assert last.payload is not None and len(last.payload) == 100
    assert entry.task == "thumbnail"
    assert (used() - before) / n <= 350
