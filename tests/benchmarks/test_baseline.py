"""The baseline scripts of the benchmarks store what our queues store."""

from typing import Any

import pytest
import redis

from benchmarks.baseline import BaselineQueue
from benchmarks.cost import BATCH, KINDS, batches
from redisq_ops.core.model.entry import Settlement

# Two entries each of many clients. The clients' records, written once per client, are left out.
CASES = {**dict.fromkeys(KINDS, 1), "fair queue, 200 clients": BATCH}
ONCE = (b"clients",)
Step = list[tuple[bytes, int, int]]


def stored_sizes(client: redis.Redis) -> Step:
    """Keys with about a batch of members: type, number of members, their bytes."""
    found = []
    untyped: Any = client
    for key in client.scan_iter(count=1000):
        kind: Any = client.type(key)
        if kind == b"string" or key.endswith(ONCE):
            continue
        members = {
            b"hash": lambda key: [word for row in untyped.hgetall(key).items() for word in row],
            b"list": lambda key: untyped.lrange(key, 0, -1),
            b"set": untyped.smembers,
            b"zset": lambda key: untyped.zrange(key, 0, -1),
            b"stream": lambda key: [
                word for _, row in untyped.xrange(key) for word in row.values()
            ],
        }[kind](key)
        if len(members) > BATCH // 2:
            found.append((kind, round(len(members), -1), sum(map(len, members))))
    return sorted(found)


@pytest.mark.parametrize("kind", CASES)
def test_a_baseline_queue_stores_as_much_as_ours_after_each_step(
    client: redis.Redis, kind: str
) -> None:
    queue_kind, clients = KINDS[kind], CASES[kind]
    two = batches(2 * BATCH)
    ordered = [list(pair) for pair in zip(*two, strict=True)] if clients > 1 else two

    def measure_ours() -> list[Step]:
        queue = queue_kind.make(client)
        queue_kind.put(queue, ordered)
        steps = [stored_sizes(client)]
        taken = queue.take(BATCH, consumer="w").deliveries
        steps.append(stored_sizes(client))
        queue.settle([Settlement(delivery, "ack") for delivery in taken])
        return [*steps, stored_sizes(client)]

    def measure_baseline() -> list[Step]:
        queue = BaselineQueue(client, queue_kind.baseline)
        for nth, ids in enumerate(ordered):
            queue.put(ids, queue_kind.payload, f"c{nth % queue_kind.clients}")
        steps = [stored_sizes(client)]
        taken = queue.take(BATCH)
        assert len(taken) == BATCH
        steps.append(stored_sizes(client))
        queue.settle(taken)
        return [*steps, stored_sizes(client)]

    found = measure_ours()
    client.flushall()
    for step, (measured, baseline) in enumerate(zip(found, measure_baseline(), strict=True)):
        assert [row[:2] for row in measured] == [row[:2] for row in baseline], f"step {step}"
        for (type, _, size), (_, _, baseline_size) in zip(measured, baseline, strict=True):
            assert 0.75 < size / baseline_size < 1.33, (step, type, size, baseline_size)
