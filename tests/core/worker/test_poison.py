"""A job that kills its process is dead after three lost leases, and no other job with it."""

import asyncio
import multiprocessing
import os
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
from redisq_ops.core.worker import Worker
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
