"""Numbered jobs of RQ, arq, Celery and Dramatiq, and a record of their runs, for `killed_workers`.

python numbered_jobs.py KIND PORT produce RATE    so many jobs a second, until ``ran:stop`` is there
python numbered_jobs.py KIND PORT work NAME       a worker of that name, until it is killed
python numbered_jobs.py KIND PORT recover         what the program's upkeep does for lost workers

Run as a script with the program's packages, and none of ours. Keys: ``ran:wanted`` the jobs that
were sent, ``ran:log`` what happened to them (worker, job, and `began`, `failed` or `ended`).
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import redis

DELAY = 2
"""seconds by which every seventh job is delayed"""
TIMEOUT = 3
"""seconds a job may take: some programs take its worker for lost then"""
VISIBLE = 10
"""seconds after which Celery delivers a task again that was not acknowledged"""
client: Any = redis.Redis(port=int(os.environ.get("PORT", "6379")))


def number(name: str) -> int:
    return int(name.partition("-")[2])


def handle(name: str) -> None:
    """Run a numbered job: every fifth fails the first time, if FAILS is set."""

    def note(what: str) -> None:
        client.rpush("ran:log", f"{os.environ['WORKER']} {name} {what}")

    note("began")
    fails = number(name) % 5 == 0 and "FAILS" in os.environ
    if fails and client.hincrby("ran:tries", name, 1) == 1:
        note("failed")
        raise ValueError(f"no luck in group {number(name) % 3}")
    time.sleep(0.01)
    note("ended")


def produce(rate: float, send: Callable[[str, int], Any]) -> None:
    for name, delay in names(rate):
        send(name, delay)


def names(rate: float) -> Iterator[tuple[str, int]]:
    """Jobs to send, and seconds until they are due. A job is wanted once it was sent."""
    n, batch = 0, 10
    while not client.exists("ran:stop"):
        for name in (f"job-{n + k}" for k in range(batch)):
            yield name, DELAY if number(name) % 7 == 3 else 0
            client.rpush("ran:wanted", name)
        n += batch
        time.sleep(batch / rate)


def with_rq(command: str, rate: float) -> None:
    import rq

    queue = rq.Queue("mail", connection=client, default_timeout=TIMEOUT)

    def send(name: str, delay: int) -> None:
        if delay:
            queue.enqueue_in(timedelta(seconds=delay), "numbered_jobs.handle", name, job_id=name)
        else:
            queue.enqueue("numbered_jobs.handle", name, job_id=name)

    if command == "produce":
        produce(rate, send)
    elif command == "work":
        rq.SimpleWorker([queue], connection=client).work(with_scheduler=True, logging_level="ERROR")
    else:
        client.delete("rq:scheduler-lock:mail")  # as it expires
        registry = rq.registry.StartedJobRegistry(queue=queue)
        registry.cleanup(time.time() + 3600)  # as when their time is over


def with_celery(command: str, rate: float) -> None:
    import celery

    url = f"redis://127.0.0.1:{os.environ['PORT']}/0"
    app = celery.Celery("shop", broker=url, backend=url)
    app.conf.update(
        task_default_priority=0,
        result_extended=True,
        worker_hijack_root_logger=False,
        broker_transport_options={"visibility_timeout": VISIBLE, "unacked_mutex_expire": 5},
        broker_connection_retry_on_startup=True,
    )
    task = app.task(handle, name="shop.numbered", acks_late=True)
    if command == "produce":

        def send(name: str, delay: int) -> None:
            priority = number(name) % 10
            task.apply_async((name,), task_id=name, countdown=delay or None, priority=priority)

        produce(rate, send)
    elif command == "work":
        words = "worker --pool=threads --concurrency=2 --prefetch-multiplier=1 --loglevel=critical"
        app.worker_main([*words.split(), "--without-gossip", "--without-mingle"])
    else:
        time.sleep(VISIBLE + 1)
        with app.connection_for_read() as connection:  # as a worker does, ten tasks in 100 s
            connection.default_channel.qos.restore_visible(0, 1_000_000, 1)


def with_dramatiq(command: str, rate: float) -> None:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.middleware import AgeLimit, Callbacks, Retries

    broker = RedisBroker(  # type: ignore[no-untyped-call]
        client=client,
        middleware=[AgeLimit(), Callbacks(), Retries()],
        maintenance_chance=1_000_000,
        heartbeat_timeout=5000,
    )
    options: dict[str, Any] = {"queue_name": "mail", "max_retries": 0}
    actor = dramatiq.actor(  # type: ignore[call-overload]
        handle, broker=broker, actor_name="numbered", **options
    )
    if command == "produce":
        produce(rate, lambda name, s: actor.send_with_options(args=(name,), delay=1000 * s or None))
    elif command == "work":
        dramatiq.Worker(broker, worker_timeout=20, worker_threads=2).start()
        while True:
            time.sleep(60)


def with_arq(command: str, rate: float) -> None:
    from arq import Worker, create_pool
    from arq.connections import RedisSettings
    from arq.worker import func

    async def numbered(ctx: dict[Any, Any], name: str) -> None:
        await asyncio.to_thread(handle, name)

    async def send_all() -> None:
        pool = await create_pool(RedisSettings(port=int(os.environ["PORT"])))
        for name, delay in names(rate):
            await pool.enqueue_job("numbered", name, _job_id=name, _defer_by=delay or None)

    if command == "produce":
        asyncio.run(send_all())
    elif command == "work":
        Worker(
            [func(numbered, name="numbered")],
            redis_settings=RedisSettings(port=int(os.environ["PORT"])),
            poll_delay=0.05,
            max_jobs=4,
            job_timeout=TIMEOUT,
        ).run()


if __name__ == "__main__":
    _, kind, command, *rest = sys.argv
    globals()[f"with_{kind}"](command, float(rest[0]) if rest else 0)
