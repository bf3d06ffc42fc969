"""A demo workload: a producer, several worker processes, and some failures.

    python -m redisq_ops.demo.workload redis://127.0.0.1:6379 [--workers N]

Requests of three kinds with priorities and limits arrive in two queues, reminders in a delay set.
Some handlers fail, some reject their entry, and now and then a process dies during its work and is
started again. Nothing is simulated: `redisq-top` shows what these processes do.
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
from redisq_ops.core.worker.handler import Work
from redisq_ops.core.worker.retry import Reject

LEASE_MS = 5_000
MAX_WAITING = 2_000
"""the producer pauses while a queue has this many entries, so that the demo stays small"""

REQUEST_KINDS = (
    # queue, name, priority, limit, sub-requests from, to
    ("mail", "receipt", 5, 8, 1, 12),
    ("mail", "newsletter", 60, 3, 60, 240),
    ("imports", "catalogue", 40, 6, 40, 160),
)


def handle(work: Work) -> bytes | None:
    """Takes some time; now and then fails, rejects the entry, or kills its process."""
    chance = random.random()
    time.sleep(random.expovariate(1 / 0.12))
    if chance < 0.0008:
        os.kill(os.getpid(), signal.SIGKILL)
    if chance < 0.012:
        raise Reject("550 mailbox does not exist")
    if chance < 0.03:
        raise ConnectionError("smtp.example.org:25 refused the connection")
    if chance < 0.04:
        raise TimeoutError("no answer from 203.0.113.7 within 10 s")
    return work.payload.upper() if chance > 0.5 else None


def work(url: str, name: str) -> None:
    """Run one worker process for all queues."""
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
    """Submit requests and schedule reminders until terminated."""
    client = connect(url, "demo")
    queues = {"mail": RequestQueue(client, "mail"), "imports": RequestQueue(client, "imports")}
    reminders = DelaySet(client, "reminders")
    for queue in (*queues.values(), reminders):
        # dead after a few failures instead of twenty
        queue.configure(f"demo-{os.getpid()}", time.time_ns(), {"max_failures": "3"})
    serial = int(time.time() * 10) % 100_000
    while True:
        serial += 1
        name, request_kind, priority, limit, low, high = random.choices(REQUEST_KINDS, (6, 1, 2))[0]
        try:
            if queues[name].counts().waiting < MAX_WAITING:
                size = random.randint(low, high)
                rows = [f"{request_kind} {serial}, line {n}".encode() for n in range(1, size + 1)]
                queues[name].submit(
                    rows, id=f"{request_kind}-{serial}", priority=priority, limit=limit
                )
            if reminders.counts().delayed < MAX_WAITING:
                for n in range(random.randint(1, 4)):
                    when = int(random.expovariate(1 / 45_000))
                    entry = (f"remind-{serial}-{n}", b"call back about the invoice")
                    reminders.schedule([entry], after_ms=when)
        except RedisqError as error:
            logging.getLogger(__name__).warning("%s", error)
            time.sleep(1)
        time.sleep(random.expovariate(1 / 0.5))


def main() -> None:
    """Run a producer and the workers; restart processes that die, end all at the end."""
    parser = argparse.ArgumentParser(prog="python -m redisq_ops.demo.workload")
    parser.add_argument("url")
    parser.add_argument("--workers", type=int, default=4)
    arguments = parser.parse_args()
    logging.getLogger("redisq_ops").addHandler(logging.NullHandler())
    context = multiprocessing.get_context("spawn")
    running: dict[str, BaseProcess] = {}

    def start(name: str) -> None:
        target, args = (
            (produce, (arguments.url,)) if name == "producer" else (work, (arguments.url, name))
        )
        process = context.Process(target=target, args=args, daemon=True)
        process.start()
        running[name] = process

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    parent = os.getppid()
    for name in ("producer", *(f"worker-{n}" for n in range(1, arguments.workers + 1))):
        start(name)
    try:
        while os.getppid() == parent:  # end when the parent process is gone
            time.sleep(1)
            for name, process in list(running.items()):
                if not process.is_alive():
                    start(name)
    finally:
        for process in running.values():
            process.kill()


if __name__ == "__main__":
    main()
