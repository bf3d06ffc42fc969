"""The demo's queues of every kind that redisq writes, with an hour of history."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.clock import Clock, FakeClock
from redisq_ops.core.model.entry import Delivery, Failure, Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet, Periodic
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue, ShardedRequestQueue
from redisq_ops.core.redis.operation import BlockingClient, Description, run, together

MINUTE_MS = 60_000
HISTORY_MINUTES = range(54, -1, -6)
"""minutes of history to create before now: enough for a chart of an hour"""
MAX_WAITING = 2_000
"""with so many waiting entries in a queue, the demo submits no more, to stay small"""

REFUSED = Failure("ConnectionError", "smtp.example.org:25 refused the connection")
NO_ANSWER = Failure("TimeoutError", "no answer from 203.0.113.7 within 10 s")
NO_MAILBOX = Failure("Reject", "550 mailbox user-4711@example.org does not exist")
NO_TEMPLATE = Failure("TemplateError", "'name' is undefined in welcome.html, line 12")
NO_SPACE = Failure("OSError", "[Errno 28] No space left on device: '/var/tmp/render-118.pdf'")
LIMITED = Failure("RateLimited", "429 Too Many Requests, try again in 30 s")
BAD_CODEC = Failure("DecodeError", "frame 118 of 4020: invalid NAL unit size")
NO_RECORD = Failure("ActiveRecord::RecordNotFound", "Couldn't find Order with 'id'=991")


@dataclass(frozen=True, slots=True)
class SampleQueue:
    """A queue that the demo's producers and workers use."""

    name: str
    type: Any
    pace: int
    """entries a minute"""
    errors: tuple[Failure, ...] = ()
    """errors that some entries fail with"""
    options: tuple[tuple[str, Any], ...] = ()

    def open(self, client: BlockingClient, clock: Clock | None = None) -> Any:
        return self.type(client, self.name, clock=clock, **dict(self.options))


SAMPLES = (
    SampleQueue("audit-log", RequestQueue, 30),
    SampleQueue("billing", RequestQueue, 45, (NO_ANSWER,)),
    SampleQueue("crm-sync", RequestQueue, 20, (LIMITED, NO_ANSWER)),
    SampleQueue("image-thumbnails", RequestQueue, 120, (BAD_CODEC, NO_SPACE)),
    SampleQueue("invoices", RequestQueue, 12, (NO_TEMPLATE,)),
    SampleQueue("orders", ShardedRequestQueue, 60, (NO_ANSWER,), (("shards", 2),)),
    SampleQueue("pdf-render", RequestQueue, 18, (NO_SPACE, NO_TEMPLATE)),
    SampleQueue("search-index", RequestQueue, 90),
    SampleQueue("transcode", RequestQueue, 8, (BAD_CODEC,)),
    SampleQueue("push-devices", DelaySet, 60, (NO_ANSWER,)),
    SampleQueue("reminders", DelaySet, 40),
    SampleQueue("trial-expiry", DelaySet, 10),
    SampleQueue("api-calls", FairQueue, 80, (LIMITED,)),
    SampleQueue("sms", FairQueue, 25, (REFUSED, NO_MAILBOX)),
    SampleQueue("warehouse", FairQueue, 15),
    SampleQueue("feeds", CircularQueue, 30, (NO_ANSWER,)),
    SampleQueue("probes", CircularQueue, 60, (), (("residence", "rotate"),)),
    SampleQueue("carmine:emails", CarmineQueue, 20, (NO_MAILBOX, REFUSED)),
    SampleQueue("carmine:events", CarmineQueue, 35),
    SampleQueue("sidekiq:critical", SidekiqQueue, 20),
    SampleQueue("sidekiq:default", SidekiqQueue, 60, (NO_RECORD, LIMITED)),
    SampleQueue("sidekiq:mailers", SidekiqQueue, 15, (NO_MAILBOX,)),
    SampleQueue("resque:archive", ResqueQueue, 10, (NO_SPACE,)),
    SampleQueue("resque:reports", ResqueQueue, 6),
)
CLIENTS = ("acme", "globex", "hooli", "initech", "umbrella")
RESIZED_TO = 4
"""shards that `orders` gets while the demo runs"""


def submission(queue: Any, serial: int, n: int) -> Any:
    """Describes the submission of ``n`` entries; ``serial`` makes their ids unique."""
    label = f"{queue.name.rpartition(':')[2]}-{serial}"
    payloads = [
        json.dumps({"job": f"{label}-{k}", "region": ("eu", "us", "ap")[k % 3]}).encode()
        for k in range(1, n + 1)
    ]
    pairs = [(f"{label}-{k}", payload) for k, payload in enumerate(payloads, 1)]
    match queue:
        case RequestQueue():
            return queue.submit.op(payloads, id=label, priority=10 * (serial % 6), limit=100)
        case FairQueue():
            return queue.submit.op(CLIENTS[serial % len(CLIENTS)], pairs)
        case CircularQueue() if queue.shape.residence == "rotate":
            return queue.push.op([f"host-{k}" for k in range(1, 13)])
        case CircularQueue():
            return queue.push.op(pairs)
        case CarmineQueue():
            return queue.enqueue.op(pairs)
        case DelaySet():
            return queue.schedule.op(pairs)
        case _:
            arguments = [[label, k] for k in range(1, n + 1)]
            return queue.push.op([Job("SyncOrder", each) for each in arguments])


def settlement(delivery: Delivery, errors: Sequence[Failure], chance: float) -> Settlement:
    """How a delivery ends; ``chance``, from 0 to 1, decides whether it fails."""
    if errors and chance < 0.05:
        error = errors[int(chance * 1e6) % len(errors)]
        if chance < 0.01:
            return Settlement(delivery, "reject", error.encoded())
        return Settlement(delivery, "fail", error.encoded(), 5 + int(chance * 1e6) / 1000)
    return Settlement(delivery, "ack")


def worker_of(queue: Queue[Any]) -> str:
    """The name of the demo's worker of a queue."""
    return f"{queue.name.replace(':', '-')}-1:4021"


def create_samples(client: BlockingClient, now_ms: int, dice: random.Random) -> None:
    """Write all sample queues with their past hour; 40 round trips, for any number of queues."""
    clock = FakeClock(now_ms)
    queues = [(sample, sample.open(client, clock)) for sample in SAMPLES]
    delays = [queue for _, queue in queues if isinstance(queue, DelaySet)]
    for serial, minute in enumerate(HISTORY_MINUTES, 1):
        clock.now_ms = now_ms - minute * MINUTE_MS
        sizes = [max(1, int(sample.pace * dice.uniform(0.4, 1.6))) for sample, _ in queues]
        run(
            client,
            together(
                submission(queue, serial, size)
                for (_, queue), size in zip(queues, sizes, strict=True)
            ),
        )
        if serial == 1:
            run(client, together(_later(queue, now_ms, dice) for queue in delays))
        _work(client, queues, dice)
    clock.now_ms = now_ms
    run(client, together(submission(queue, 99, 4 + sample.pace // 3) for sample, queue in queues))
    run(client, together(_periodic(queue) for queue in delays if queue.name == "reminders"))


def _work(
    client: BlockingClient, queues: Sequence[tuple[SampleQueue, Queue[Any]]], dice: random.Random
) -> None:
    """Take what is due in each queue and settle it."""
    taken = run(
        client,
        together(
            queue.take.op(min(400, 2 * sample.pace + 20), consumer=worker_of(queue))
            for sample, queue in queues
        ),
    )
    run(
        client,
        together(
            queue.settle.op([settlement(d, sample.errors, dice.random()) for d in found.deliveries])
            for (sample, queue), found in zip(queues, taken, strict=True)
        ),
    )


def _later(queue: DelaySet[Any], now_ms: int, dice: random.Random) -> Description[Any]:
    """Delayed entries that become due one after the other, most of them soon."""
    times = [now_ms + 5_000 + int(dice.expovariate(1 / (20 * MINUTE_MS))) for _ in range(200)]
    return together(
        queue.schedule.op([(f"{queue.name}-later-{n}", b'{"remind": "call back"}')], at=at / 1000)
        for n, at in enumerate(times, 1)
    )


def _periodic(queue: DelaySet[Any]) -> Description[Any]:
    return together(
        queue.set_periodic.op(one)
        for one in (
            Periodic("digest", "*/5 * * * *", b"daily digest"),
            Periodic("invoice-run", "0 6 * * mon-fri", b"all customers", zone="Europe/Berlin"),
            Periodic("clean-up", "30 2 * * *", b"sessions"),
        )
    )
