"""A server loses its data again and again under a producer, a worker and an operator, each its own
process: what is accepted after a loss is finished, or in a queue that the registry has.

``REDISQ_LOSSES=50`` runs it longer; ``-s`` prints the figures.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from redisq_ops.core.engine.queue_classes import queue_class, sharded_class
from redisq_ops.core.engine.queue_types import FOREIGN_CLASSES, OWN_CLASSES
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import run
from redisq_ops.core.worker import Worker
from redisq_ops.core.worker.handler import Work
from redisq_ops.demo.server import HOST, EmbeddedServer, binaries
from redisq_ops.ops.deployment import Deployment

from ...proxy import FlakyProxy

LOSSES = int(os.environ.get("REDISQ_LOSSES", "4"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 20 * LOSSES)]
SUBMIT: dict[str, Callable[[Any, str], object]] = {
    "request": lambda queue, id: queue.submit([b"x"], id=id),
    "delay": lambda queue, id: queue.schedule([(id, b"x")]),
    "fair": lambda queue, id: queue.submit(f"client-{hash(id) % 9}", [(id, b"x")]),
    "circular": lambda queue, id: queue.push([(id, b"x")]),
    "carmine": lambda queue, id: queue.enqueue([(id, b"x")]),
    "sidekiq": lambda queue, id: queue.push([Job("A", [], id)]),
    "resque": lambda queue, id: queue.push([Job("A", [id])]),
}
CASES = [(kind, shards) for kind in OWN_CLASSES for shards in (1, 3)]
CASES += [("sidekiq", 1), ("resque", 1)]
EACH = 6
"""entries of each case that are accepted after a loss before they are looked for"""


def opened(client: Any, kind: str, shards: int) -> Any:
    name = f"{kind}:q{shards}" if kind in FOREIGN_CLASSES else f"{kind}{shards}"
    if shards > 1:
        return sharded_class(kind)(client, name, shards=shards)
    made = queue_class(kind)
    assert made is not None
    return made(client, name)


def entry_id(queue: Any, id: str) -> str:
    """The id of the entry that a submission under this id makes."""
    if isinstance(queue, ResqueQueue):
        return queue.id_of(Job("A", [id]).encoded())
    return f"{id}/1" if queue.kind == "request" else id


def produce(url: str, log: Path) -> None:
    """Note each entry that was accepted, and since when it was offered."""
    queues = [opened(connect(url), *case) for case in CASES]
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for n in count():
        for queue in queues:
            id, since = f"{n}-{queue.name}".replace(":", "-"), time.monotonic_ns()
            try:
                SUBMIT[queue.kind](queue, id)
            except RedisqError:  # the server is away: whether it was accepted is unknown
                continue
            os.write(fd, f"{since} {queue.name} {entry_id(queue, id)}\n".encode())


def work(url: str, log: Path) -> None:
    """Note each entry before it is finished; so slowly that the queues fill up."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def handle(work: Work) -> None:
        os.write(fd, f"{work.id}\n".encode())
        time.sleep(0.01)

    client = connect(url)
    Worker([opened(client, *case) for case in CASES], handle, concurrency=4, batch=2).run()


def operate(url: str) -> None:
    queues = [opened(connect(url), *case) for case in CASES if case[0] in OWN_CLASSES]
    for n in count(1):
        for queue in queues:
            try:
                queue.configure(f"op-{n}", 1, {"max_waiting": str(10**6 + n)})
            except RedisqError:
                continue


def accepted(log: Path, since: int) -> dict[str, list[str]]:
    """Queue -> ids that were offered after a moment, and accepted."""
    found = defaultdict(list)
    whole = log.read_text().rpartition("\n")[0] if log.exists() else ""
    for line in whole.splitlines():
        at, name, id = line.split()
        if int(at) > since:
            found[name].append(id)
    return found


def hidden(url: str, since: int, offered: Path, done: Path) -> tuple[int, list[str]]:
    """How many entries were accepted since a loss, and those of them that nobody finds."""
    client = connect(url)
    rows = accepted(offered, since)
    queues = {queue.name: queue for queue in run(client, Deployment(client).queues())}
    missing = {name: f"queue {name} is not registered" for name in rows if name not in queues}
    left = {name: ids for name, ids in rows.items() if name in queues}
    for _ in range(5):  # a worker may move an entry between two reads of a look
        for name, ids in left.items():
            pages = [ids[low : low + 100] for low in range(0, len(ids), 100)]
            found = [entry for page in pages for entry in queues[name].get_many(page)]
            left[name] = [id for id, entry in zip(ids, found, strict=True) if entry is None]
        finished = {*done.read_text().split()} if done.exists() else set[str]()
        left = {
            n: some for n, ids in left.items() if (some := [i for i in ids if i not in finished])
        }
    return sum(map(len, rows.values())), [*missing.values(), *map(str, left.items())]


class Alone:
    """A server that loses its data: it is emptied, or restarted, and persists nothing."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self.url = server.url

    def lose(self, nth: int) -> None:
        if nth % 2:
            self._server.command("FLUSHALL")
        else:
            self._server.restart()


class WithReplica:
    """Two servers behind one address, which leads to the primary. When that dies, its replica is
    promoted: an empty one, as a replica is that was cut off during its full synchronisation."""

    def __init__(self, primary: EmbeddedServer, replica: EmbeddedServer, way: FlakyProxy) -> None:
        self._primary, self._replica, self._way = primary, replica, way
        self.url = way.url

    def lose(self, nth: int) -> None:
        primary, replica = self._primary, self._replica
        replica.command("REPLICAOF", HOST, str(primary.port))
        while "master_link_status:up" not in replica.command("INFO", "replication"):
            time.sleep(0.01)
        replica.command("REPLICAOF", HOST, "1")
        replica.command("CONFIG", "SET", "replica-read-only", "no")
        replica.command("FLUSHALL")
        primary.kill()
        replica.command("REPLICAOF", "NO", "ONE")
        self._way.lead_to(replica.port)
        primary.restart()
        self._primary, self._replica = replica, primary


@pytest.fixture(params=["alone", "with a replica"])
def servers(request: pytest.FixtureRequest) -> Iterator[Alone | WithReplica]:
    binary = binaries()["valkey"]
    with EmbeddedServer(binary) as server:
        if request.param == "alone":
            yield Alone(server)
            return
        with EmbeddedServer(binary) as replica, FlakyProxy(server.port) as way:
            yield WithReplica(server, replica, way)


def test_what_is_accepted_after_a_loss_is_never_hidden(
    servers: Alone | WithReplica, tmp_path: Path
) -> None:
    offered, done = tmp_path / "offered", tmp_path / "done"
    context = multiprocessing.get_context("forkserver")
    processes: list[BaseProcess] = [
        context.Process(target=produce, args=(servers.url, offered)),
        context.Process(target=work, args=(servers.url, done)),
        context.Process(target=operate, args=(servers.url,)),
    ]
    total = 0
    try:
        for process in processes:
            process.start()
        for nth in range(LOSSES + 1):
            since = time.monotonic_ns()
            deadline = time.monotonic() + 60
            while min(map(len, (rows := accepted(offered, since)).values()), default=0) < EACH or (
                len(rows) < len(CASES)
            ):
                assert time.monotonic() < deadline, f"after loss {nth} only: {rows}"
                assert all(process.is_alive() for process in processes)
                time.sleep(0.02)
            n, lost = hidden(servers.url, since, offered, done)
            assert lost == [], f"after loss {nth}"
            total += n
            if nth < LOSSES:
                servers.lose(nth)
    finally:
        for process in processes:
            process.kill()
            process.join()
    print(f"\n{LOSSES} losses: {total:,} entries accepted after one, 0 hidden")
