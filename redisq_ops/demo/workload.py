"""A living workload: producers, several real worker processes, and a bit of bad luck.

    python -m redisq_ops.demo.workload redis://127.0.0.1:6379 [--workers N]

Requests of three kinds with priorities and limits arrive in two queues, reminders in a delay set.
Some handlers fail, some give up, a process dies now and then in the middle of its work and is
started again. Nothing here is pretended: what `redisq-top` shows is what these processes did.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import random
import signal
import sys
import time
from multiprocessing.process import BaseProcess

from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Reject, Work

LEASE_MS = 5_000
ENOUGH = 2_000
"""no more arrives in a queue while so much waits: a demo must not fill a laptop"""

KINDS = (
    # queue, name, priority, limit, sub-requests from, to
    ("mail", "receipt", 5, 8, 1, 12),
    ("mail", "newsletter", 60, 3, 60, 240),
    ("imports", "catalogue", 40, 6, 40, 160),
)


def handle(work: Work) -> bytes | None:
    """Takes some time; now and then fails, gives up, or takes its whole process down."""
    luck = random.random()
    time.sleep(random.expovariate(1 / 0.12))
    if luck < 0.0008:
        os.kill(os.getpid(), signal.SIGKILL)
    if luck < 0.012:
        raise Reject("550 mailbox does not exist")
    if luck < 0.03:
        raise ConnectionError("smtp.example.org:25 refused the connection")
    if luck < 0.04:
        raise TimeoutError("no answer from 203.0.113.7 within 10 s")
    return work.payload.upper() if luck > 0.5 else None


def work(url: str, name: str) -> None:
    """One worker process over all queues."""
    client = connect(url, "demo")
    queues = [RequestQueue(client, "mail"), RequestQueue(client, "imports")]
    Worker(
        [*queues, DelaySet(client, "reminders")],
        handle,
        consumer=name,
        concurrency=4,
        lease_ms=LEASE_MS,
    ).run()


def produce(url: str) -> None:
    """Submits requests and schedules reminders until it is ended."""
    client = connect(url, "demo")
    queues = {"mail": RequestQueue(client, "mail"), "imports": RequestQueue(client, "imports")}
    reminders = DelaySet(client, "reminders")
    for queue in (*queues.values(), reminders):
        # a demo has no patience: dead after a few failures instead of twenty
        queue.configure(f"demo-{os.getpid()}", time.time_ns(), {"max_failures": "3"})
    serial = int(time.time() * 10) % 100_000
    while True:
        serial += 1
        name, kind, priority, limit, low, high = random.choices(KINDS, (6, 1, 2))[0]
        try:
            if queues[name].counts().waiting < ENOUGH:
                size = random.randint(low, high)
                rows = [f"{kind} {serial}, line {n}".encode() for n in range(1, size + 1)]
                queues[name].submit(rows, id=f"{kind}-{serial}", priority=priority, limit=limit)
            if reminders.counts().delayed < ENOUGH:
                for n in range(random.randint(1, 4)):
                    when = int(random.expovariate(1 / 45_000))
                    entry = (f"remind-{serial}-{n}", b"call back about the invoice")
                    reminders.schedule([entry], after_ms=when)
        except RedisqError as error:
            logging.getLogger(__name__).warning("%s", error)
            time.sleep(1)
        time.sleep(random.expovariate(1 / 0.5))


def main() -> None:
    """Keep a producer and the workers running; restart what dies; end them all at the end."""
    parser = argparse.ArgumentParser(prog="python -m redisq_ops.demo.workload")
    parser.add_argument("url")
    parser.add_argument("--workers", type=int, default=4)
    asked = parser.parse_args()
    logging.getLogger("redisq_ops").addHandler(logging.NullHandler())
    context = multiprocessing.get_context("spawn")
    running: dict[str, BaseProcess] = {}

    def start(name: str) -> None:
        target, args = (produce, (asked.url,)) if name == "producer" else (work, (asked.url, name))
        process = context.Process(target=target, args=args, daemon=True)
        process.start()
        running[name] = process

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    owner = os.getppid()
    for name in ("producer", *(f"worker-{n}" for n in range(1, asked.workers + 1))):
        start(name)
    try:
        while os.getppid() == owner:  # whoever started us is gone: so are we
            time.sleep(1)
            for name, process in list(running.items()):
                if not process.is_alive():
                    start(name)
    finally:
        for process in running.values():
            process.kill()


if __name__ == "__main__":
    main()
