import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from typing import Any

import fakeredis
import pytest
import redis

from redisq_ops import aconnect, connect
from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.clock import FakeClock
from redisq_ops.core.model.entry import Entry, Failure, Settlement
from redisq_ops.core.model.errors import BadInput, Unreachable, WrongKind
from redisq_ops.core.model.retry_policy import RetryPolicy
from redisq_ops.core.queues.delay import DelaySet, Periodic
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker import Worker, loop, queue_source, upkeep, wake_up
from redisq_ops.core.worker.handler import Handler, Work, exec_handler, name_entry
from redisq_ops.core.worker.lease_reclaimer import LeaseReclaimer
from redisq_ops.core.worker.queue_source import Tally
from redisq_ops.core.worker.retry import Reject, Retry
from redisq_ops.core.worker.wake_up import WakeUp, WakeUpListener
from redisq_ops.demo.server import EmbeddedServer
from redisq_ops.ops.deployment import Deployment

from ...proxy import FlakyProxy
from ...queue_steps import numbered
from ..own_specimens import OWN

Client = redis.Redis

# A worker process: its handler says that it began, and ends when it is allowed to.
PROCESS = """
import asyncio, logging, signal, sys, time
from pathlib import Path
from redisq_ops import RequestQueue, Worker, connect
url, where, lease, grace, batch, loop = sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]
logging.basicConfig(level=logging.INFO, format="%(message)s")
def handle(delivery):
    (where / "began").touch()
    while not (where / "go").exists():
        time.sleep(0.01)
    return b"of the process"
async def handle_later(delivery):
    (where / "began").touch()
    while not (where / "go").exists():
        await asyncio.sleep(0.01)
    return b"of the process"
queue = RequestQueue(connect(url), "mail")
worker = Worker(
    queue, handle_later if loop == "loop" else handle, consumer="process", lease=float(lease),
    grace=float(grace), batch=int(batch),
)
async def main():
    task = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await worker.run_async()
    except asyncio.CancelledError:
        pass
asyncio.run(main()) if loop == "loop" else worker.run()
"""


def until(condition: Callable[[], object]) -> None:
    """Wait; a condition that never comes is ended by the test's time-out."""
    while not condition():
        time.sleep(0.005)


def ended(pid: int) -> bool:
    """Whether a process is gone, or is only still in the list of them."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@contextmanager
def working(queues: Any, handler: Any, **options: Any) -> Iterator[Worker]:
    """A worker in a thread of its own, until the block ends."""
    worker = Worker(queues, handler, **options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        worker.stop()
        thread.join()


@contextmanager
def process(
    url: str,
    where: Path,
    lease: float = 30,
    grace: float = 25,
    batch: int = 1,
    how: str = "threads",
) -> Iterator[Any]:
    """A worker process, killed when the block ends; `.stderr` has its log. ``how``: ``loop`` for
    `Worker.run_async`."""
    options = map(str, (lease, grace, batch, how))
    command = [sys.executable, "-c", PROCESS, url, str(where), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def mail(
    client: Client, *payloads: bytes, id: str = "r1", limit: int = 100
) -> RequestQueue[Client]:
    queue = RequestQueue(client, "mail")
    if payloads:
        queue.submit(payloads, id=id, limit=limit)
    return queue


def is_done(queue: RequestQueue[Client], id: str = "r1") -> bool:
    request = queue.request(id)
    return request is not None and request.state == "done"


def entry(queue: RequestQueue[Client], id: str = "r1/1") -> Entry:
    found = queue.get(id)
    assert found is not None
    return found


@contextmanager
def counted(url: str) -> Iterator[tuple[Client, FlakyProxy]]:
    """A client whose commands are counted on their way: what scripts call isn't among them."""
    with FlakyProxy(int(url.rpartition(":")[2])) as proxy, connect(proxy.url) as client:
        assert isinstance(client, Client)
        yield client, proxy


def until_idle(client: Client, workers: int) -> None:
    until(lambda: client.info("clients")["blocked_clients"] == workers)


def lines(caplog: pytest.LogCaptureFixture, start: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith(start)]


# --- working --------------------------------------------------------------------------------------


def upper(delivery: Work) -> bytes:
    return delivery.payload.upper()


async def upper_later(delivery: Work) -> bytes:
    await asyncio.sleep(0)
    return delivery.payload.upper()


@pytest.mark.parametrize("options", [{}, {"batch": 7}, {"concurrency": 3}])
@pytest.mark.parametrize("handler", [upper, upper_later, exec_handler(["tr", "a-z", "A-Z"])])
def test_every_kind_of_handler_works_a_request_off(
    client: Client, handler: Any, options: dict[str, Any]
) -> None:
    queue = mail(client, *(f"letter {n}".encode() for n in range(20)))
    Worker(queue, handler, burst=True, **options).run()
    assert numbered(queue.results("r1", 1, 20)) == [
        (n + 1, f"LETTER {n}".encode()) for n in range(20)
    ]
    assert is_done(queue)
    assert queue.invariants() == []


def test_a_burst_of_results_is_told_in_few_round_trips(client: Client, url: str) -> None:
    queue = mail(client, *(b"%d" % n for n in range(2000)), limit=1000)
    with counted(url) as (near, proxy):
        worker = Worker(mail(near), lambda work: work.number, burst=True, concurrency=4, batch=100)
        worker.run()
        assert proxy.seen[b"EVALSHA"] < 100
    assert [value for _, value in numbered(queue.results("r1", 1, 2000))] == [
        b"%d" % n for n in range(1, 2001)
    ]


def test_never_more_at_a_time_than_concurrency(client: Client) -> None:
    now = most = 0
    lock = threading.Lock()

    def handle(_: Work) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.002)
        with lock:
            now -= 1

    queue = mail(client, *[b""] * 60)
    Worker(queue, handle, burst=True, concurrency=3, batch=5).run()
    assert is_done(queue)
    assert most == 3


def most_held(queue: RequestQueue[Client], handle: Callable[[Work], None], batch: int) -> int:
    """How many entries were held at the most while a handler ran."""
    most = 0

    def look(work: Work) -> None:
        nonlocal most
        handle(work)
        most = max(most, queue.counts().pending)

    Worker(queue, look, burst=True, batch=batch).run()
    found = queue.counts()
    assert (found.waiting, found.pending) == (0, 0) and queue.invariants() == []
    return most


def test_a_batch_is_fetched_ahead_of_quick_handlers_only(client: Client) -> None:
    quick = most_held(mail(client, *[b""] * 40), lambda _: None, batch=4)
    assert 4 < quick <= 12  # one in work, one ahead, one being settled
    slow = most_held(mail(client, *[b""] * 12, id="r2"), lambda _: time.sleep(0.03), batch=2)
    assert slow <= 4  # one in work, one being settled
    assert most_held(mail(client, *[b""] * 12, id="r3"), lambda _: None, batch=1) == 1


def test_one_batch_is_fetched_ahead_and_no_more(client: Client, url: str) -> None:
    queue = mail(client, *[b""] * 20)
    held = 0

    def handle(work: Work) -> None:
        nonlocal held
        if work.number == 9:  # its batch, and the one that is on its way
            proxy.answering.clear()
            time.sleep(0.05)
            held = queue.counts().pending
            proxy.answering.set()

    with counted(url) as (near, proxy):
        Worker(mail(near), handle, burst=True, batch=2).run()
    assert is_done(queue)
    assert held <= 4


def test_queues_are_served_in_turn(client: Client) -> None:
    queues = [RequestQueue(client, name) for name in ("one", "two")]
    for queue in queues:
        queue.submit([b""] * 10, id="r1", limit=10)
    served: list[str] = []
    Worker(queues, lambda delivery: served.append(delivery.queue), burst=True).run()
    assert Counter(served) == {"one": 10, "two": 10}
    assert all(served[n] != served[n + 1] for n in range(19))


@pytest.mark.parametrize(
    ("queues", "limit", "concurrency", "batch", "handler"),
    [
        (1, 4, 4, 10, upper),
        (2, 4, 8, 20, upper),
        (5, 4, 8, 20, upper_later),
        (2, 4, 8, 20, upper_later),
        (2, 100, 8, 20, upper),
        (3, 1, 8, 1, upper),
    ],
)
def test_a_burst_leaves_nothing_that_it_could_take(
    client: Client, queues: int, limit: int, concurrency: int, batch: int, handler: Any
) -> None:
    several = [RequestQueue(client, f"q{n}") for n in range(queues)]
    for queue in several:
        queue.submit([b""] * 400, id="r1", limit=limit)
    Worker(several, handler, burst=True, concurrency=concurrency, batch=batch).run()
    assert [queue.counts().waiting for queue in several] == [0] * queues
    assert all(is_done(queue) for queue in several)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_burst_takes_what_its_handlers_submit(client: Client, batch: int) -> None:
    first, second = mail(client, *[b""] * 5), RequestQueue(client, "second")
    second.submit([], id="none")  # which is there, and found empty before

    def handle(work: Work) -> None:
        if work.queue == "mail":
            second.submit([b""], id=f"s{work.number}")

    Worker([second, first], handle, burst=True, batch=batch).run()
    assert all(is_done(second, f"s{n}") for n in range(1, 6))


@pytest.mark.parametrize("batch", [1, 2])
def test_a_burst_waits_for_its_turn_where_others_are_at_the_limit(
    client: Client, url: str, batch: int
) -> None:
    queue = mail(client, *[b""] * 3, limit=1)
    held = queue.take(1, consumer="other").deliveries
    with counted(url) as (near, proxy):
        worker = Worker(mail(near), upper, burst=True, batch=batch)
        thread = threading.Thread(target=worker.run)
        thread.start()
        until_idle(client, 1)
        before = proxy.seen[b"EVALSHA"]
        for _ in range(200):  # round trips of somebody else, and none of the worker's
            client.ping()
        assert proxy.seen[b"EVALSHA"] == before
        queue.settle([Settlement(held[0], "ack")])
        thread.join()
    assert is_done(queue)


def test_a_burst_waits_for_nobodys_leases_back_offs_and_pauses(client: Client, url: str) -> None:
    def handle(work: Work) -> None:
        if work.number == 1:
            raise ValueError

    queue, paused = mail(client, b"", b""), RequestQueue(client, "paused")
    queue.submit([b""], id="held", priority=0)
    queue.take(1, consumer="other")
    queue.submit([b""], id="not-now")
    queue.control("op", 1, "pause", "not-now")
    paused.submit([b""], id="r1")
    paused.configure("op", 1, {"paused": "smtp"})
    with counted(url) as (near, proxy):
        queues = [RequestQueue(near, name) for name in ("mail", "paused")]
        Worker(queues, handle, burst=True).run()
        assert proxy.seen[b"EVALSHA"] <= 12  # two of them are upkeep
    counts = queue.counts()
    assert (counts.waiting, counts.pending, counts.delayed) == (1, 1, 1)
    assert paused.counts().waiting == 1


@pytest.mark.parametrize("batch", [1, 20])
def test_a_worker_says_once_that_a_limit_keeps_slots_idle(
    client: Client, caplog: pytest.LogCaptureFixture, batch: int
) -> None:
    queue = mail(client, *[b""] * 20, id="newsletter-7", limit=4)
    handle = lambda _: time.sleep(0.01)  # noqa: E731
    Worker(queue, handle, burst=True, concurrency=8, batch=batch).run()
    assert lines(caplog, "queue mail") == [
        "queue mail: request newsletter-7 is at its limit of 4: 4 of 8 slots idle; "
        "raise it with: redisq request limit mail/newsletter-7 8"
    ]


def test_a_worker_says_that_a_cap_keeps_slots_idle(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    queue = FairQueue(client, "jobs")
    queue.submit("acme", [(f"e{n}", b"") for n in range(6)])
    queue.limit("acme", 2)
    Worker(queue, lambda _: time.sleep(0.01), burst=True, concurrency=3).run()
    assert lines(caplog, "queue jobs") == [
        "queue jobs: client acme is at its cap of 2: 1 of 3 slots idle; "
        "raise it with: redisq client cap jobs acme 3"
    ]


def test_a_worker_whose_slots_are_busy_says_nothing_of_limits(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    Worker(mail(client, *[b""] * 20, limit=4), upper, burst=True, concurrency=4).run()
    few = mail(client, b"", b"", id="few", limit=2)
    Worker(few, lambda _: time.sleep(0.01), burst=True, concurrency=4).run()
    assert lines(caplog, "queue mail") == []


@pytest.fixture
def no_other_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle worker doesn't look every few seconds: it has to know when."""
    monkeypatch.setattr(wake_up, "IDLE_BLOCK_MS", 3_600_000)


@pytest.mark.usefixtures("no_other_look")
def test_a_delay_set_is_worked_off_at_its_times(client: Client) -> None:
    queue = DelaySet(client, "later")
    queue.schedule([("b", b"2")], after=0.15)
    queue.schedule([("a", b"1")], after=0.05)
    served: list[bytes] = []
    with working(queue, lambda delivery: served.append(delivery.payload)):
        until(lambda: len(served) == 2)
    assert served == [b"1", b"2"]


@pytest.mark.usefixtures("no_other_look")
def test_a_clock_that_was_set_back_is_asked_again_and_no_queue_besieged(
    client: Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead_ms = [3_600_000]  # as it was at the first time

    async def told() -> int:
        return await server_ms() + (ahead_ms.pop() if ahead_ms else 0)

    monkeypatch.setattr(loop, "server_ms", told)
    DelaySet(client, "later").schedule([("a", b"")], after=0.5)
    served: list[str] = []
    with counted(url) as (near, proxy):
        with working(DelaySet(near, "later"), lambda work: served.append(work.id)):
            until(lambda: served)
        assert proxy.seen[b"EVALSHA"] < 20


# --- failing --------------------------------------------------------------------------------------


def test_a_failure_waits_out_its_back_off_and_is_kept(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(delivery: Work) -> None:
        raise ValueError(f"bad: {delivery.payload!r}")

    queue = mail(client, b"secret")
    with caplog.at_level(logging.INFO, "redisq_ops.worker"):
        Worker(queue, handle, burst=True).run()
    failed = entry(queue)
    assert failed.since_ms is not None
    assert failed.state == "delayed" and failed.at_ms is not None
    assert 900 <= failed.at_ms - failed.since_ms <= 1100
    assert failed.error is not None
    assert (failed.error.type, failed.error.message) == ("ValueError", "bad: b'secret'")
    assert lines(caplog, "retry") == ["retry: mail/r1/1 in 1.0 s: ValueError: bad: b'secret'"]
    assert lines(caplog, "traceback") == []


def test_the_log_shows_a_failure_in_one_short_line(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(_: Work) -> None:
        raise ValueError("no \x1b[31msuch\ncustomer " + "x" * 1000 + " in line 7")

    with caplog.at_level(logging.DEBUG, "redisq_ops.worker"):
        Worker(mail(client, b""), handle, burst=True).run()
    (line,) = lines(caplog, "retry")
    assert line.startswith(r"retry: mail/r1/1 in 1.0 s: ValueError: no \x1b[31msuch\ncustomer xxx")
    assert line.endswith("xxx in line 7") and len(line) < 260
    (trace,) = [record.exc_text for record in caplog.records if record.exc_text]
    assert trace.startswith("Traceback (most recent call last):\n")
    assert ", in handle\n" in trace and "\x1b" not in trace


def test_the_log_shows_of_a_failure_what_may_be_shown(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(delivery: Work) -> None:
        raise Reject(f"no customer {delivery.payload.decode()}")

    def redacted(failure: Failure) -> Failure:
        return replace(failure, message=failure.message.replace("ann@example.org", "***"))

    with caplog.at_level(logging.DEBUG, "redisq_ops.worker"):
        Worker(mail(client, b"ann@example.org"), handle, burst=True, redacted=redacted).run()
    assert lines(caplog, "dead letter") == [
        "dead letter: mail/r1/1 after attempt 1: Reject: no customer ***"
    ]
    assert "ann@example.org" not in caplog.text
    assert [r.exc_info for r in caplog.records if r.levelname == "ERROR"] == [None]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_worker_logs_what_is_in_force_each_failure_and_what_it_did(
    client: Client, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    def handle(work: Work) -> bytes | None:
        logging.getLogger("shop").info("of the handler")
        if work.payload == b"secret retry":
            raise ValueError("try later")
        if work.payload == b"secret dead":
            raise Reject("never")
        return b"ok"

    async def handle_later(work: Work) -> bytes | None:
        return handle(work)

    queue = mail(client, b"ok", b"secret retry", b"secret dead", b"secret retry")
    queue.configure("op", 1, {"max_failures": "7"})
    handler = handle_later if is_async else handle
    naming: Any = name_entry
    with (
        caplog.filtering(naming),
        caplog.at_level(logging.INFO),
        caplog.at_level(logging.INFO, "redisq_ops"),
    ):
        tally = Worker(queue, handler, consumer="me", lease=20, burst=True).run()
    assert tally == Tally("no entry is left to take", done=1, retried=2, dead=1)
    told = [r for r in caplog.records if r.name == "redisq_ops.worker"]
    kind = "tasks" if is_async else "threads"
    assert [(r.levelname, r.getMessage()) for r in told] == [
        (
            "INFO",
            f"started as me: concurrency 1 ({kind}), batch 1, lease 20 s, grace 25 s, no time-out",
        ),
        ("INFO", "queue mail: an entry is dead after 7 failures, or after 3 lost leases"),
        ("WARNING", "retry: mail/r1/2 in 1.0 s: ValueError: try later"),
        ("ERROR", "dead letter: mail/r1/3 after attempt 1: Reject: never"),
        ("WARNING", "retry: mail/r1/4 in 1.0 s: ValueError: try later"),
        ("INFO", "stopped, no entry is left to take: 1 done, 2 to be retried, 1 dead"),
    ]
    retry, dead = vars(told[2]), vars(told[3])
    assert 900 <= retry["wait_ms"] <= 1100
    assert (retry["error"], retry["exc_info"]) == ("ValueError", None)
    assert isinstance(dead["exc_info"][1], Reject) and ", in handle\n" in dead["exc_text"]
    for number, record in ((2, retry), (3, dead)):
        assert (record["queue"], record["entry"]) == ("mail", f"r1/{number}")
        assert (record["task"], record["attempt"]) == (None, 1)
        assert record["duration_ms"] >= 0
    own = [vars(r)["entry"] for r in caplog.records if r.name == "shop"]
    assert own == [f"r1/{n}" for n in range(1, 5)]
    assert "secret" not in caplog.text


@pytest.mark.usefixtures("no_other_look")
def test_a_retry_is_begun_when_its_time_comes(client: Client) -> None:
    attempts: list[int] = []

    def handle(delivery: Work) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt < 3:
            raise Retry(after=0.1)

    queue = mail(client, b"")
    with working(queue, handle):  # nobody rings for it: the worker itself keeps the time
        until(lambda: is_done(queue))
    assert attempts == [1, 2, 3]


def test_a_rejected_entry_is_dead_at_once(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    def handle(_: Work) -> None:
        raise Reject("no such account")

    queue = mail(client, b"secret")
    Worker(queue, handle, burst=True).run()
    dead = entry(queue)
    assert (dead.state, dead.reason, dead.attempts) == ("dead", "rejected", 1)
    assert dead.error is not None and dead.error.message == "no such account"
    assert lines(caplog, "dead letter") == [
        "dead letter: mail/r1/1 after attempt 1: Reject: no such account"
    ]
    assert "secret" not in caplog.text


def test_a_thread_that_takes_too_long_fails_its_entry_and_keeps_its_slot(client: Client) -> None:
    go = threading.Event()
    begun: list[str] = []

    def handle(delivery: Work) -> None:
        begun.append(delivery.id)
        if len(begun) == 1:
            go.wait()

    queue = mail(client, b"", b"")
    with working(queue, handle, timeout=0.1):
        until(lambda: entry(queue).state == "delayed")
        failed = entry(queue)
        assert failed.error is not None and failed.error.type == "Timeout"
        time.sleep(0.05)
        assert begun == ["r1/1"]
        assert entry(queue, "r1/2").state == "waiting"  # left to others
        go.set()
        until(lambda: entry(queue, "r1/2").state == "done")
    assert entry(queue).state == "delayed"  # what it returned in the end changed nothing


def test_a_handler_that_hangs_behind_quick_ones_is_noticed(client: Client) -> None:
    released = threading.Event()
    queue = mail(client, *[b""] * 5)

    def handle(work: Work) -> None:
        if work.number == 5:
            released.wait()

    with working(queue, handle, timeout=0.2):
        until(lambda: entry(queue, "r1/5").state == "delayed")
        released.set()
    error = entry(queue, "r1/5").error
    assert error is not None and error.type == "Timeout"
    assert queue.counts().done == 4


@dataclass
class Rules:
    timeout_s: float | None
    retry: RetryPolicy | None = None


def test_a_time_out_counts_behind_a_handler_that_has_none_and_exits(client: Client) -> None:
    released = threading.Event()
    queue = mail(client, b"")
    queue.submit([b""], id="quick~r2")

    def handle(work: Work) -> None:
        if work.task == "quick":
            released.wait(90)
        time.sleep(0.05)  # the loop rests by now, and the slot takes the next entry itself
        sys.exit(3)

    with working(queue, Handler(handle, tasks={"quick": Rules(0.1)})):
        until(lambda: entry(queue, "quick~r2/1").state == "delayed")
        released.set()
    errors = [entry(queue, id).error for id in ("r1/1", "quick~r2/1")]
    assert [error and error.line for error in errors] == [
        "SystemExit: 3",
        "Timeout: not done after 0.1 s",
    ]


def test_a_task_of_a_handler_that_exits_leaves_all_slots_working(client: Client) -> None:
    async def leave() -> None:
        sys.exit(3)

    async def handle(work: Work) -> None:
        if work.request == "r1":
            await asyncio.gather(leave())

    queue = mail(client, b"")
    with working(queue, handle, concurrency=2):
        until(lambda: entry(queue).state == "delayed")
        queue.submit([b""] * 4, id="r2")
        until(lambda: queue.counts().done == 4)
    failed = entry(queue)
    assert failed.error is not None and failed.error.line == "SystemExit: 3"


def test_a_task_that_takes_too_long_is_cancelled(client: Client) -> None:
    cancelled: list[str] = []

    async def handle(delivery: Work) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(delivery.id)
            raise

    queue = mail(client, b"")
    Worker(queue, handle, timeout=0.05, burst=True).run()
    failed = entry(queue)
    assert failed.error is not None and failed.error.type == "Timeout"
    assert cancelled == ["r1/1"]


def test_a_time_out_of_the_handlers_own_is_a_failure_like_any_other(client: Client) -> None:
    async def handle(_: Work) -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    queue = mail(client, b"")
    Worker(queue, handle, timeout=60, burst=True).run()
    failed = entry(queue)
    assert failed.error is not None and failed.error.type == "TimeoutError"


def test_a_program_that_takes_too_long_is_killed(client: Client) -> None:
    queue = mail(client, b"")
    worker = Worker(queue, exec_handler(["sleep", "60"]), timeout=0.1, burst=True)
    worker.run()
    failed = entry(queue)
    assert failed.error is not None and failed.error.type == "Timeout"


# --- leases ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_handler_may_take_longer_than_its_lease(client: Client) -> None:
    runs: list[int] = []

    def handle(delivery: Work) -> None:
        runs.append(delivery.attempt)
        time.sleep(0.9)

    queue = mail(client, b"")
    # The other one looks for lost leases all the time.
    with working(queue, handle, lease=0.3), working(queue, handle, lease=0.3):
        until(lambda: is_done(queue))
    assert runs == [1]


def test_a_handler_learns_that_its_lease_is_lost(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    began, go = threading.Event(), threading.Event()
    told: list[bool] = []

    def handle(delivery: Work) -> bytes:
        told.append(delivery.extend())
        began.set()
        go.wait()
        told.extend([delivery.lost, delivery.extend()])
        return b"late"

    queue = mail(client, b"")
    with working(queue, handle, lease=0.3) as worker:
        began.wait()
        client.hset("redisq:{mail}:cfg", "paused", "so that it stays where it is put")
        (word,) = queue.move(
            "op", 1, ["r1/1"], source="pending", target="waiting", high_water_ms=2**52
        )
        assert word == "moved"
        until(lambda: lines(caplog, "lost lease"))  # the heartbeat finds out
        go.set()
        until(lambda: len(told) == 3)
        worker.stop()
    assert told == [True, True, False]
    assert lines(caplog, "lost lease") == ["lost lease: mail/r1/1, its result is dropped"]
    assert entry(queue).state == "waiting"
    assert numbered(queue.results("r1", 1, 1)) == [(1, None)]


def test_a_result_that_comes_too_late_is_dropped(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(_: Work) -> bytes:
        client.hset("redisq:{mail}:cfg", "paused", "so that it stays where it is put")
        queue.move("op", 1, ["r1/1"], source="pending", target="waiting", high_water_ms=2**52)
        return b"late"

    queue = mail(client, b"")
    Worker(queue, handle, burst=True).run()
    assert entry(queue).state == "waiting"
    assert lines(caplog, "lost lease") == ["lost lease: mail/r1/1, its result is dropped"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["threads", "loop"])
def test_the_work_of_a_killed_process_is_done_by_another(
    client: Client, url: str, tmp_path: Path, how: str
) -> None:
    queue = mail(client, b"")
    with process(url, tmp_path, lease=0.3, how=how) as running:
        until((tmp_path / "began").exists)
        running.send_signal(signal.SIGKILL)
    attempts: list[int] = []
    with working(queue, lambda delivery: attempts.append(delivery.attempt)):
        until(lambda: is_done(queue))
    assert attempts == [2]


@pytest.mark.slow
def test_a_process_that_slept_through_its_lease_is_told_and_changes_nothing(
    client: Client, url: str, tmp_path: Path
) -> None:
    queue = mail(client, b"")
    with process(url, tmp_path, lease=0.3) as running:
        until((tmp_path / "began").exists)
        running.send_signal(signal.SIGSTOP)
        with working(queue, lambda _: b"of the other"):
            until(lambda: is_done(queue))
        (tmp_path / "go").touch()
        running.send_signal(signal.SIGCONT)
        until(lambda: running.stderr.readline() == "lost lease: mail/r1/1, its result is dropped\n")
        running.send_signal(signal.SIGTERM)
        rest = running.stderr.read()
        assert running.wait() == 0
    assert rest == "stopped, SIGTERM: 1 lost leases\n"
    assert numbered(queue.results("r1", 1, 1)) == [(1, b"of the other")]


# --- stopping -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_stopping_finishes_what_is_begun_and_gives_back_the_rest(
    client: Client, is_async: bool
) -> None:
    began, go = threading.Event(), threading.Event()

    def handle(_: Work) -> bytes:
        began.set()
        go.wait()
        return b"done"

    async def handle_later(delivery: Work) -> bytes:
        return await asyncio.to_thread(handle, delivery)

    queue = mail(client, *[b""] * 5)
    with working(queue, handle_later if is_async else handle, batch=5) as worker:
        began.wait()
        assert queue.counts().pending == 5
        worker.stop()
        until(lambda: queue.counts().waiting == 4)  # at once: others can go on with these
        go.set()
        until(lambda: entry(queue).state == "done")
    rest = [entry(queue, f"r1/{n}") for n in range(2, 6)]
    assert [(e.state, e.attempts) for e in rest] == [("waiting", 0)] * 4
    assert queue.invariants() == []


@pytest.mark.parametrize("stops", [1, 2])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_does_not_end_in_time_is_given_back_without_counting(
    client: Client, stops: int, is_async: bool
) -> None:
    began, go = threading.Event(), threading.Event()

    def handle(_: Work) -> None:
        began.set()
        go.wait()

    async def handle_later(_: Work) -> None:
        began.set()
        await asyncio.sleep(3600)

    queue = mail(client, b"")
    worker = Worker(queue, handle_later if is_async else handle, grace=0.1 if stops == 1 else 3600)
    thread = threading.Thread(target=worker.run)
    thread.start()
    began.wait()
    for _ in range(stops):
        worker.stop()
    thread.join()
    go.set()
    given_back = entry(queue)
    assert (given_back.state, given_back.failures, given_back.lost) == ("waiting", 0, 0)


def test_leaving_kills_a_program_before_its_entry_is_given_back(
    client: Client, tmp_path: Path
) -> None:
    script = f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 60"
    queue = mail(client, b"")
    with working(queue, exec_handler(["/bin/sh", "-c", script])):
        until((tmp_path / "pid").exists)
    until(lambda: ended(int((tmp_path / "pid").read_text())))
    assert (entry(queue).state, entry(queue).attempts) == ("waiting", 0)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["threads", "loop"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_process_finish(
    client: Client, url: str, tmp_path: Path, number: int, how: str
) -> None:
    queue = mail(client, b"")
    with process(url, tmp_path, how=how) as running:
        until((tmp_path / "began").exists)
        running.send_signal(number)
        mail(client, b"", id="r2")
        (tmp_path / "go").touch()
        assert running.wait() == 0
    assert numbered(queue.results("r1", 1, 1)) == [(1, b"of the process")]
    assert entry(queue, "r2/1").attempts == 0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["threads", "loop"])
def test_the_second_signal_does_not_wait(
    client: Client, url: str, tmp_path: Path, how: str
) -> None:
    queue = mail(client, b"", b"")
    with process(url, tmp_path, grace=3600, batch=2, how=how) as running:
        until((tmp_path / "began").exists)
        running.send_signal(signal.SIGTERM)
        # Two signals that are pending together arrive as one, so the first one is seen to do its
        # part, which is to give back what wasn't begun.
        until(lambda: entry(queue, "r1/2").state == "waiting")
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 0
    assert (entry(queue).state, entry(queue).attempts) == ("waiting", 0)


# --- in an event loop -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_cancelled_at_any_time_it_ends_what_is_begun_and_gives_back_the_rest(
    client: Client, is_async: bool
) -> None:
    queue, chance, ran = mail(client, *[b""] * 150), Random(7), Counter[str]()
    running, loops = set[str](), set[int]()

    async def handle_later(work: Work) -> None:
        running.add(work.id)
        await asyncio.sleep(chance.random() * 0.01)
        running.discard(work.id)
        ran[work.id] += 1
        loops.add(id(asyncio.get_running_loop()))

    def handle(work: Work) -> None:
        running.add(work.id)
        time.sleep(chance.random() * 0.01)
        running.discard(work.id)
        ran[work.id] += 1

    async def main() -> int:
        rounds = 0
        while not await asyncio.to_thread(is_done, queue):
            worker = Worker(queue, handle_later if is_async else handle, concurrency=5, batch=3)
            task = asyncio.create_task(worker.run_async())
            await asyncio.sleep(chance.random() * 0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not running
            assert (await asyncio.to_thread(queue.counts)).pending == 0
            rounds += 1
        assert loops <= {id(asyncio.get_running_loop())}
        return rounds

    assert asyncio.run(main()) > 2
    assert len(ran) == 150 and set(ran.values()) == {1}
    assert {entry(queue, f"r1/{n}").attempts for n in range(1, 151)} == {0}  # none failed
    assert queue.invariants() == []


@pytest.mark.parametrize("how", ["the loop ends", "cancelled twice"])
def test_a_handler_that_is_cut_off_in_its_loop_has_its_entry_given_back(
    client: Client, how: str
) -> None:
    queue = mail(client, b"", b"")

    async def main() -> None:
        began = asyncio.Event()

        async def handle(_: Work) -> None:
            began.set()
            await asyncio.sleep(3600)

        worker = Worker(queue, handle, batch=2, grace=3600)
        task = asyncio.create_task(worker.run_async())
        await began.wait()
        if how == "cancelled twice":
            for _ in range(2):
                task.cancel()
                await asyncio.wait([task], timeout=0.1)
            assert task.cancelled()

    asyncio.run(main())
    for number in (1, 2):
        given_back = entry(queue, f"r1/{number}")
        assert (given_back.state, given_back.attempts) == ("waiting", 0)


def test_in_a_loop_what_can_not_work_raises_as_elsewhere() -> None:
    with connect("redis://127.0.0.1:1") as nowhere, pytest.raises(Unreachable):
        asyncio.run(Worker(RequestQueue(nowhere, "mail"), upper).run_async())


# --- idling ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("queues", [1, 3])
def test_an_idle_worker_costs_a_command_every_two_seconds_at_most(
    valkey_url: str, queues: int
) -> None:
    with connect(valkey_url) as client, counted(valkey_url) as (near, proxy):
        several = [RequestQueue(near, f"idle{n}") for n in range(queues)]
        for queue in several:
            queue.submit([], id="none")  # the queue is there, with nothing in it
        with working(several, upper, random=lambda: 0.9):
            until_idle(client, 1)
            time.sleep(0.1)
            before = proxy.seen.copy()
            time.sleep(6)
            spent = proxy.seen - before
    assert spent == {b"EVALSHA": 1, b"BLPOP": 1}


class Leaps:
    """An idle worker's inbox and its clock: whenever the worker waits, the time is over at once."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self.worker: Worker | None = None

    def __call__(self) -> float:
        return self.now

    def get(self, timeout: float) -> Any:
        self.waits.append(round(timeout, 3))
        self.now += timeout
        if len(self.waits) == 5 and self.worker:
            self.worker.stop()
        raise Empty

    def get_nowait(self) -> Any:
        raise Empty

    def put(self, _: Any) -> None:
        """Nothing that is posted matters here."""


def test_where_much_is_past_its_time_a_worker_comes_again_soon(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaps, clock = Leaps(), FakeClock()
    for module in (loop, queue_source, upkeep):
        monkeypatch.setattr(module, "monotonic", leaps)
    queue = RequestQueue(client, "mail", clock=clock)
    for n in range(120):
        queue.submit([], id=f"r{n}")
    clock.now_ms += 24 * 3_600_000
    leaps.worker = worker = Worker(queue, upper, random=lambda: 0.5)
    monkeypatch.setattr(worker, "_inbox", leaps)
    worker.run()
    # Half a turn until the first time; 50 went, 50 more; after the last 20 the usual turn again.
    assert leaps.waits == [15.0, 1.0, 1.0, 30.0, 30.0]
    assert queue.requests_total(settled=True) == 0


@pytest.mark.slow
def test_one_entry_wakes_one_of_many_idle_workers(client: Client, url: str) -> None:
    served: list[str] = []
    mail(client).submit([], id="none")  # the queue is there, with nothing in it
    with counted(url) as (near, proxy), ExitStack() as stack:
        for n in range(8):
            worker = working(mail(near), lambda work: served.append(work.id), consumer=f"w{n}")
            stack.enter_context(worker)
        until_idle(client, 8)
        before = proxy.seen.copy()
        queue = mail(client, b"")
        until(lambda: is_done(queue))
        until_idle(client, 8)
        spent = proxy.seen - before
    assert served == ["r1/1"]
    spent.pop(b"EVAL", None)  # a script this server had never seen
    # It takes; it settles and looks for more, in one call; it listens again.
    assert spent == {b"EVALSHA": 2, b"BLPOP": 1}


def test_a_hint_that_comes_too_late_is_handed_on(client: Client) -> None:
    said: SimpleQueue[WakeUp] = SimpleQueue()
    bell = WakeUpListener(client, said.put, wanted=lambda: False)
    bell.listen(["wake"])
    until_idle(client, 1)
    client.lpush("wake", "1")
    assert said.get() == WakeUp("wake")
    assert client.lrange("wake", 0, -1) == [b"1"]
    bell.close()


@pytest.mark.usefixtures("no_other_look")
def test_a_hint_during_a_look_is_not_forgotten(client: Client, url: str) -> None:
    served: SimpleQueue[Work] = SimpleQueue()
    # Having been quick with a whole batch it has room beside what it asks for.
    queue = mail(client, b"", b"")
    with counted(url) as (near, proxy), working(mail(near), served.put, batch=2) as worker:
        until(lambda: is_done(queue))
        until_idle(client, 1)
        late_look(worker, proxy)
        mail(client, b"", id="r2")
        until(lambda: client.info("clients")["blocked_clients"] == 0)  # it has the hint
        time.sleep(0.05)
        proxy.answering.set()
        assert [served.get(timeout=10).id for _ in range(3)][-1] == "r2/1"


def late_look(worker: Worker, proxy: FlakyProxy) -> None:
    """The worker looks for work; what it finds it learns when the proxy answers again."""
    proxy.holding.clear()
    proxy.answering.clear()
    worker._inbox.put(WakeUp(None))
    until(proxy.holding.is_set)


def test_what_arrives_while_it_stops_is_given_back(client: Client, url: str) -> None:
    queue = mail(client, b"", id="r0")
    served: list[str] = []
    with counted(url) as (near, proxy):
        worker = Worker(mail(near), lambda work: served.append(work.id), batch=2)
        thread = threading.Thread(target=worker.run)
        thread.start()
        until(lambda: is_done(queue, "r0"))
        until_idle(client, 1)
        proxy.answering.clear()
        queue.submit([b"one", b"two"], id="r1", limit=2)
        until(lambda: queue.counts().pending == 2)
        worker.stop()
        proxy.answering.set()
        thread.join()
    found = queue.counts()
    assert (found.waiting, found.pending, served) == (2, 0, ["r0/1"])
    assert [entry(queue, id).attempts for id in ("r1/1", "r1/2")] == [0, 0]


def test_a_stopped_worker_leaves_nothing_behind(client: Client) -> None:
    before = set(threading.enumerate())
    with working(mail(client, b""), upper):
        until_idle(client, 1)
    until_idle(client, 0)
    assert set(threading.enumerate()) == before


# --- the server -----------------------------------------------------------------------------------


def test_no_server_to_begin_with_is_an_error() -> None:
    with pytest.raises(Unreachable):
        Worker(RequestQueue(connect("redis://127.0.0.1:1"), "mail"), upper).run()


def test_a_queue_of_another_kind_is_an_error(client: Client) -> None:
    mail(client, b"")
    with pytest.raises(WrongKind):
        Worker(DelaySet(client, "mail"), upper).run()


@pytest.mark.parametrize("batch", [1, 2])
def test_a_result_outlives_its_server(caplog: pytest.LogCaptureFixture, batch: int) -> None:
    began, go = threading.Event(), threading.Event()

    def handle(_: Work) -> bytes:
        began.set()
        go.wait()
        return b"kept"

    with EmbeddedServer(appendonly=True) as server, connect(server.url) as client:
        queue = mail(client, b"one", b"two", limit=1)
        with working(queue, handle, batch=batch):
            began.wait()
            server.kill()
            go.set()
            until(lambda: lines(caplog, "can't reach the server"))
            server.restart()
            until(lambda: is_done(queue))
        assert numbered(queue.results("r1", 1, 2)) == [(1, b"kept"), (2, b"kept")]
        assert queue.counts().dead == 0
    assert len(lines(caplog, "can't reach the server")) == 1
    assert len(lines(caplog, "it works again")) == 1


def test_lost_replies_lose_no_delivery(running: Callable[[str], EmbeddedServer], url: str) -> None:
    attempts: Counter[str] = Counter()

    def handle(delivery: Work) -> None:
        attempts[delivery.id] += 1
        if delivery.number == 5:
            proxy.drop_replies(8)  # more than the client tries by itself

    port = int(url.rpartition(":")[2])
    with FlakyProxy(port) as proxy, connect(proxy.url) as client, redis.Redis.from_url(url) as near:
        queue = mail(near, *[b""] * 20)
        Worker(RequestQueue(client, "mail"), handle, burst=True, batch=4).run()
        assert is_done(queue)
        assert queue.invariants() == []
    assert attempts == {f"r1/{n}": 1 for n in range(1, 21)}


def test_a_full_server_is_worked_off(client: Client) -> None:
    queue = mail(client, b"one", b"two", limit=1)
    client.config_set("maxmemory", 1)
    try:
        Worker(queue, upper, burst=True).run()
        assert is_done(queue)
    finally:
        client.config_set("maxmemory", 0)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_result_is_kept_while_the_server_takes_no_writes(
    client: Client, caplog: pytest.LogCaptureFixture, batch: int
) -> None:
    def handle(_: Work) -> bytes:
        client.replicaof("127.0.0.1", "1")
        return b"kept"

    queue = mail(client, b"")
    try:
        with working(queue, handle, batch=batch):
            until(lambda: lines(caplog, "this server is a read-only replica"))
            client.replicaof("NO", "ONE")
            until(lambda: is_done(queue))
    finally:
        client.replicaof("NO", "ONE")
    assert numbered(queue.results("r1", 1, 1)) == [(1, b"kept")]
    assert len(lines(caplog, "this server is a read-only replica")) == 1


# --- the rest -------------------------------------------------------------------------------------


def test_what_cannot_work_is_refused(client: Client) -> None:
    queue = mail(client)
    with pytest.raises(BadInput, match="a queue"):
        Worker([], upper)
    with pytest.raises(BadInput, match="once"):
        Worker([queue, queue], upper)
    with pytest.raises(BadInput, match="one client"), connect("redis://127.0.0.1:1") as other:
        Worker([queue, RequestQueue(other, "other")], upper)
    with pytest.raises(BadInput, match="made by connect"):
        Worker(RequestQueue(aconnect("redis://127.0.0.1:1"), "q"), upper)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="batch"):
        Worker(queue, upper, batch=501)
    with pytest.raises(BadInput, match="consumer name"):
        Worker(queue, upper, consumer="~waiting")
    with pytest.raises(BadInput, match="callable"):
        Worker(queue, "not a function")  # type: ignore[arg-type]


def test_on_fakeredis_a_worker_is_refused_in_one_sentence() -> None:
    with fakeredis.FakeRedis() as fake:
        queues = [kind(fake, kind.__name__) for kind in (RequestQueue, DelaySet, FairQueue)]
        calls: list[Callable[[], object]] = [lambda: mail(fake, b"one")]
        for queue in queues:
            calls += [
                Worker(queue, print, burst=True).run,
                partial(asyncio.run, Worker(queue, print, burst=True).run_async()),
            ]
        for call in calls:
            with pytest.raises(BadInput, match=r"^that server can't run our scripts .* fakeredis"):
                call()
        for queue in queues:  # nothing is there, and nothing can be
            assert queue.take(1, consumer="me").deliveries == ()
            assert LeaseReclaimer(queue).look() == {}
        assert fake.keys() == []


SUPERVISOR = """
import os, sys, time
from pathlib import Path
from redisq_ops import RequestQueue, Worker, connect, run_processes
url, where = sys.argv[1], Path(sys.argv[2])
def handle(delivery):
    if delivery.payload == b"die" and delivery.attempt == 1:
        os._exit(9)
    if delivery.payload == b"wait":
        (where / "began").touch()
        while not (where / "go").exists():
            time.sleep(0.01)
    return str(os.getpid())
def work(index):
    Worker(RequestQueue(connect(url), "mail"), handle, lease=0.3).run()
if __name__ == "__main__":
    sys.exit(run_processes(2, work))
"""


@contextmanager
def supervisor(url: str, where: Path) -> Iterator[Any]:
    """Two worker processes and who looks after them, a process group of their own."""
    program = where / "supervisor.py"
    program.write_text(SUPERVISOR)
    command = [sys.executable, str(program), url, str(where)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.slow
def test_a_supervisor_restarts_the_dead_and_passes_signals_on(
    client: Client, url: str, tmp_path: Path
) -> None:
    queue = mail(client, b"die", *[b"live"] * 5)
    with supervisor(url, tmp_path) as running:
        until(lambda: is_done(queue))
        until_idle(client, 2)  # both are there again
        mail(client, b"wait", id="r2")
        until((tmp_path / "began").exists)
        os.killpg(running.pid, signal.SIGINT)  # as Ctrl+C does
        time.sleep(0.1)
        (tmp_path / "go").touch()
        assert running.wait() == 0
        assert running.stderr.read().count("ended (exit 9); starting another") == 1
    results = numbered(queue.results("r1", 1, 6)) + numbered(queue.results("r2", 1, 1))
    for pid in {int(value or b"0") for _, value in results}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_workers_end_with_their_supervisor(client: Client, url: str, tmp_path: Path) -> None:
    with supervisor(url, tmp_path) as running:
        until_idle(client, 2)
        running.kill()
    until_idle(client, 0)


def test_importing_the_package_loads_no_client_library() -> None:
    code = (
        "import sys, redisq_ops\n"
        "assert not {'redis', 'asyncio', 'redisq_ops.core'} & set(sys.modules), sys.modules\n"
        "assert redisq_ops.errors.RedisqError and redisq_ops.__version__\n"
        "from redisq_ops.errors import Unreachable\n"
        "for name in redisq_ops.__all__: getattr(redisq_ops, name)\n"
        "assert set(redisq_ops.__all__) <= set(dir(redisq_ops))\n"
        "try: redisq_ops.nothing\n"
        "except AttributeError: pass\n"
        "else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_burst_runs_periodic_entries_that_were_missed(url: str, client: redis.Redis) -> None:
    with connect(url) as near:
        later = DelaySet(near, "later")
        later.set_periodic(Periodic("nightly", "0 3 * * *", b"rotate"))
        client.zadd(later.keys["periodic_at"], {"nightly": 1_700_000_000_000})
        ran: list[bytes] = []
        Worker(later, lambda work: ran.append(work.payload), burst=True).run()
    assert ran == [b"rotate"]


def kept(queue: Any, ids: list[str]) -> list[bytes | None]:
    """The results that a queue keeps of entries."""
    return [each.result for each in queue.outcomes(ids)]


def specimen_of(client: Client, kind: str) -> tuple[Queue[Client], list[str]]:
    """A queue of a kind, and the ids that wait there."""
    if kind == "sidekiq":
        queue = SidekiqQueue(client, "sidekiq:q")
        queue.push([Job("E", [n], f"e{n}") for n in range(3)])
        return queue, ["e0", "e1", "e2"]
    waiting = OWN[kind].fill(client)["waiting"]
    return run(client, Deployment(client).queue(OWN[kind].queue)), [*waiting]


@pytest.mark.parametrize("kind", [*OWN, "sidekiq"])
def test_a_result_is_kept_or_refused_at_the_start_or_its_loss_is_told(
    client: Client, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue, waiting = specimen_of(client, kind)

    def declared(work: Work) -> str:
        return work.id

    async def adeclared(work: Work) -> "str":
        return work.id

    def none(work: Work) -> None: ...

    Worker(queue, none)
    if kind in ("request", "delay", "fair"):
        Worker(queue, adeclared)
        assert Worker(queue, declared, burst=True).run().dropped == 0
        assert waiting and kept(queue, waiting) == [id.encode() for id in waiting]
        return
    for handler in (declared, adeclared):
        with pytest.raises(BadInput, match=f"queue {queue.name} keeps none: let it return None"):
            Worker([queue, RequestQueue(client, "other")], handler)
    with caplog.at_level(logging.INFO, "redisq_ops"):
        tally = Worker(queue, lambda work: work.id, burst=True).run()
    assert tally.dropped == tally.done == len(waiting)
    (told,) = lines(caplog, f"queue {queue.name} keeps no results: what the handler returned for ")
    assert told.endswith(
        " is dropped; let it return None, or use a request queue, a delay set or a fair queue"
    )
    assert lines(caplog, "stopped")[0].endswith(f", {tally.dropped} results dropped")


def test_in_order_the_first_queue_is_asked_first(client: Client) -> None:
    first, second = DelaySet(client, "first"), DelaySet(client, "second")
    for queue in (first, second):
        queue.schedule([(f"{queue.name}-{n}", b"") for n in range(3)])
    seen = list[str]()
    Worker([second, first], lambda work: seen.append(work.queue), in_order=True, burst=True).run()
    assert seen == ["second"] * 3 + ["first"] * 3


def test_in_order_a_later_queue_is_served_when_another_worker_was_to_watch_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That worker is gone before the time that it knew: nothing says when the entry is due."""
    monkeypatch.setattr(wake_up, "IDLE_BLOCK_MS", 100)
    queues = [DelaySet(client, name) for name in ("first", "second", "third")]
    queues[2].schedule([("a", b"")], after=0.5)
    queues[2].take(1, consumer="gone")
    seen = list[str]()
    with working(queues, lambda work: seen.append(work.id), in_order=True):
        until(lambda: seen == ["a"])
