"""A real Dramatiq: a broker on a server, its actors, and its workers in this process or another.

python dramatiq_program.py PORT    a worker, until it is killed
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import AgeLimit, Callbacks, Retries


class Program:
    """What an application has: a broker of its own, and actors of two queues."""

    def __init__(self, client: redis.Redis, **options: Any) -> None:
        self.client = client
        middleware = [AgeLimit(), Callbacks(), Retries()]
        # One call in a thousand would put back what a lost worker held, at a time of its own.
        options = {"maintenance_chance": 0} | options
        self.broker = RedisBroker(client=client, middleware=middleware, **options)  # type: ignore[no-untyped-call]
        once: dict[str, Any] = {"max_retries": 1, "min_backoff": 1, "max_backoff": 1}
        self.fine = self._actor(self._fine)
        self.fails = self._actor(self._fails, **once)
        self.fails_at_once = self._actor(self._fails, actor_name="fails_at_once", max_retries=0)
        self.lasts = self._actor(self._lasts)
        self.other = self._actor(self._fine, actor_name="other", queue_name="other")

    def _actor(self, function: Any, **options: Any) -> Any:
        named: Any = {"actor_name": function.__name__[1:], "queue_name": "low"}
        return dramatiq.actor(function, broker=self.broker, **(named | options))  # type: ignore[call-overload]

    def _fine(self, what: Any = None, **named: Any) -> None:
        """Counts how often it ran, of each argument."""
        self.client.hincrby("ran", str(what), 1)

    def _fails(self, what: Any = None, **named: Any) -> None:
        """Fails while the key ``broken`` is there."""
        self.client.hincrby("ran", str(what), 1)
        if self.client.exists("broken"):
            raise ValueError(f"no {what}")

    def _lasts(self) -> None:
        self.client.incr("started")
        time.sleep(600)

    @contextmanager
    def worker(self, threads: int = 2, queues: set[str] | None = None) -> Iterator[None]:
        worker = dramatiq.Worker(
            self.broker, queues=queues, worker_timeout=20, worker_threads=threads
        )
        worker.start()
        try:
            yield
        finally:
            worker.stop()

    def work(self) -> None:
        """A worker, until nothing of the queue is left that it could do."""
        with self.worker():
            self.broker.join("low", interval=10, timeout=30_000)


def lost(client: redis.Redis, n: int) -> None:
    """Messages that a worker had fetched when its machine went away, two minutes ago."""
    broker = Program(client).broker
    assert next(broker.consume("low", prefetch=n))
    client.zadd("dramatiq:__heartbeats__", {broker.broker_id: time.time() * 1000 - 120_000})


def started(client: redis.Redis) -> subprocess.Popen[bytes]:
    """A worker in a process of its own."""
    port = client.connection_pool.connection_kwargs["port"]
    return subprocess.Popen(
        [sys.executable, str(Path(__file__)), str(port)], stderr=subprocess.DEVNULL
    )


def specimen(client: redis.Redis) -> None:
    """Messages in every state of the queue ``low``, and some of another queue."""
    program = Program(client)
    client.set("broken", 1)
    for n in range(4):
        program.fails.send(f"luck{n}", order=n)
    program.work()
    for _ in range(4):
        program.lasts.send()
    lost(client, 4)
    for n in range(6):
        program.fine.send(n, region="eu")
        program.fine.send_with_options(args=(f"late{n}",), delay=9_000_000 + n)
    program.other.send("elsewhere")


def fill(client: redis.Redis) -> Mapping[Any, Sequence[str]]:
    """The specimen's messages in each state, by their ids in Redis."""
    specimen(client)
    (acks,) = client.scan_iter("dramatiq:__acks__*")
    found: dict[Any, Any] = {
        "waiting": client.lrange("dramatiq:low", 0, -1),
        "pending": client.smembers(acks),
        "delayed": client.lrange("dramatiq:low.DQ", 0, -1),
        "dead": client.zrange("dramatiq:low.XQ", 0, -1),
    }
    return {state: [id.decode() for id in ids] for state, ids in found.items()}


def work(client: Any, n: int) -> None:
    """A worker, until it has run so many messages."""
    before = sum(map(int, client.hvals("ran")))
    with Program(client).worker(queues={"low"}):
        while sum(map(int, client.hvals("ran"))) < before + n:
            time.sleep(0.02)


def times(client: Any) -> Mapping[str, int | None]:
    ((dead, died), *_) = client.zrange("dramatiq:low.XQ", 0, 0, withscores=True)
    (waits,) = client.lrange("dramatiq:low", 0, 0)
    return {dead.decode(): int(died), waits.decode(): None} | {
        id.decode(): json.loads(message)["options"]["eta"]
        for id, message in client.hgetall("dramatiq:low.DQ.msgs").items()
    }


def gives_back(client: Any, id: str) -> None:
    """What a broker does at its end with what it fetched, and others do for one that is lost."""
    broker = Program(client).broker
    (acks,) = client.scan_iter("dramatiq:__acks__*.low")
    broker.broker_id = acks.decode().removeprefix("dramatiq:__acks__.").removesuffix(".low")
    broker.do_requeue("low", id)


def enqueues(client: Any, id: str) -> None:
    """What a worker does with a delayed message that it has fetched and that is due; but a worker
    gives it a new id in Redis, and redisq doesn't."""
    broker = Program(client).broker
    held = f"dramatiq:__acks__.{broker.broker_id}.low.DQ"
    client.lrem("dramatiq:low.DQ", 1, id)
    client.sadd(held, id)
    message = dramatiq.Message.decode(client.hget("dramatiq:low.DQ.msgs", id))
    due = message.copy(queue_name="low")
    del due.options["eta"]
    broker.do_enqueue("low", id, due.encode())
    broker.do_ack("low.DQ", id)


if __name__ == "__main__":
    with Program(redis.Redis(port=int(sys.argv[1]))).worker():
        time.sleep(600)
