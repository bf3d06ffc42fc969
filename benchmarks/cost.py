"""Server time per entry over submit + take + settle in batches of 100, beside a bare script."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import redis

from redisq_ops.core.delay import DelaySet
from redisq_ops.core.queue import Queue
from redisq_ops.core.request import RequestQueue
from redisq_ops.core.values import Settlement

from .measure import ROUNDS, server_us, servers, spread

ENTRIES = 20_000
BATCH = 100
PAYLOAD = b"x" * 100

# The same writes without our guarantees: no fence, no re-send guard, no limits, no counts.
_BARE_SUBMIT = """
for i = 1, #ARGV do redis.call('XADD', KEYS[1], '*', 'r', ARGV[i]) end
"""
_BARE_TAKE = """
local read = redis.call('XREADGROUP', 'GROUP', 'g', 'w', 'COUNT', ARGV[1], 'STREAMS', KEYS[1], '>')
if not read then return {} end
local put = {}
for _, entry in ipairs(read[1][2]) do
  put[#put + 1] = ARGV[2]
  put[#put + 1] = entry[1]
end
redis.call('ZADD', KEYS[2], unpack(put))
return read[1][2]
"""
_BARE_SETTLE = """
redis.call('XACK', KEYS[1], 'g', unpack(ARGV))
redis.call('XDEL', KEYS[1], unpack(ARGV))
redis.call('ZREM', KEYS[2], unpack(ARGV))
redis.call('HINCRBY', KEYS[3], 'done', #ARGV)
"""
_BARE_PUT = """
local put, bodies = {}, {}
for i = 1, #ARGV, 2 do
  put[i], put[i + 1] = 1, ARGV[i]
  bodies[i], bodies[i + 1] = ARGV[i], ARGV[i + 1]
end
redis.call('HSET', KEYS[2], unpack(bodies))
redis.call('ZADD', KEYS[1], unpack(put))
"""
_BARE_DUE = """
local ids = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[2], 'BYSCORE', 'LIMIT', 0, ARGV[1])
if #ids == 0 then return {} end
redis.call('ZREM', KEYS[1], unpack(ids))
local put = {}
for i, id in ipairs(ids) do put[2 * i - 1], put[2 * i] = ARGV[2], id end
redis.call('ZADD', KEYS[3], unpack(put))
return {ids, redis.call('HMGET', KEYS[2], unpack(ids))}
"""
_BARE_REMOVE = """
redis.call('ZREM', KEYS[2], unpack(ARGV))
redis.call('HDEL', KEYS[1], unpack(ARGV))
redis.call('HINCRBY', KEYS[3], 'done', #ARGV)
"""


def bare_requests(client: redis.Redis) -> None:
    client.xgroup_create("bare:s", "g", id="0", mkstream=True)
    submit, take, settle = map(client.register_script, (_BARE_SUBMIT, _BARE_TAKE, _BARE_SETTLE))
    for _ in range(ENTRIES // BATCH):
        submit(keys=["bare:s"], args=[PAYLOAD] * BATCH)
    while rows := take(keys=["bare:s", "bare:l"], args=[BATCH, 1]):
        settle(keys=["bare:s", "bare:l", "bare:n"], args=[id for id, _ in rows])


def bare_delays(client: redis.Redis) -> None:
    put, due, remove = map(client.register_script, (_BARE_PUT, _BARE_DUE, _BARE_REMOVE))
    for start in range(0, ENTRIES, BATCH):
        args: list[Any] = []
        for i in range(start, start + BATCH):
            args += [f"e{i}", PAYLOAD]
        put(keys=["bare:z", "bare:b"], args=args)
    while rows := due(keys=["bare:z", "bare:b", "bare:l"], args=[BATCH, 9]):
        remove(keys=["bare:b", "bare:l", "bare:n"], args=rows[0])


def our_requests(client: redis.Redis) -> None:
    queue = RequestQueue(client, "bench")
    queue.submit([PAYLOAD] * ENTRIES, id="r", limit=1000)
    _work(queue)


def our_delays(client: redis.Redis) -> None:
    queue = DelaySet(client, "bench")
    for start in range(0, ENTRIES, BATCH):
        queue.schedule([(f"e{i}", PAYLOAD) for i in range(start, start + BATCH)], after_ms=0)
    _work(queue)


def _work(queue: Queue[redis.Redis]) -> None:
    taken = queue.take(BATCH, consumer="w").deliveries
    while taken:
        done = [Settlement(delivery, "ack") for delivery in taken]
        taken = queue.turn(done, BATCH, consumer="w")[1].deliveries


def main() -> None:
    with servers() as each:
        for name, client in each:
            print(f"{name}, {ENTRIES:,} entries of {len(PAYLOAD)} B:")
            for what, ours, bare in (
                ("requests", our_requests, bare_requests),
                ("delay set", our_delays, bare_delays),
            ):
                mine, plain, loud, trips = [], [], [], []
                for _ in range(ROUNDS):
                    client.flushall()
                    us, calls = server_us(client, partial(ours, client))
                    mine.append(us / ENTRIES)
                    trips.append(calls / ENTRIES)
                    client.flushall()
                    us, _ = server_us(client, partial(bare, client))
                    plain.append(us / ENTRIES)
                    client.flushall()
                    client.hset("rq:{bench}:cfg", "history", "all")
                    us, _ = server_us(client, partial(ours, client))
                    loud.append(us / ENTRIES)
                ratio = statistics.median(a / b for a, b in zip(mine, plain, strict=True))
                print(f"  {what}: {spread(mine, 'us server time per entry')}")
                print(f"    bare script: {spread(plain, 'us')}, ours / bare {ratio:.2f}")
                print(f"    history level all: {spread(loud, 'us')}")
                print(f"    script calls per entry: {max(trips):.3f}")
