"""Server time of the fair queue per entry, in batches of 100 with 100-byte payloads; fairness."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import redis

from redisq_ops.core.fair import FairQueue
from redisq_ops.core.values import Settlement

from .measure import ROUNDS, empty, server_us, servers, spread
from .memory import used

ENTRIES = 20_000
BATCH = 100
PAYLOAD = b"x" * 100
FLOOD, SMALL, EACH = 100_000, 50, 10

# The same writes, turns included, without our guarantees: no fence, no re-send guard, no weights or
# caps, no counts, no records.
_BARE_SUBMIT = """
local ids, bodies = {}, {}
for i = 1, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
  bodies[i], bodies[i + 1] = ARGV[i], ARGV[i + 1]
end
redis.call('HSET', KEYS[2], unpack(bodies))
redis.call('RPUSH', KEYS[1], unpack(ids))
redis.call('ZADD', KEYS[3], 'NX', 0, KEYS[1])
"""
_BARE_TAKE = """
local ids, turns, gone, put, owned = {}, {}, {}, {}, {}
local ring = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
local each = math.ceil(ARGV[1] / (#ring / 2))
for i = 1, #ring, 2 do
  local got = redis.call('LPOP', ring[i], each) or {}
  for _, id in ipairs(got) do
    ids[#ids + 1] = id
    put[2 * #ids - 1], put[2 * #ids] = ARGV[2], id
    owned[2 * #ids - 1], owned[2 * #ids] = id, ring[i]
  end
  if #got == each then
    turns[#turns + 1], turns[#turns + 2] = ring[i + 1] + #got, ring[i]
  else
    gone[#gone + 1] = ring[i]
  end
end
if #turns > 0 then redis.call('ZADD', KEYS[1], unpack(turns)) end
if #gone > 0 then redis.call('ZREM', KEYS[1], unpack(gone)) end
if #ids == 0 then return {} end
redis.call('ZADD', KEYS[3], unpack(put))
redis.call('HSET', KEYS[4], unpack(owned))
return {ids, redis.call('HMGET', KEYS[2], unpack(ids))}
"""
_BARE_SETTLE = """
redis.call('ZREM', KEYS[2], unpack(ARGV))
redis.call('HDEL', KEYS[1], unpack(ARGV))
redis.call('HDEL', KEYS[4], unpack(ARGV))
redis.call('HINCRBY', KEYS[3], 'done', #ARGV)
"""


def batches(clients: int) -> list[tuple[str, list[tuple[str, bytes]]]]:
    """What each round submits: (client, entries), every client a batch in turn."""
    return [
        (f"client-{n % clients}", [(f"e{n}-{i}", PAYLOAD) for i in range(BATCH)])
        for n in range(ENTRIES // BATCH)
    ]


def ours(client: redis.Redis, clients: int) -> None:
    queue = FairQueue(client, "bench")
    for name, entries in batches(clients):
        queue.submit(name, entries)
    taken = queue.take(BATCH, consumer="w").deliveries
    while taken:
        done = [Settlement(delivery, "ack") for delivery in taken]
        taken = queue.turn(done, BATCH, consumer="w")[1].deliveries


def bare(client: redis.Redis, clients: int) -> None:
    submit, take, settle = map(client.register_script, (_BARE_SUBMIT, _BARE_TAKE, _BARE_SETTLE))
    for name, entries in batches(clients):
        args: list[Any] = [word for entry in entries for word in entry]
        submit(keys=[f"bare:c:{name}", "bare:b", "bare:ring"], args=args)
    while client.zcard("bare:ring"):
        rows = take(keys=["bare:ring", "bare:b", "bare:l", "bare:o"], args=[BATCH, 1])
        if rows:
            settle(keys=["bare:b", "bare:l", "bare:n", "bare:o"], args=rows[0])


def jain(served: Mapping[str, float]) -> float:
    """Jain's index of what each got: 1 when all got the same, 1/n when one got everything."""
    values = list(served.values())
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def served(client: redis.Redis, n: int) -> Counter[str]:
    """How many of the next ``n`` entries each client gets, in batches of 100."""
    queue = FairQueue(client, "bench")
    found: Counter[str] = Counter()
    while found.total() < n:
        taken = queue.take(min(BATCH, n - found.total()), consumer="w").deliveries
        found.update(delivery.client or "" for delivery in taken)
        queue.settle([Settlement(delivery, "ack") for delivery in taken])
    return found


def flood(client: redis.Redis) -> tuple[float, float]:
    """One client of 100,000 and 50 of 10: the index over the time all have work, and in the first
    batch."""
    queue = FairQueue(client, "bench")
    for _ in range(FLOOD // BATCH):
        queue.submit("flood", [PAYLOAD] * BATCH)
    for n in range(SMALL):
        queue.submit(f"small-{n}", [PAYLOAD] * EACH)
    first = served(client, SMALL + 1)
    rest = served(client, (SMALL + 1) * (EACH - 1))
    return jain(first + rest), jain(first)


def weighted(client: redis.Redis) -> tuple[Counter[str], float]:
    """Weights 3 and 1, both busy: what each got of 400, and the index of that by weight."""
    queue = FairQueue(client, "bench")
    weights = {"three": 3, "one": 1}
    for name, weight in weights.items():
        queue.weigh(name, weight)
        for _ in range(4):
            queue.submit(name, [PAYLOAD] * BATCH)
    got = served(client, 400)
    return got, jain({name: got[name] / weight for name, weight in weights.items()})


def memory(client: redis.Redis, own_ids: bool) -> float:
    """Bytes of used_memory per waiting entry, of 100,000 of 50 clients."""
    base, queue = used(client), FairQueue(client, "bench")
    for low in range(0, FLOOD, BATCH):
        ids = range(low, low + BATCH)
        entries = [(f"e{n}", PAYLOAD) for n in ids] if own_ids else [PAYLOAD] * BATCH
        queue.submit(f"client-{low // BATCH % SMALL}", entries)
    return (used(client) - base) / FLOOD


def main() -> None:
    with servers() as each:
        for name, client in each:
            print(f"{name}, {ENTRIES:,} entries of {len(PAYLOAD)} B, submit + take + settle:")
            for clients in (1, 50, 200):
                mine, plain, trips = [], [], []
                for _ in range(ROUNDS):
                    empty(client)
                    us, calls = server_us(client, partial(ours, client, clients))
                    mine.append(us / ENTRIES)
                    trips.append(calls / ENTRIES)
                    empty(client)
                    us, _ = server_us(client, partial(bare, client, clients))
                    plain.append(us / ENTRIES)
                ratio = statistics.median(a / b for a, b in zip(mine, plain, strict=True))
                print(f"  {clients} clients: {spread(mine, 'µs server time per entry')}")
                print(f"    bare script: {spread(plain, 'µs')}, ours / bare {ratio:.2f}")
                print(f"    script calls per entry: {max(trips):.3f}")
            empty(client)
            index, first = flood(client)
            print(f"  Jain's index, 1 x {FLOOD:,} and {SMALL} x {EACH}: {index:.4f}"
                  f" (of the first turn {first:.4f})")  # fmt: skip
            empty(client)
            got, index = weighted(client)
            print(
                f"  weights 3:1, of 400: {got['three']}:{got['one']}, index by weight {index:.4f}"
            )
            for own_ids, what in ((False, "26 characters"), (True, "six")):
                empty(client)
                size = memory(client, own_ids)
                print(f"  a waiting entry of 100 B with an id of {what}: {size:.0f} B")


if __name__ == "__main__":
    main()
