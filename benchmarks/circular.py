"""Server time of the circular queue, per id, in batches of 100; beside the article's rotation while
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
FRESH = 100
WAITING = 100_000
PAYLOAD = b"x" * 100

# The article's consumer, one id a call: from the tail to the head, marked while it is worked on.
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


def fresh(queue: CircularQueue[redis.Redis]) -> None:
    """Find new ids, one a call, while many are being worked on."""
    for n in range(FRESH):
        queue.push(f"fresh{n}")
        while not (taken := queue.take(1, consumer="w")).deliveries:
            assert taken.more
        queue.settle([Settlement(delivery, "ack") for delivery in taken.deliveries])


def article_fresh(client: redis.Redis, rounds: int) -> None:
    take = client.register_script(_NEXT)
    for n in range(rounds):
        client.lpush("article", f"fresh{n}")
        while take(keys=["article"], args=[9]) != b"fresh%d" % n:
            pass
        client.lrem("article", 0, f"fresh{n}*9")


def figures(client: redis.Redis) -> dict[str, tuple[float, float]]:
    """One round: what -> µs per id, calls per id."""
    found: dict[str, tuple[float, float]] = {}

    def cost(name: str, entries: int, work: Callable[[], object]) -> None:
        us, calls = server_us(client, work)
        found[name] = us / entries, calls / entries

    cost("ids only: push, take, acknowledge", ENTRIES, lambda: cycle(CircularQueue(client, "a")))
    queue = CircularQueue(client, "b")
    cost("  push", ENTRIES, partial(put, queue, ENTRIES))
    cost("  take and acknowledge", ENTRIES, partial(work_off, queue))
    cost("with 100-byte payloads", ENTRIES, lambda: cycle(CircularQueue(client, "c"), PAYLOAD))
    turning = CircularQueue(client, "d", residence="rotate")
    cost("residence rotate", ENTRIES, lambda: cycle(turning))
    counted = CircularQueue(client, "e", repeats="each")
    cost("repeats each", ENTRIES, lambda: cycle(counted))
    for name, one in (("list", CircularQueue(client, "f")), ("rotate", turning)):
        put(one, HELD)
        while one.take(500, consumer="w").deliveries:
            pass
        cost(f"one at a time beside {HELD:,} at work: {name}", FRESH, partial(fresh, one))
    client.lpush("article", *(f"{id}*9" for id in names(0, HELD)))
    cost("  the article's script", 2, partial(article_fresh, client, 2))
    return found


def memory(client: redis.Redis, payload: bytes) -> float:
    """Bytes the server says that a waiting id takes, with all that is known of it."""
    empty(client)
    before = used(client)
    put(CircularQueue(client, "a"), WAITING, payload)
    return (used(client) - before) / WAITING


def main() -> None:
    with servers() as kinds:
        for name, client in kinds:
            rounds = []
            for _ in range(ROUNDS):
                empty(client)
                rounds.append(figures(client))
            print(name)
            for what in rounds[0]:
                us = spread([r[what][0] for r in rounds], "µs")
                print(f"  {what:44} {us}, {rounds[0][what][1]:.3f} calls")
            for payload in (b"", PAYLOAD):
                size = memory(client, payload)
                print(
                    f"  memory of a waiting id with {len(payload)} B: {size:.0f} B of {WAITING:,}"
                )


if __name__ == "__main__":
    main()
