"""Server time per entry over put + take + settle in batches of 100, beside bare scripts.

*The same writes*: scripts that write what ours write, and do nothing else. *The least*: without
records, so that nobody knows who took an entry, when, and how often.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis

from redisq_ops.core.engine.queue import Queue
from redisq_ops.core.foreign.resque import Job, ResqueQueue, SidekiqQueue
from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.carmine import CarmineQueue
from redisq_ops.core.queues.circular import CircularQueue
from redisq_ops.core.queues.delay import DelaySet
from redisq_ops.core.queues.fair import FairQueue
from redisq_ops.core.queues.request import RequestQueue

from .bare import BareQueue
from .measure import ROUNDS, empty, server_us, servers, spread

ENTRIES = 20_000
BATCH = 100
PAYLOAD = b"x" * 100
JOB = Job("HardJob", ["x" * 60])
STAMPS = {"created_at": 1795429959.171, "enqueued_at": 1795429959.171}
AIM = 1.6


@dataclass(frozen=True, slots=True)
class Ours:
    """A queue of ours, how batches of ids are put into it, and the bare one beside it."""

    bare: str
    made: Callable[[redis.Redis], Queue[redis.Redis]]
    put: Callable[[Any, list[list[str]]], None]
    clients: int = 1
    payload: bytes = PAYLOAD


def _each(put: Callable[[Any, int, list[str]], object]) -> Callable[[Any, list[list[str]]], None]:
    def all_of_them(queue: Any, batches: list[list[str]]) -> None:
        for nth, ids in enumerate(batches):
            put(queue, nth, ids)

    return all_of_them


def _paid(ids: list[str]) -> list[tuple[str, bytes]]:
    return [(id, PAYLOAD) for id in ids]


def _request(queue: RequestQueue[redis.Redis], batches: list[list[str]]) -> None:
    queue.submit([PAYLOAD] * sum(map(len, batches)), id="r", limit=1000)


def _fair(clients: int) -> Ours:
    def put(queue: FairQueue[redis.Redis], nth: int, ids: list[str]) -> None:
        queue.submit(f"c{nth % clients}", _paid(ids))

    return Ours("fair queue", lambda client: FairQueue(client, "bench"), _each(put), clients)


KINDS = {
    "request queue": Ours("request queue", lambda client: RequestQueue(client, "bench"), _request),
    "delay set": Ours(
        "delay set",
        lambda client: DelaySet(client, "bench"),
        _each(lambda queue, nth, ids: queue.schedule(_paid(ids), after_ms=0)),
    ),
    "circular queue": Ours(
        "circular queue",
        lambda client: CircularQueue(client, "bench"),
        _each(lambda queue, nth, ids: queue.push(_paid(ids))),
    ),
    "fair queue, 1 client": _fair(1),
    "fair queue, 50 clients": _fair(50),
    "fair queue, 200 clients": _fair(200),
    "carmine queue": Ours(
        "carmine queue",
        lambda client: CarmineQueue(client, "carmine:bench"),
        _each(lambda queue, nth, ids: queue.enqueue(_paid(ids))),
    ),
    "resque": Ours(
        "jobs",
        lambda client: ResqueQueue(client, "resque:bench"),
        _each(lambda queue, nth, ids: queue.push([JOB] * len(ids))),
        payload=JOB.encoded(),
    ),
    "sidekiq": Ours(
        "jobs",
        lambda client: SidekiqQueue(client, "sidekiq:bench"),
        _each(lambda queue, nth, ids: queue.push([JOB] * len(ids))),
        payload=JOB.encoded(retry=True, queue="bench", jid="6d23abb5746a6e5b7fb82882", **STAMPS),
    ),
}


def batches(entries: int) -> list[list[str]]:
    return [[f"e{low + n}" for n in range(BATCH)] for low in range(1, entries, BATCH)]


def ours(client: redis.Redis, kind: str) -> None:
    queue = KINDS[kind].made(client)
    KINDS[kind].put(queue, batches(ENTRIES))
    taken = queue.take(BATCH, consumer="w").deliveries
    while taken:
        done = [Settlement(delivery, "ack") for delivery in taken]
        taken = queue.settle_and_take(done, BATCH, consumer="w")[1].deliveries


def bare(client: redis.Redis, kind: str, records: bool) -> None:
    mine = KINDS[kind]
    queue = BareQueue(client, mine.bare, records)
    for nth, ids in enumerate(batches(ENTRIES)):
        queue.put(ids, mine.payload, f"c{nth % mine.clients}")
    while taken := queue.take(BATCH):
        queue.settle(taken)


def figures(client: redis.Redis, kind: str) -> dict[str, tuple[float, float]]:
    """One round: whose -> µs and script calls per entry."""

    def cost(work: Callable[[], object], history: str = "ops") -> tuple[float, float]:
        empty(client)
        if history != "ops":
            client.hset(KINDS[kind].made(client).keys["cfg"], "history", history)
        us, calls = server_us(client, work)
        return us / ENTRIES, calls / ENTRIES

    return {
        "ours": cost(partial(ours, client, kind)),
        "the same writes": cost(partial(bare, client, kind, True)),
        "the least": cost(partial(bare, client, kind, False)),
        "history level all": cost(partial(ours, client, kind), "all"),
    }


def main() -> None:
    with servers() as each:
        for name, client in each:
            print(f"{name}, {ENTRIES:,} entries of {len(PAYLOAD)} B:", flush=True)
            for kind in KINDS:
                rounds = [figures(client, kind) for _ in range(ROUNDS)]
                calls = max(r["ours"][1] for r in rounds)
                print(f"  {kind}: {calls:.3f} script calls per entry")
                for whose in rounds[0]:
                    us = spread([r[whose][0] for r in rounds], "µs")
                    ratio = statistics.median(r["ours"][0] / r[whose][0] for r in rounds)
                    beside = f", ours / this {ratio:.2f}" if whose.startswith("the ") else ""
                    print(f"    {whose:18} {us}{beside}")
            print(f"  aim: {AIM} x the same writes")
