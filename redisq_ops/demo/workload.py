"""The demo's queues, and its producers and workers, all in one process.

They make the same calls as real ones, so the dashboard shows the server's real state.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.engine.registry import server_ms
from redisq_ops.core.model.entry import Delivery, Failure, Settlement
from redisq_ops.core.model.errors import RedisqError
from redisq_ops.core.redis.client import connect
from redisq_ops.core.redis.operation import BlockingClient, Description, apart, run, together
from redisq_ops.core.worker.upkeep import UPKEEP_S
from redisq_ops.ops.deployment import Deployment

from .incidents import BAD_DEPLOY, GONE, INCIDENTS, UNREADABLE, Incident
from .other_programs import HEARTBEAT_S, beat, register_found, write_keys
from .sample_queues import (
    MAX_WAITING,
    RESIZED_TO,
    SAMPLES,
    create_samples,
    settlement,
    submission,
    worker_of,
)

TICK_S = 0.25
RESIZE_AT = 40
"""tick at which the number of shards of `orders` is changed"""


class Workload:
    """Producers and workers for the sample queues and for those of ``incidents``."""

    def __init__(
        self,
        client: BlockingClient,
        incidents: Collection[Incident],
        dice: random.Random,
        real: Collection[str] = (),
    ) -> None:
        """``real``: frameworks whose own workers run."""
        self.client = client
        self.real = real
        self.dice = dice
        self.samples = [(sample, sample.open(client)) for sample in SAMPLES]
        deployment = Deployment(client)
        names = [incident.queue for incident in incidents]
        self.incident_queues: list[Any] = [run(client, deployment.queue(name)) for name in names]
        self.version = "2.4"
        """of the worker of `webhooks`"""
        self._held: dict[str, list[Delivery]] = defaultdict(list)
        self._serial = int(time.time() * 10) % 1_000_000
        self._ticks = 0

    def tick(self) -> None:
        """A quarter of a second of work: three round trips, and now and then a few more."""
        self._ticks += 1
        self._serial += 1
        counts = self._run(queue.counts.op() for _, queue in self.samples)
        some = [
            (queue, size)
            for (sample, queue), counted in zip(self.samples, counts, strict=True)
            if counted is not None
            and counted.waiting < MAX_WAITING
            and (size := self._number(sample.pace * TICK_S / 60))
        ]
        self._run(submission(queue, self._serial, size) for queue, size in some)
        self._work(
            [
                (queue, sample.errors, self._number(1.1 * sample.pace * TICK_S / 60))
                for sample, queue in self.samples
            ]
        )
        self._work_on_incidents()
        if self._ticks % int(UPKEEP_S / TICK_S) == 1:  # runs periodic entries, among other things
            self._run(queue.upkeep.op() for _, queue in self.samples)
        if self._ticks >= RESIZE_AT:
            self._resize()
        if self._ticks % int(HEARTBEAT_S / TICK_S / 4) == 1:
            pipe = self.client.pipeline(transaction=False)
            beat(pipe, time.time_ns() // 1_000_000, self.real)
            pipe.execute()

    def _run(self, descriptions: Iterable[Description[Any]]) -> list[Any]:
        """Run these in one round trip; None for what failed, such as a queue that was destroyed."""
        found = run(self.client, together(map(apart, descriptions)))
        return [None if isinstance(each, Exception) else each for each in found]

    def _number(self, mean: float) -> int:
        """Random, ``mean`` on average."""
        whole = int(mean)
        return whole + (self.dice.random() < mean - whole)

    def _work(self, queues: list[tuple[Queue[Any], tuple[Failure, ...], int]]) -> None:
        """Settle the entries taken about a second ago, and take some more."""
        self._run(
            queue.settle.op(
                [
                    settlement(delivery, errors, self.dice.random())
                    for delivery in self._held.pop(queue.name)
                ]
            )
            for queue, errors, _ in queues
            if queue.name in self._held and self.dice.random() < TICK_S
        )
        busy = [(queue, size) for queue, _, size in queues if size]
        taken = self._run(queue.take.op(size, consumer=worker_of(queue)) for queue, size in busy)
        for (queue, _), found in zip(busy, taken, strict=True):
            self._held[queue.name] += found.deliveries if found else ()

    def _work_on_incidents(self) -> None:
        for queue in self.incident_queues:
            worker, n = worker_of(queue), 5
            if queue.name == "webhooks":
                # The demo's colleague rolls the deploy back as soon as the queue is paused.
                if self.version == "2.4" and queue.counts().paused is not None:
                    self.version = "2.3"
                worker = f"webhooks-{self.version}"
                if self._ticks % 20 == 0:
                    queue.schedule([(f"event-new-{self._serial}", b'{"event": "paid"}')])
            taken = queue.take(n, consumer=worker).deliveries
            queue.settle([self._outcome(queue.name, each) for each in taken])

    def _outcome(self, queue: str, delivery: Delivery) -> Settlement:
        id = delivery.id
        if queue == "webhooks" and id.startswith("gone-"):
            return Settlement(delivery, "reject", GONE.encoded())
        if queue == "webhooks" and self.version == "2.4":
            return Settlement(delivery, "reject", BAD_DEPLOY.encoded())
        if queue == "imports" and id.startswith("scan-"):
            return Settlement(delivery, "fail", UNREADABLE.encoded(), 900)
        return Settlement(delivery, "ack")

    def _resize(self) -> None:
        with suppress(RedisqError):  # refused during a transfer of its entries
            next(queue for _, queue in self.samples if queue.name == "orders").resize(RESIZED_TO)


def create_queues(
    client: BlockingClient,
    incidents: Collection[Incident],
    dice: random.Random,
    real: Collection[str] = (),
) -> None:
    """Fill an empty server with the demo's queues; takes less than a second.

    ``real``: frameworks that fill their queues themselves.
    """
    now_ms = run(client, server_ms())
    create_samples(client, now_ms, dice)
    write_keys(client, now_ms, real)
    for incident in incidents:
        incident.create(client, now_ms)
    register_found(client)


def main() -> None:
    """``python -m redisq_ops.demo.workload PID PORT FRAMEWORK,… INCIDENT…``, from `demonstration`.

    Writes a line when all queues are there. Ends with the process PID, which started it.
    """
    parent, port, real, *names = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    client = connect(f"redis://127.0.0.1:{int(port)}", "demo")
    incidents = [INCIDENTS[name] for name in names]
    create_queues(client, incidents, random.Random(), real.split(","))
    print("ready", flush=True)
    workload = Workload(client, incidents, random.Random(), real.split(","))
    while os.getppid() == int(parent):
        with suppress(RedisqError):  # the server restarts, or a queue was destroyed
            workload.tick()
        time.sleep(TICK_S)


if __name__ == "__main__":
    main()
