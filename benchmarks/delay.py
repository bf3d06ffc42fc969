"""Server time of the delay set per entry, in batches of 100 with 100-byte payloads."""

from __future__ import annotations

from collections.abc import Callable

import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.delay import DelaySet, Periodic, ShardedDelaySet
from redisq_ops.core.queues.request import RequestQueue

from .measure import ROUNDS, empty, server_us, servers, spread

ENTRIES = 20_000
BATCH = 100
PERIODIC = 100


def put(queue: DelaySet[redis.Redis]) -> None:
    for start in range(0, ENTRIES, BATCH):
        batch = [(f"e{n}", b"x" * 100) for n in range(start, start + BATCH)]
        queue.schedule(batch, at=0)


def work_off(queue: DelaySet[redis.Redis]) -> None:
    while taken := queue.take(BATCH, consumer="w").deliveries:
        queue.settle([Settlement(delivery, "ack") for delivery in taken])


def hand_over(
    source: DelaySet[redis.Redis], target: DelaySet[redis.Redis] | RequestQueue[redis.Redis]
) -> None:
    while source.hand_over(target).done:
        pass


def figures(client: redis.Redis) -> dict[str, float]:
    """One round: operation -> µs per entry."""
    costs: dict[str, float] = {}

    def cost(name: str, entries: int, work: Callable[[], object]) -> None:
        costs[name] = server_us(client, work)[0] / entries

    later, other = DelaySet(client, "later"), DelaySet(client, "other")
    twelve = ShardedDelaySet(client, "twelve")
    cost("schedule", ENTRIES, lambda: put(later))
    cost("take and acknowledge", ENTRIES, lambda: work_off(later))
    put(later)
    cost("hand over to a delay set", ENTRIES, lambda: hand_over(later, other))
    cost("to a request queue", ENTRIES, lambda: hand_over(other, RequestQueue(client, "mail")))
    cost("12 shards: schedule", ENTRIES, lambda: put(twelve))
    cost("12 shards: take and acknowledge", ENTRIES, lambda: work_off(twelve))
    put(twelve)
    cost("from 12 to 8 shards", ENTRIES, lambda: twelve.resize(8))
    for n in range(PERIODIC):
        later.set_periodic(Periodic(f"p{n}", "* * * * *"))
    client.zadd(later.keys["periodic_at"], {f"p{n}": 0 for n in range(PERIODIC)})
    cost("tick, per run", PERIODIC, later.tick)
    return costs


def main() -> None:
    with servers() as kinds:
        for name, client in kinds:
            rounds = []
            for _ in range(ROUNDS):
                empty(client)
                rounds.append(figures(client))
            print(name)
            for operation in rounds[0]:
                print(f"  {operation:32} {spread([r[operation] for r in rounds], 'µs')}")


if __name__ == "__main__":
    main()
