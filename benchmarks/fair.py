"""Fairness of the fair queue, and its memory; the server time of an entry is in `cost`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.fair import FairQueue

from .measure import empty, servers
from .memory import used

BATCH = 100
PAYLOAD = b"x" * 100
FLOOD, SMALL, EACH = 100_000, 50, 10


def jain(served: Mapping[str, float]) -> float:
    """Jain's index: 1 if all get the same, 1/n if one of n gets everything."""
    values = list(served.values())
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def served(client: redis.Redis, n: int) -> Counter[str]:
    """Entries per client among the next ``n``, in batches of 100."""
    queue = FairQueue(client, "bench")
    counts: Counter[str] = Counter()
    while counts.total() < n:
        taken = queue.take(min(BATCH, n - counts.total()), consumer="w").deliveries
        counts.update(delivery.client or "" for delivery in taken)
        queue.settle([Settlement(delivery, "ack") for delivery in taken])
    return counts


def flood(client: redis.Redis) -> tuple[float, float]:
    """One client with 100,000 entries and 50 with 10: the index while all have entries, and in the
    first batch."""
    queue = FairQueue(client, "bench")
    for _ in range(FLOOD // BATCH):
        queue.submit("flood", [PAYLOAD] * BATCH)
    for n in range(SMALL):
        queue.submit(f"small-{n}", [PAYLOAD] * EACH)
    first = served(client, SMALL + 1)
    rest = served(client, (SMALL + 1) * (EACH - 1))
    return jain(first + rest), jain(first)


def weighted(client: redis.Redis) -> tuple[Counter[str], float]:
    """Weights 3 and 1, both busy: entries of each among 400, and the index by weight."""
    queue = FairQueue(client, "bench")
    weights = {"three": 3, "one": 1}
    for name, weight in weights.items():
        queue.weigh(name, weight)
        for _ in range(4):
            queue.submit(name, [PAYLOAD] * BATCH)
    received = served(client, 400)
    return received, jain({name: received[name] / weight for name, weight in weights.items()})


def memory(client: redis.Redis, own_ids: bool) -> float:
    """Bytes of memory per waiting entry, of 100,000 by 50 clients."""
    base, queue = used(client), FairQueue(client, "bench")
    for low in range(0, FLOOD, BATCH):
        ids = range(low, low + BATCH)
        entries = [(f"e{n}", PAYLOAD) for n in ids] if own_ids else [PAYLOAD] * BATCH
        queue.submit(f"client-{low // BATCH % SMALL}", entries)
    return (used(client) - base) / FLOOD


def main() -> None:
    with servers() as each:
        for name, client in each:
            print(name)
            empty(client)
            index, first = flood(client)
            print(
                f"  Jain's index, 1 x {FLOOD:,} and {SMALL} x {EACH}: {index:.4f}"
                f" (of the first turn {first:.4f})"
            )
            empty(client)
            received, index = weighted(client)
            print(
                f"  weights 3:1, of 400: {received['three']}:{received['one']}, "
                f"index by weight {index:.4f}"
            )
            for own_ids, what in ((False, "26 characters"), (True, "six")):
                empty(client)
                size = memory(client, own_ids)
                print(f"  a waiting entry of 100 B with an id of {what}: {size:.0f} B")


if __name__ == "__main__":
    main()
