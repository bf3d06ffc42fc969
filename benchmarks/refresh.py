"""`redisq-top` on 210 queues, two refreshes a second: CPU time of the process and of the server."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count

import redis

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue

from .measure import server_us, servers, spread, url_of
from .terminal import DashboardProcess, TerminalProcess

QUEUES = 210
BUSY = 20
"""of them get and lose entries each second"""
INTERVAL_S = 0.5
SETTLE_S = 5
SECONDS = 15
ROUNDS = 3
AIM = 5.0
AIM_SERVER = 0.2
OTHERS = (("btop", "--utf-force", "-p", "0"), ("htop",))
"""programs of the same kind, if they are installed"""


def fill(client: redis.Redis) -> list[RequestQueue[redis.Redis]]:
    """The queues; returns those that `traffic` can work on."""
    requests = []
    for n in range(QUEUES):
        name = f"q{n:03}"
        if n % 10 == 8:
            DelaySet(client, name).schedule([(f"e{k}", b"x") for k in range(20)], after=600)
        elif n % 10 == 9:
            FairQueue(client, name).submit("acme", [b"x"] * 5)
        else:
            queue = RequestQueue(client, name)
            queue.submit([b"x"] * 30, id="r", limit=100)
            taken = queue.take(10, consumer="w").deliveries
            queue.settle([Settlement(one, "ack") for one in taken[:8]])
            queue.settle([Settlement(taken[8], "reject", Failure("E", "no").encoded())])
            requests.append(queue)
    return requests


@contextmanager
def traffic(queues: list[RequestQueue[redis.Redis]]) -> Iterator[None]:
    """Work in some of the queues each second, until the block ends."""
    over, dice, numbers = threading.Event(), random.Random(1), count()

    def work() -> None:
        while not over.wait(1):
            for queue in dice.sample(queues, BUSY):
                queue.submit([b"x"] * dice.randint(1, 3), id=f"r{next(numbers)}")
                taken = queue.take(2, consumer="w").deliveries
                queue.settle([Settlement(one, "ack") for one in taken])

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def main() -> None:
    with servers() as each:
        for name, client in each:
            queues, ours, theirs = fill(client), list[float](), list[float]()
            others: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                with DashboardProcess(
                    "--url", url_of(client), "--interval", str(INTERVAL_S)
                ) as top:
                    top.until("1 of ")
                    top.run_for(SETTLE_S)
                    with traffic(queues):
                        ours.append(top.cpu_percent(SECONDS))
                    used, _ = server_us(client, partial(top.run_for, SECONDS))
                    theirs.append(used / SECONDS / 10_000)
                for program, *options in OTHERS:
                    if path := shutil.which(program):
                        with TerminalProcess(path, *options) as other:
                            other.run_for(SETTLE_S)
                            others.setdefault(program, []).append(other.cpu_percent(SECONDS))
            print(f"{name}: {QUEUES} queues, {BUSY} of them changing, {1 / INTERVAL_S:g} Hz")
            print(f"  redisq-top: {spread(ours, '% of a core')}, aim {AIM:g} % at most")
            print(f"  the server's commands for it: {spread(theirs, '%')}, aim {AIM_SERVER:g} %")
            for program, found in others.items():
                print(f"  {program}, as installed: {spread(found, '% of a core')}")
