"""A real Dramatiq: a broker on a server, its actors, and its workers in this process or another.

python dramatiq_program.py PORT    a worker, until it is killed
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
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
    def worker(self, threads: int = 2) -> Iterator[None]:
        worker = dramatiq.Worker(self.broker, worker_timeout=20, worker_threads=threads)
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


if __name__ == "__main__":
    with Program(redis.Redis(port=int(sys.argv[1]))).worker():
        time.sleep(600)
