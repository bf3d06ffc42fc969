"""The bare scripts beside which the benchmarks put ours: they do write what ours write."""

from typing import Any

import pytest
import redis

from benchmarks.baseline import BaselineQueue
from benchmarks.cost import BATCH, KINDS, batches
from redisq_ops.core.model.entry import Settlement

# Of many clients two entries each. Whom we know of is noted once, when they come: left out here.
CASES = {**dict.fromkeys(KINDS, 1), "fair queue, 200 clients": BATCH}
ONCE = (b"clients",)
Step = list[tuple[bytes, int, int]]


def written(client: redis.Redis) -> Step:
    """What has about a batch of members: type, how many, their bytes."""
    found = []
    some: Any = client
    for key in client.scan_iter(count=1000):
        kind: Any = client.type(key)
        if kind == b"string" or key.endswith(ONCE):
            continue
        held = {
            b"hash": lambda key: [word for row in some.hgetall(key).items() for word in row],
            b"list": lambda key: some.lrange(key, 0, -1),
            b"set": some.smembers,
            b"zset": lambda key: some.zrange(key, 0, -1),
            b"stream": lambda key: [word for _, row in some.xrange(key) for word in row.values()],
        }[kind](key)
        if len(held) > BATCH // 2:
            found.append((kind, round(len(held), -1), sum(map(len, held))))
    return sorted(found)


@pytest.mark.parametrize("kind", CASES)
def test_a_bare_queue_writes_after_each_step_what_ours_has(client: redis.Redis, kind: str) -> None:
    mine, clients = KINDS[kind], CASES[kind]
    two = batches(2 * BATCH)
    some = [list(pair) for pair in zip(*two, strict=True)] if clients > 1 else two

    def ours() -> list[Step]:
        queue = mine.make(client)
        mine.put(queue, some)
        steps = [written(client)]
        taken = queue.take(BATCH, consumer="w").deliveries
        steps.append(written(client))
        queue.settle([Settlement(delivery, "ack") for delivery in taken])
        return [*steps, written(client)]

    def bare() -> list[Step]:
        queue = BaselineQueue(client, mine.baseline)
        for nth, few in enumerate(some):
            queue.put(few, mine.payload, f"c{nth % mine.clients}")
        steps = [written(client)]
        taken = queue.take(BATCH)
        assert len(taken) == BATCH
        steps.append(written(client))
        queue.settle(taken)
        return [*steps, written(client)]

    found = ours()
    client.flushall()
    for step, (theirs, its) in enumerate(zip(found, bare(), strict=True)):
        assert [row[:2] for row in theirs] == [row[:2] for row in its], f"step {step}"
        for (type, _, size), (_, _, beside) in zip(theirs, its, strict=True):
            assert 0.75 < size / beside < 1.33, (step, type, size, beside)
