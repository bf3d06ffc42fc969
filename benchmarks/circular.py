"""Server time of the circular queue per id, in batches of 100; and of the article's rotation while
many ids are being worked on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.circular import CircularQueue

from .measure import ROUNDS, empty, server_us, servers, spread
from .memory import used

ENTRIES = 20_000
BATCH = 100
HELD = 5_000
NEW_IDS = 100
WAITING = 100_000
PAYLOAD = b"x" * 100

# The article's consumer, one id per call: moved from the tail to the head, and marked while worked
# on.
_NEXT = """
local item = redis.call('RPOP', KEYS[1])
if not item then return nil end
if item:find('*', 1, true) then
  redis.call('LPUSH', KEYS[1], item)
  return item
end
redis.call('LPUSH', KEYS[1], item .. '*' .. ARGV[1])
return item
"""


def names(start: int, count: int) -> list[str]:
    return [f"e{n}" for n in range(start, start + count)]


def put(queue: CircularQueue[redis.Redis], count: int, payload: bytes = b"") -> None:
    for start in range(0, count, BATCH):
        ids = names(start, BATCH)
        queue.push([(id, payload) for id in ids] if payload else ids)


def work_off(queue: CircularQueue[redis.Redis]) -> None:
    while (taken := queue.take(BATCH, consumer="w")).deliveries or taken.more:
        queue.settle([Settlement(delivery, "ack") for delivery in taken.deliveries])


def cycle(queue: CircularQueue[redis.Redis], payload: bytes = b"") -> None:
    put(queue, ENTRIES, payload)
    work_off(queue)


def find_new_ids(queue: CircularQueue[redis.Redis]) -> None:
    """Take new ids, one per call, while many others are being worked on."""
    for n in range(NEW_IDS):
        queue.push(f"fresh{n}")
        while not (taken := queue.take(1, consumer="w")).deliveries:
            assert taken.more
        queue.settle([Settlement(delivery, "ack") for delivery in taken.deliveries])


def article_find_new_ids(client: redis.Redis, rounds: int) -> None:
    take = client.register_script(_NEXT)
    for n in range(rounds):
        client.lpush("article", f"fresh{n}")
        while take(keys=["article"], args=[9]) != b"fresh%d" % n:
            pass
        client.lrem("article", 0, f"fresh{n}*9")


def figures(client: redis.Redis) -> dict[str, tuple[float, float]]:
    """One round: label -> µs per id, calls per id."""
    costs: dict[str, tuple[float, float]] = {}

    def cost(name: str, entries: int, work: Callable[[], object]) -> None:
        us, calls = server_us(client, work)
        costs[name] = us / entries, calls / entries

    cost("ids only: push, take, acknowledge", ENTRIES, lambda: cycle(CircularQueue(client, "a")))
    queue = CircularQueue(client, "b")
    cost("  push", ENTRIES, partial(put, queue, ENTRIES))
    cost("  take and acknowledge", ENTRIES, partial(work_off, queue))
    cost("with 100-byte payloads", ENTRIES, lambda: cycle(CircularQueue(client, "c"), PAYLOAD))
    rotating = CircularQueue(client, "d", residence="rotate")
    cost("residence rotate", ENTRIES, lambda: cycle(rotating))
    counted = CircularQueue(client, "e", repeats="each")
    cost("repeats each", ENTRIES, lambda: cycle(counted))
    for name, queue_variant in (("list", CircularQueue(client, "f")), ("rotate", rotating)):
        put(queue_variant, HELD)
        while queue_variant.take(500, consumer="w").deliveries:
            pass
        cost(
            f"one at a time beside {HELD:,} at work: {name}",
            NEW_IDS,
            partial(find_new_ids, queue_variant),
        )
    client.lpush("article", *(f"{id}*9" for id in names(0, HELD)))
    cost("  the article's script", 2, partial(article_find_new_ids, client, 2))
    return costs


def memory(client: redis.Redis, payload: bytes) -> float:
    """Bytes of memory per waiting id, with its metadata, as reported by the server."""
    empty(client)
    before = used(client)
    put(CircularQueue(client, "a"), WAITING, payload)
    return (used(client) - before) / WAITING


def main() -> None:
    with servers() as each:
        for name, client in each:
            rounds = []
            for _ in range(ROUNDS):
                empty(client)
                rounds.append(figures(client))
            print(name)
            for label in rounds[0]:
                us = spread([r[label][0] for r in rounds], "µs")
                print(f"  {label:44} {us}, {rounds[0][label][1]:.3f} calls")
            for payload in (b"", PAYLOAD):
                size = memory(client, payload)
                print(
                    f"  memory of a waiting id with {len(payload)} B: {size:.0f} B of {WAITING:,}"
                )


if __name__ == "__main__":
    main()
