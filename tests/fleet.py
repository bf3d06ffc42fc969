"""Dead letters of four programs, for views and commands that look at all queues."""

from __future__ import annotations

import json
import time
from typing import Any

import redis
import rq
from rq import SimpleWorker

from redisq_ops.core.model.clock import Clock
from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.queues.request import RequestQueue
from redisq_ops.demo.other_programs import register_found

from .foreign_keys import rq_tasks

KEY_ERROR = Failure("KeyError", "'vat_id'")


def mail_dies(
    client: redis.Redis,
    id: str,
    number: int,
    release: object = "v7",
    error: Failure = KEY_ERROR,
    queue: str = "mail",
    clock: Clock | None = None,
) -> RequestQueue[redis.Redis]:
    """Dead letters of a queue of our own, which knows no task."""
    mail = RequestQueue(client, queue, clock=clock)
    payload = json.dumps({"release": release, "tenant": "acme"}).encode()
    mail.submit([payload] * number, id=id, limit=1000)
    while taken := mail.take(500, consumer="w1").deliveries:
        mail.settle([Settlement(delivery, "reject", error.encoded()) for delivery in taken])
    return mail


def cards_die(
    client: redis.Redis, number: int, release: str = "v2.4.1", error: str = "KeyError"
) -> None:
    """Dead jobs of Sidekiq's queue ``cards``."""
    client.sadd("queues", "cards")
    known, now = client.zcard("dead"), time.time()
    for n in range(known, known + number):
        job = {
            "class": "ChargeCard",
            "args": [{"release": release, "card": n}],
            "jid": f"{n:024x}",
            "queue": "cards",
            "retry": True,
            "retry_count": 3,
            "error_class": error,
            "error_message": "key not found: :iban",
            "failed_at": now - 60,
        }
        client.zadd("dead", {json.dumps(job): now - 60 + n / 100})


def orders_die(client: redis.Redis, number: int) -> None:
    """Failed jobs of BullMQ's queue ``orders``."""
    client.hset("bull:orders:meta", mapping={"version": "bullmq:5.61.0"})
    for n in range(number):
        died_ms = int(1000 * time.time()) - 600_000
        job: dict[Any, Any] = {
            "name": "ship",
            "data": json.dumps({"release": "v9", "order": n}),
            "opts": '{"attempts": 1}',
            "timestamp": 1_000 * n,
            "priority": 0,
            "atm": 1,
            "failedReason": f"no carrier for order {n}",
            "stacktrace": json.dumps([f"Error: no carrier for order {n}\n    at ship (a.js:1:2)"]),
            "finishedOn": died_ms,
        }
        client.hset(f"bull:orders:o{n}", mapping=job)
        client.zadd("bull:orders:failed", {f"o{n}": died_ms})


def thumbs_die(client: redis.Redis, number: int) -> None:
    """Failed jobs of RQ's queue ``thumbs``, run by a real worker."""
    queue = rq.Queue("thumbs", connection=client)
    for n in range(number):
        queue.enqueue(rq_tasks.fails, kwargs={"what": f"thumb {n}"}, job_id=f"t{n}")
    SimpleWorker([queue], connection=client).work(burst=True, logging_level="CRITICAL")


def fleet(client: redis.Redis) -> None:
    cards_die(client, 90)
    orders_die(client, 12)
    thumbs_die(client, 3)
    mail_dies(client, "r1", 5)
    register_found(client)
