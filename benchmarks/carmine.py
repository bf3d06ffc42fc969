"""Server time of the Carmine queue per message, in batches of 100 with 100-byte contents.

Compared with Carmine's own steps on the same keys, one message per step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from redisq_ops.core.model.entry import Settlement
from redisq_ops.core.queues.carmine import CarmineQueue, ShardedCarmineQueue

from .measure import ROUNDS, empty, server_us, servers, spread

ENTRIES = 20_000
BATCH = 100
CONTENT = b"x" * 100
PARTS = ("messages", "locks", "backoffs", "nattempts", "mid-circle", "done", "requeue")
KEYS = [f"carmine:mq:bare:{part}" for part in PARTS]

Parts = dict[str, Callable[[], object]]

# Carmine's steps for one message, here a hundred per call, so no round trips are counted.
_STEP_IN = """
for i = 1, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 0 then
    redis.call('HSET', KEYS[1], ARGV[i], string.rep('x', 100))
    if redis.call('EXISTS', KEYS[5]) == 0 then redis.call('LPUSH', KEYS[5], 'end-of-circle') end
    redis.call('LPUSH', KEYS[5], ARGV[i])
  end
end
"""
_STEP_OUT = """
local got = {}
for _ = 1, ARGV[1] do
  local id = redis.call('RPOPLPUSH', KEYS[5], KEYS[5])
  if id ~= 'end-of-circle' then
    local there = redis.call('HEXISTS', KEYS[1], id)
    local lock = tonumber(redis.call('HGET', KEYS[2], id)) or 0
    local backoff = tonumber(redis.call('HGET', KEYS[3], id)) or 0
    if redis.call('SISMEMBER', KEYS[6], id) == 1 then
      for k = 1, 4 do redis.call('HDEL', KEYS[k], id) end
      redis.call('SREM', KEYS[6], id)
      redis.call('LTRIM', KEYS[5], 1, -1)
    elseif there == 1 and lock == 0 and backoff == 0 then
      redis.call('HSET', KEYS[2], id, 1700000000000)
      redis.call('HINCRBY', KEYS[4], id, 1)
      got[#got + 1] = id
      got[#got + 1] = redis.call('HGET', KEYS[1], id)
    end
  end
end
return got
"""
_STEP_END = """
for i = 1, #ARGV do
  redis.call('SISMEMBER', KEYS[7], ARGV[i])
  redis.call('HDEL', KEYS[2], ARGV[i])
  redis.call('SADD', KEYS[6], ARGV[i])
end
"""


def single(client: redis.Redis) -> Parts:
    return parts_of(CarmineQueue(client, "carmine:q"))


def sharded(client: redis.Redis) -> Parts:
    queue = ShardedCarmineQueue(client, "carmine:q", shards=12)
    parts = parts_of(queue)
    return parts | {"enqueue anew": parts["enqueue"], "12 to 8": lambda: queue.resize(8)}


def parts_of(queue: CarmineQueue[redis.Redis]) -> Parts:
    def enqueue() -> None:
        for start in range(0, ENTRIES, BATCH):
            queue.enqueue([(f"e{n}", CONTENT) for n in range(start, start + BATCH)])

    def work_off() -> None:
        while taken := queue.take(BATCH, consumer="w").deliveries:
            queue.settle([Settlement(delivery, "ack") for delivery in taken])

    def remove_done() -> None:
        while queue.upkeep():
            pass

    return {"enqueue": enqueue, "take and acknowledge": work_off, "let go of the rest": remove_done}


def carmine_steps(client: redis.Redis) -> Parts:
    """The three parts in Carmine's steps; a message met a second time is removed."""
    put, take, done = map(client.register_script, (_STEP_IN, _STEP_OUT, _STEP_END))

    def enqueue() -> None:
        for start in range(0, ENTRIES, BATCH):
            put(keys=KEYS, args=[f"e{n}" for n in range(start, start + BATCH)])

    def work_off() -> None:
        left = ENTRIES
        while left > 0:
            got = take(keys=KEYS, args=[BATCH])
            if ids := got[::2]:
                done(keys=KEYS, args=ids)
            left -= len(ids)

    def remove_done() -> None:
        for _ in range(ENTRIES // BATCH + 1):
            take(keys=KEYS, args=[BATCH])

    return {"enqueue": enqueue, "take and acknowledge": work_off, "let go of the rest": remove_done}


def figures(client: redis.Redis) -> dict[str, float]:
    """One round: variant and part -> µs per message."""
    costs: dict[str, float] = {}
    variants: dict[str, Callable[[redis.Redis], Parts]] = {
        "ours": single,
        "12 shards": sharded,
        "Carmine's steps": carmine_steps,
    }
    for variant, make_parts in variants.items():
        empty(client)
        parts = {
            name: server_us(client, work)[0] / ENTRIES for name, work in make_parts(client).items()
        }
        costs |= {f"{variant}: {name}": cost for name, cost in parts.items()}
        costs[f"{variant}: all"] = sum(list(parts.values())[:3])
    return costs


def waiting_bytes(client: redis.Redis) -> float:
    """Bytes of memory per waiting message."""
    empty(client)
    info: Any = client.info("memory")
    single(client)["enqueue"]()
    full: Any = client.info("memory")
    return float(full["used_memory"] - info["used_memory"]) / ENTRIES


def main() -> None:
    with servers() as each:
        for name, client in each:
            rounds = [figures(client) for _ in range(ROUNDS)]
            print(f"{name}, {waiting_bytes(client):.0f} B per waiting message")
            for row in rounds[0]:
                print(f"  {row:40} {spread([r[row] for r in rounds], 'µs')}")
