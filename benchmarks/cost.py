"""Server time per entry of put, take and settle in batches of 100, compared with baseline scripts.

*The same writes*: scripts that write what ours write, and do nothing else. *The least*: without
records of who took an entry, when, and how often.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue

from .baseline import BaselineQueue
from .measure import ROUNDS, empty, server_us, servers, spread

ENTRIES = 20_000
BATCH = 100
PAYLOAD = b"x" * 100
JOB = Job("HardJob", ["x" * 60])
STAMPS = {"created_at": 1795429959.171, "enqueued_at": 1795429959.171}
AIM = 1.6


@dataclass(frozen=True, slots=True)
class MeasuredQueue:
    """A queue of ours, how batches of ids are put into it, and its baseline."""

    baseline: str
    make: Callable[[redis.Redis], Queue[redis.Redis]]
    put: Callable[[Any, list[list[str]]], None]
    clients: int = 1
    payload: bytes = PAYLOAD


def _each(put: Callable[[Any, int, list[str]], object]) -> Callable[[Any, list[list[str]]], None]:
    def put_all(queue: Any, batches: list[list[str]]) -> None:
        for nth, ids in enumerate(batches):
            put(queue, nth, ids)

    return put_all


def _with_payload(ids: list[str]) -> list[tuple[str, bytes]]:
    return [(id, PAYLOAD) for id in ids]


def _request(queue: RequestQueue[redis.Redis], batches: list[list[str]]) -> None:
    queue.submit([PAYLOAD] * sum(map(len, batches)), id="r", limit=1000)


def _fair(clients: int) -> MeasuredQueue:
    def put(queue: FairQueue[redis.Redis], nth: int, ids: list[str]) -> None:
        queue.submit(f"c{nth % clients}", _with_payload(ids))

    return MeasuredQueue(
        "fair queue", lambda client: FairQueue(client, "bench"), _each(put), clients
    )


KINDS = {
    "request queue": MeasuredQueue(
        "request queue", lambda client: RequestQueue(client, "bench"), _request
    ),
    "delay set": MeasuredQueue(
        "delay set",
        lambda client: DelaySet(client, "bench"),
        _each(lambda queue, nth, ids: queue.schedule(_with_payload(ids), after=0)),
    ),
    "circular queue": MeasuredQueue(
        "circular queue",
        lambda client: CircularQueue(client, "bench"),
        _each(lambda queue, nth, ids: queue.push(_with_payload(ids))),
    ),
    "fair queue, 1 client": _fair(1),
    "fair queue, 50 clients": _fair(50),
    "fair queue, 200 clients": _fair(200),
    "carmine queue": MeasuredQueue(
        "carmine queue",
        lambda client: CarmineQueue(client, "carmine:bench"),
        _each(lambda queue, nth, ids: queue.enqueue(_with_payload(ids))),
    ),
    "resque": MeasuredQueue(
        "jobs",
        lambda client: ResqueQueue(client, "resque:bench"),
        _each(lambda queue, nth, ids: queue.push([JOB] * len(ids))),
        payload=JOB.encoded(),
    ),
    "sidekiq": MeasuredQueue(
        "jobs",
        lambda client: SidekiqQueue(client, "sidekiq:bench"),
        _each(lambda queue, nth, ids: queue.push([JOB] * len(ids))),
        payload=JOB.encoded(retry=True, queue="bench", jid="6d23abb5746a6e5b7fb82882", **STAMPS),
    ),
}


def batches(entries: int) -> list[list[str]]:
    return [[f"e{low + n}" for n in range(BATCH)] for low in range(1, entries, BATCH)]


def measured(client: redis.Redis, kind: str) -> None:
    queue = KINDS[kind].make(client)
    KINDS[kind].put(queue, batches(ENTRIES))
    taken = queue.take(BATCH, consumer="w").deliveries
    while taken:
        done = [Settlement(delivery, "ack") for delivery in taken]
        taken = queue.settle_and_take(done, BATCH, consumer="w")[1].deliveries


def baseline(client: redis.Redis, kind: str, records: bool) -> None:
    queue_kind = KINDS[kind]
    queue = BaselineQueue(client, queue_kind.baseline, records)
    for nth, ids in enumerate(batches(ENTRIES)):
        queue.put(ids, queue_kind.payload, f"c{nth % queue_kind.clients}")
    while taken := queue.take(BATCH):
        queue.settle(taken)


def figures(client: redis.Redis, kind: str) -> dict[str, tuple[float, float]]:
    """One round: label -> µs and script calls per entry."""

    def cost(work: Callable[[], object], history: str = "ops") -> tuple[float, float]:
        empty(client)
        if history != "ops":
            client.hset(KINDS[kind].make(client).keys["cfg"], "history", history)
        us, calls = server_us(client, work)
        return us / ENTRIES, calls / ENTRIES

    return {
        "ours": cost(partial(measured, client, kind)),
        "the same writes": cost(partial(baseline, client, kind, True)),
        "the least": cost(partial(baseline, client, kind, False)),
        "history level all": cost(partial(measured, client, kind), "all"),
    }


def main() -> None:
    with servers() as each:
        for name, client in each:
            print(f"{name}, {ENTRIES:,} entries of {len(PAYLOAD)} B:", flush=True)
            for kind in KINDS:
                rounds = [figures(client, kind) for _ in range(ROUNDS)]
                calls = max(r["ours"][1] for r in rounds)
                print(f"  {kind}: {calls:.3f} script calls per entry")
                for label in rounds[0]:
                    us = spread([r[label][0] for r in rounds], "µs")
                    ratio = statistics.median(r["ours"][0] / r[label][0] for r in rounds)
                    ratio_text = f", ours / this {ratio:.2f}" if label.startswith("the ") else ""
                    print(f"    {label:18} {us}{ratio_text}")
            print(f"  aim: {AIM} x the same writes")
