"""A server that lost its data, all or only the registry, under programs that go on using a queue:
what is accepted afterwards is seen and worked on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis

from redisq_ops import (
    CarmineQueue,
    CircularQueue,
    DelaySet,
    FairQueue,
    RequestQueue,
    Settlement,
    ShardedCarmineQueue,
    ShardedCircularQueue,
    ShardedDelaySet,
    ShardedFairQueue,
    ShardedRequestQueue,
)
from redisq_ops.core.engine.queue_types import FOREIGN_CLASSES
from redisq_ops.core.engine.registry import all_queues
from redisq_ops.core.foreign.resque import ResqueQueue
from redisq_ops.core.foreign.ruby_jobs import Job
from redisq_ops.core.foreign.sidekiq import SidekiqQueue
from redisq_ops.core.model.errors import Refused
from redisq_ops.core.redis import operation
from redisq_ops.core.redis.operation import run
from redisq_ops.ops.deployment import Deployment

from ...command_line import Redisq

pytestmark = pytest.mark.alike

Submit = Callable[[Any, int], Any]
SUBMIT: dict[str, Submit] = {
    "request": lambda q, n: q.submit([b"x"], id=f"r{n}"),
    "delay": lambda q, n: q.schedule([(f"e{n}", b"x")]),
    "circular": lambda q, n: q.push(f"e{n}"),
    "fair": lambda q, n: q.submit("ann", [b"x"]),
    "carmine": lambda q, n: q.enqueue([(f"e{n}", b"x")]),
    "sidekiq": lambda q, n: q.push([Job("A")]),
    "resque": lambda q, n: q.push([Job("A", [n])]),
}
KINDS: dict[str, Any] = {
    "request": RequestQueue,
    "delay": DelaySet,
    "circular": CircularQueue,
    "fair": FairQueue,
    "carmine": CarmineQueue,
    "sidekiq": SidekiqQueue,
    "resque": ResqueQueue,
}
SHARDED: dict[str, Any] = {
    "request": ShardedRequestQueue,
    "delay": ShardedDelaySet,
    "circular": ShardedCircularQueue,
    "fair": ShardedFairQueue,
    "carmine": ShardedCarmineQueue,
}
CASES = [(kind, 0) for kind in KINDS] + [(kind, 3) for kind in SHARDED]


def opened(client: redis.Redis, kind: str, shards: int) -> Any:
    name = f"{kind}:q" if kind in FOREIGN_CLASSES else "q"
    if shards:
        return SHARDED[kind](client, name, shards=shards)
    return KINDS[kind](client, name)


def submit(queue: Any, n: int) -> None:
    SUBMIT[queue.kind](queue, n)


def finished(client: redis.Redis) -> int:
    """How many entries a worker that starts now finishes, in all queues that are registered."""
    done = 0
    for queue in run(client, Deployment(client).queues()):
        while taken := queue.take(10, consumer="w").deliveries:
            queue.settle([Settlement(each, "ack") for each in taken])
            done += len(taken)
    return done


@pytest.mark.parametrize(("kind", "shards"), CASES)
def test_what_is_accepted_after_a_loss_is_seen(
    client: redis.Redis, redisq: Redisq, kind: str, shards: int
) -> None:
    queue = opened(client, kind, shards)
    submit(queue, 0)
    client.flushall()
    for n in range(4):
        submit(queue, n)
    (row,) = redisq.rows("ls")
    assert (row["name"], row["kind"]) == (queue.name, kind)
    assert finished(client) == 4
    redisq("fsck")


@pytest.mark.parametrize(("kind", "shards"), CASES)
def test_a_loss_between_any_two_commands_hides_nothing(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch, kind: str, shards: int
) -> None:
    exchange, at, rounds = operation.exchange, 0, 0

    def losing(client: Any, calls: Any) -> Any:
        nonlocal rounds
        if rounds == at:
            client.flushall()
        rounds += 1
        return exchange(client, calls)

    while True:
        client.flushall()
        queue = opened(client, kind, shards)
        submit(queue, 0)
        client.flushall()
        with monkeypatch.context() as patch:
            patch.setattr(operation, "exchange", losing)
            rounds = 0
            for n in (1, 2):
                with suppress(Refused):  # "removed while it was being created"
                    submit(queue, n)
        if rounds <= at:
            break
        stored = queue.counts().waiting or 0
        names = [entry.name for entry in run(client, all_queues())]
        assert not stored or names == [queue.name], f"lost before round {at}: {stored} hidden"
        at += 1
    assert at > 2


def test_a_queue_that_is_destroyed_under_a_producer_is_created_again(
    client: redis.Redis, redisq: Redisq
) -> None:
    queue = RequestQueue(client, "mail")
    submit(queue, 0)
    redisq("queue", "rm", "mail", "--hard", "--yes")
    submit(queue, 1)
    assert [row["waiting"] for row in redisq.rows("ls")] == [1]
