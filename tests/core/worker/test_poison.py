"""A job that kills its process is dead after three lost leases, and no other job with it."""

import asyncio
import multiprocessing
import os
import threading
import time
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient
from redisq_ops.core.worker import Worker, sole_run
from redisq_ops.core.worker.handler import Work

ENTRIES, POISON = 24, (b"4", b"5")
KINDS = ("request", "delay", "sidekiq")


def opened(client: BlockingClient, kind: str) -> Queue[BlockingClient]:
    if kind == "sidekiq":
        return SidekiqQueue(client, "sidekiq:q")
    return RequestQueue(client, "q") if kind == "request" else DelaySet(client, "q")


def fill(queue: Any) -> None:
    payloads = [str(n).encode() for n in range(ENTRIES)]
    if isinstance(queue, RequestQueue):
        queue.submit(payloads, id="r", limit=ENTRIES)
    elif isinstance(queue, DelaySet):
        queue.schedule([(f"e{n.decode()}", n) for n in payloads])
    else:
        queue.push([Job("E", [int(n)], f"e{n.decode()}") for n in payloads])


def is_poison(payload: bytes) -> bool:
    return payload in POISON or any(b'"jid":"e%b"' % n in payload for n in POISON)


def seconds_of(work: Work) -> float:
    """How long an entry runs; poison ends the process instead."""
    if is_poison(work.payload):
        time.sleep(0.1)
        os._exit(1)
    return 0.05


def handle(work: Work) -> None:
    time.sleep(seconds_of(work))


async def ahandle(work: Work) -> None:
    await asyncio.sleep(seconds_of(work))


def run_worker(url: str, kind: str, is_async: bool) -> None:
    handler = ahandle if is_async else handle
    queue = opened(connect(url), kind)
    Worker(queue, handler, concurrency=4, batch=2, lease=0.3, burst=True).run()


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "tasks"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_kills_its_process_takes_no_other_with_it(
    kind: str, is_async: bool, url: str
) -> None:
    queue = opened(connect(url), kind)
    fill(queue)
    context = multiprocessing.get_context("forkserver")
    processes = list[BaseProcess]()
    until = time.monotonic() + 60
    try:
        while (counts := queue.counts()).waiting + counts.pending + counts.delayed:
            assert time.monotonic() < until, counts
            processes = [process for process in processes if process.is_alive()]
            while len(processes) < 2:
                processes.append(context.Process(target=run_worker, args=(url, kind, is_async)))
                processes[-1].start()
            time.sleep(0.02)
    finally:
        for process in processes:
            process.kill()
            process.join()
    dead = queue.page("dead", max=ENTRIES, payloads=True).entries
    assert len(dead) == len(POISON)
    assert {entry.reason for entry in dead} == {"lost"}
    assert all(is_poison(entry.payload or b"") for entry in dead)


def lose_leases(queue: RequestQueue[BlockingClient], n: int) -> None:
    """Entries of the queue lose their lease twice, as if their workers had been killed."""
    for _ in range(2):
        assert len(queue.take(n, consumer="killed", lease=0.001).deliveries) == n
        time.sleep(0.01)


def test_entries_that_lost_two_leases_run_one_by_one_and_lose_no_more(
    client: BlockingClient,
) -> None:
    queue = RequestQueue(client, "q")
    queue.submit([b"x"] * 4, id="r", limit=4)
    lose_leases(queue, 4)
    queue.submit([b"y"] * 4, id="s", limit=4)
    beside = list[tuple[str, int]]()
    running = set[str]()

    def handle(work: Work) -> None:
        running.add(work.id)
        time.sleep(0.1)
        if work.payload == b"x":
            beside.append((work.id, len(running)))
        time.sleep(0.1)
        running.discard(work.id)

    Worker(queue, handle, concurrency=8, burst=True).run()
    assert sorted(beside) == [(f"r/{n}", 1) for n in range(1, 5)]
    assert queue.counts().of("done") == 8


@pytest.mark.parametrize("other", ["runs before", "comes while it runs"])
def test_others_and_an_entry_that_runs_alone_wait_a_minute_for_each_other_at_most(
    client: BlockingClient,
    other: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sole_run, "PATIENCE_S", 0.2)
    queue = RequestQueue(client, "q")
    queue.submit([b"x"], id="r")
    lose_leases(queue, 1)
    if other == "runs before":
        queue.submit([b"y"], id="s")
    taken = {b"x": threading.Event(), b"y": threading.Event()}

    def handle(work: Work) -> None:
        taken[work.payload].set()
        if work.payload == b"x" and other != "runs before":
            queue.submit([b"y"], id="s")
        assert all(event.wait(10) for event in taken.values()), "the other one was never taken"

    Worker(queue, handle, concurrency=2, burst=True).run()
    assert queue.counts().of("done") == 2
    (said,) = [line for line in caplog.messages if "lost its lease 2 times" in line]
    assert said.startswith("q/r/1 ")
