"""100 idle worker processes: the commands they send, and the commands that one entry causes."""

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
"""long enough for every worker to do its upkeep once"""
TIMEOUT_S = 60


def work(url: str) -> None:
    """One worker, until it is terminated or the measuring process is gone."""
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
        until(partial(all_blocked, client))
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def all_blocked(client: redis.Redis) -> bool:
    info: Any = client.info("clients")
    return bool(info["blocked_clients"] == WORKERS)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {TIMEOUT_S} s: {condition}")
        time.sleep(0.002)


def sent_commands(client: redis.Redis, work: Callable[[], object]) -> list[tuple[str, str]]:
    """(port, command) of the workers' commands during ``work``, without those inside scripts.

    From MONITOR, because it shows which connection sent a command.
    """
    any_client: Any = client
    with any_client.monitor() as monitor:
        work()
        clients = any_client.client_list()
        client.echo("over")
        commands = takewhile(lambda command: command["command"] != "ECHO over", monitor.listen())
        tcp_commands = [command for command in commands if command["client_type"] == "tcp"]
    # Connections are found by client name after the work: one may have been opened for it.
    worker_ports = {c["addr"].rpartition(":")[2] for c in clients if c["name"].endswith("/worker")}
    return [
        (command["client_port"], command["command"].split()[0])
        for command in tcp_commands
        if command["client_port"] in worker_ports
    ]


def run_one_entry(queue: RequestQueue[redis.Redis], id: str) -> None:
    """Submit one entry, and wait until it is done and every worker waits again.

    A worker's periodic check, every 5 s, and its upkeep may fall into this time.
    """

    def done() -> bool:
        request = queue.request(id)
        return request is not None and request.settled

    queue.submit([b"x"], id=id)
    until(done)
    until(partial(all_blocked, queue.client))


def main() -> None:
    with servers() as each:
        for name, client in each:
            queue = RequestQueue(client, "idle")
            queue.submit([], id="first")
            with workers(client):
                time.sleep(IDLE_BLOCK_MS / 1000 + 1)  # each has looked again, on all it connects
                idle = Counter(
                    word for _, word in sent_commands(client, partial(time.sleep, IDLE_S))
                )
                rounds = [
                    sent_commands(client, partial(run_one_entry, queue, f"r{n}"))
                    for n in range(ENTRIES)
                ]
            woken_workers = [len({port for port, word in r if word == "EVALSHA"}) for r in rounds]
            kinds = ", ".join(f"{word} {n / WORKERS / IDLE_S:.2f}" for word, n in idle.items())
            print(f"{name}, {WORKERS} worker processes waiting:")
            print(f"  one entry wakes {spread(woken_workers, 'workers')}, aim 1")
            print(f"  which send {spread(list(map(len, rounds)), 'commands beside the submit')}")
            most, times = Counter(tuple(word for _, word in r) for r in rounds).most_common(1)[0]
            print(f"    {' '.join(most)}: {times} of {ENTRIES} times")
            each_ = idle.total() / WORKERS / IDLE_S
            print(f"  idle: {each_:.2f} commands a second each, over {IDLE_S} s ({kinds})")
