"""Workers are killed at random, and the server with them: nothing is lost, nothing gets stuck.

Accounting as in Jepsen's total queue: lost = accepted − executed (must be 0), unexpected =
executed − submitted (0), duplicated (allowed, counted, printed with ``-s``).
"""

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Page
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet, ShardedDelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.demo.server import EmbeddedServer, binaries

pytestmark = pytest.mark.slow

REQUESTS, EACH, LIMIT = 300, 10, 3
ENTRIES = 2_000
KILLS, RESTARTS, WORKERS = 50, 3, 4
LEASE_MS = 700
KINDS = (
    "request",
    "delay",
    "delay, 3 shards",
    "circular",
    "rotating",
    "fair",
    "carmine",
    "sidekiq",
    "resque",
)
PAUSE_S = 0.3
"""handlers take up to so long until the last kill: enough for work to be left then"""


def run_worker(url: str, kind: str, log: Path, over: Path) -> None:
    """One worker process: writes down each execution before it reports it. ``over`` is there when
    nobody is killed any more."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    chance = random.Random(os.getpid())

    def handle(work: Work) -> None:
        os.write(fd, f"{work.id}\n".encode())
        if not over.exists():
            time.sleep(chance.random() * PAUSE_S)

    client = connect(url)
    Worker(opened(client, kind), handle, concurrency=3, batch=2, lease=LEASE_MS / 1000).run()


def opened(client: BlockingClient, kind: str) -> Queue[BlockingClient]:
    if kind == "fair":
        return FairQueue(client, "q")
    if kind == "sidekiq":
        return SidekiqQueue(client, "sidekiq:q")
    if kind == "resque":
        return ResqueQueue(client, "resque:q")
    if kind == "carmine":
        return CarmineQueue(client, "carmine:q")
    if kind in ("circular", "rotating"):
        return CircularQueue(client, "q", residence="rotate" if kind == "rotating" else "list")
    if kind == "delay, 3 shards":
        return ShardedDelaySet(client, "q", shards=3)
    return RequestQueue(client, "q") if kind == "request" else DelaySet(client, "q")


def dealt() -> list[tuple[str, str]]:
    """Each kind of queue on one kind of server; these take turns."""
    servers = sorted(binaries())
    return [(kind, servers[n % len(servers)]) for n, kind in enumerate(KINDS)]


def patiently(what: str, seconds: float, done: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if done():
                return
        except RedisqError:
            pass  # the server is being restarted
        time.sleep(0.1)
    pytest.fail(f"gave up waiting: {what}")


def settled(queue: Queue[BlockingClient]) -> bool:
    counts = queue.counts()
    return bool(counts.waiting + counts.pending + counts.delayed == 0)


@pytest.mark.parametrize(("kind", "binary"), dealt())
def test_kills_lose_nothing(kind: str, binary: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    log, over = tmp_path / "executed", tmp_path / "over"
    with EmbeddedServer(binaries()[binary], appendonly=True) as server:
        client = connect(server.url)
        queue = opened(client, kind)
        # A kill costs an entry a lease; the default of three lost ones would make dead letters.
        queue.configure("test", 1, {"max_lost": "10000"})
        expected = fill(queue)
        processes: list[BaseProcess] = []
        context = multiprocessing.get_context("forkserver")

        def start() -> None:
            process = context.Process(target=run_worker, args=(server.url, kind, log, over))
            process.start()
            processes.append(process)

        for _ in range(WORKERS):
            start()
        kills = restarts = 0
        try:
            while kills < KILLS:
                time.sleep(chance.uniform(0.05, 0.12))
                victim = processes.pop(chance.randrange(len(processes)))
                kills += victim.is_alive()  # one that began while the server was away has ended
                victim.kill()
                victim.join()
                if restarts < RESTARTS and kills > (restarts + 1) * KILLS // (RESTARTS + 1):
                    server.kill()
                    server.restart()
                    restarts += 1
                start()
            assert not settled(queue), "the work ended before the killing did"
            over.touch()
            patiently("all settled", 120, lambda: settled(queue))
        finally:
            for process in processes:
                process.kill()
                process.join()
        executed = Counter(log.read_text().split())
        assert set(executed) == expected
        assert restarts == RESTARTS
        counts = queue.counts()
        assert (counts.dead, counts.trash) == (0, 0)
        assert counts.of("done") in (None, len(expected))
        assert queue.invariants() == []
        if isinstance(queue, SidekiqQueue | ResqueQueue):
            # What is done is counted for the whole deployment.
            whole = type(queue)(client, queue.kind)
            assert whole.counts().done == len(expected)
        if isinstance(queue, RequestQueue):
            assert queue.levels() == [] or all(level.tokens == 0 for level in queue.levels())
            states = Counter(r.state for r in queue.requests(0, REQUESTS, settled=True))
            assert states == {"done": REQUESTS}
        doubled = sum(n - 1 for n in executed.values())
        print(f"\n{binary} {kind}: {kills} kills, {restarts} restarts, {doubled} executed again")


def pages(queue: Queue[BlockingClient]) -> Iterator[Page]:
    page = queue.page("waiting", max=500)
    yield page
    while page.cursor:
        page = queue.page("waiting", page.cursor, max=500)
        yield page


def fill(queue: Queue[BlockingClient]) -> set[str]:
    if isinstance(queue, FairQueue):
        for start in range(0, ENTRIES, 100):
            rows = [(f"e{n}", b"x") for n in range(start, start + 100)]
            queue.submit(f"client-{start % 700}", rows)
        return {f"e{n}" for n in range(ENTRIES)}
    if isinstance(queue, SidekiqQueue | ResqueQueue):
        named = isinstance(queue, SidekiqQueue)
        for start in range(0, ENTRIES, 100):
            numbers = range(start, start + 100)
            queue.push([Job("E", [n], f"e{n}" if named else None) for n in numbers])
        return {entry.id for page in pages(queue) for entry in page.entries}
    if isinstance(queue, CarmineQueue):
        for start in range(0, ENTRIES, 100):
            rows = [(f"e{n}", b"x") for n in range(start, start + 100)]
            queue.enqueue(rows, backoff=start / 1000)
        return {f"e{n}" for n in range(ENTRIES)}
    if isinstance(queue, CircularQueue):
        for start in range(0, ENTRIES, 100):
            queue.push([f"e{n}" for n in range(start, start + 100)])
        return {f"e{n}" for n in range(ENTRIES)}
    if isinstance(queue, DelaySet):
        for start in range(0, ENTRIES, 100):
            rows = [(f"e{n}", b"x") for n in range(start, start + 100)]
            queue.schedule(rows, after=start / 1000)
        return {f"e{n}" for n in range(ENTRIES)}
    assert isinstance(queue, RequestQueue)
    for number in range(REQUESTS):
        payloads = [b"x"] * EACH
        queue.submit(payloads, id=f"r{number}", limit=LIMIT, priority=number % 7)
    return {f"r{number}/{n}" for number in range(REQUESTS) for n in range(1, EACH + 1)}
