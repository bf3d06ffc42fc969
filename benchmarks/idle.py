"""100 idle worker processes: what they ask of the server, and what one entry sets in motion."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

import redis

from redisq_ops.core.model.settings import IDLE_BLOCK_MS
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.core.redis.client import connect
from redisq_ops.core.worker import Worker

from .measure import servers, spread, url_of

WORKERS = 100
ENTRIES = 60
IDLE_S = 30
"""in this time every worker does its upkeep once"""
PATIENCE_S = 60


def work(url: str) -> None:
    """One worker, until it is told to stop or the process that measures is gone."""
    worker = Worker(RequestQueue(connect(url, "worker"), "idle"), lambda work: None)

    def follow() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
        worker.stop()

    Thread(target=follow, daemon=True).start()
    worker.run()


@contextmanager
def workers(client: redis.Redis) -> Iterator[None]:
    """`WORKERS` processes that wait for work."""
    # Not a plain fork: a copy of this process would keep its server from ending with it.
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    processes = []
    try:
        for _ in range(WORKERS):
            process = context.Process(target=work, args=(url_of(client),))
            process.start()
            processes.append(process)
        until(partial(all_wait, client))
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def all_wait(client: redis.Redis) -> bool:
    info: Any = client.info("clients")
    return bool(info["blocked_clients"] == WORKERS)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {PATIENCE_S} s: {true}")
        time.sleep(0.002)


def sent(client: redis.Redis, work: Callable[[], object]) -> list[tuple[str, str]]:
    """(port, command) of what the workers sent meanwhile, without what scripts did inside.

    From MONITOR, because it says who sent what.
    """
    any_client: Any = client
    with any_client.monitor() as monitor:
        work()
        listed = any_client.client_list()
        client.echo("over")
        seen = takewhile(lambda one: one["command"] != "ECHO over", monitor.listen())
        tcp = [one for one in seen if one["client_type"] == "tcp"]
    # Known by their name, once the work is done: a connection may have come with it.
    theirs = {c["addr"].rpartition(":")[2] for c in listed if c["name"].endswith("/worker")}
    return [
        (one["client_port"], one["command"].split()[0])
        for one in tcp
        if one["client_port"] in theirs
    ]


def worked_off(queue: RequestQueue[redis.Redis], id: str) -> None:
    """Submit one entry, and wait until it is done and every worker waits again.

    Nothing is put off meanwhile: a worker's own look, every 5 s, may fall into it, and its upkeep.
    """

    def done() -> bool:
        request = queue.request(id)
        return request is not None and request.settled

    queue.submit([b"x"], id=id)
    until(done)
    until(partial(all_wait, queue.client))


def main() -> None:
    with servers() as each:
        for name, client in each:
            queue = RequestQueue(client, "idle")
            queue.submit([], id="first")
            with workers(client):
                time.sleep(IDLE_BLOCK_MS / 1000 + 1)  # each has looked again, on all it connects
                idle = Counter(word for _, word in sent(client, partial(time.sleep, IDLE_S)))
                rounds = [sent(client, partial(worked_off, queue, f"r{n}")) for n in range(ENTRIES)]
            woken = [len({port for port, word in r if word == "EVALSHA"}) for r in rounds]
            kinds = ", ".join(f"{word} {n / WORKERS / IDLE_S:.2f}" for word, n in idle.items())
            print(f"{name}, {WORKERS} worker processes waiting:")
            print(f"  one entry wakes {spread(woken, 'workers')}, aim 1")
            print(f"  which send {spread(list(map(len, rounds)), 'commands beside the submit')}")
            most, times = Counter(tuple(word for _, word in r) for r in rounds).most_common(1)[0]
            print(f"    {' '.join(most)}: {times} of {ENTRIES} times")
            each_ = idle.total() / WORKERS / IDLE_S
            print(f"  idle: {each_:.2f} commands a second each, over {IDLE_S} s ({kinds})")
