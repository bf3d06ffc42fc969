"""A queue with very many entries in every state within seconds, by copying some real entries.

The originals got into their states by the queue's own operations, and each copy is complete: the
queue's `invariants()` hold before and after.
"""

from __future__ import annotations

from typing import Any

import redis

from redisq_ops.core.model.entry import Failure, Settlement
from redisq_ops.core.model.settings import PRIORITIES
from redisq_ops.core.queues.request import RequestQueue

BATCH = 500
DAY_MS = 24 * 3600 * 1000
PAYLOAD = b"x" * 100
ERROR = Failure("ValueError", "no such customer", "Traceback …").encoded()

# Copies of a request: record, stream, delayed list, tokens, and its entries, each a second later.
COPY = """
local base, rid, first, last = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local record, stream, later = base .. 'r:', base .. 's:', base .. 'later:'
local waiting, tok, gen, priority, total = unpack(
  redis.call('HMGET', record .. rid, 'waiting', 'tok', 'gen', 'priority', 'total'))
local listed, entries = {}, {}
for _, part in ipairs({'open', 'fin', 'retire'}) do
  listed[base .. part] = redis.call('ZSCORE', base .. part, rid) or nil
end
local ids = {}
for n = 1, total do ids[n] = rid .. '/' .. n end
local lines = redis.call('HMGET', base .. 'meta', unpack(ids))
local errors = redis.call('HMGET', base .. 'err', unpack(ids))
for _, part in ipairs({'lease', 'delay', 'dead'}) do
  for n, at in ipairs(redis.call('ZMSCORE', base .. part, unpack(ids))) do
    if at then entries[#entries + 1] = {part, '/' .. n, at, lines[n], errors[n]} end
  end
end
for copy = first, last do
  local new, puts = rid .. '-' .. copy, {lease = {}, delay = {}, dead = {}, meta = {}, err = {}}
  local function put(part, one, other)
    local list = puts[part]
    list[#list + 1], list[#list + 2] = one, other
  end
  redis.call('COPY', record .. rid, record .. new)
  redis.call('COPY', stream .. rid, stream .. new)
  redis.call('COPY', later .. rid, later .. new)
  for key, at in pairs(listed) do redis.call('ZADD', key, at, new) end
  for _ = 1, tok do redis.call('LPUSH', base .. 'p:' .. priority, new .. '|' .. gen) end
  for _, entry in ipairs(entries) do
    local id = new .. entry[2]
    put(entry[1], entry[3] + (entry[1] == 'dead' and -1000 or 1000) * copy, id)
    put('meta', id, entry[4])
    if entry[5] then put('err', id, entry[5]) end
  end
  for part, rows in pairs(puts) do
    local hash = part == 'meta' or part == 'err'
    if #rows > 0 then redis.call(hash and 'HSET' or 'ZADD', base .. part, unpack(rows)) end
  end
end
redis.call('HINCRBY', base .. 'stat', 'waiting', waiting * (last - first + 1))
"""


def seed(queue: RequestQueue[redis.Redis]) -> None:
    """A waiting request of each priority, and `BATCH` pending, delayed and dead entries each."""
    for state in ("pending", "delayed", "dead"):
        queue.submit([PAYLOAD] * BATCH, id=state, limit=1000)
        taken = queue.take(BATCH, consumer="worker-1", lease=DAY_MS / 1000).deliveries
        if state == "delayed":
            queue.settle([Settlement(delivery, "fail", ERROR, DAY_MS / 1000) for delivery in taken])
        if state == "dead":
            queue.settle([Settlement(delivery, "reject", ERROR) for delivery in taken])
    for priority in range(PRIORITIES):
        queue.submit([PAYLOAD], id=f"waiting-{priority}", priority=priority)


def grow(queue: RequestQueue[redis.Redis], entries: int) -> None:
    """Grow what `seed` or `grow` made to ``entries`` in each state.

    Each waiting entry is a request of its own; the others are `BATCH` per request.
    """
    client: Any = queue.client
    copy, counts = client.register_script(COPY), queue.counts()

    def copies(rid: str, have: int, want: int, step: int) -> None:
        for first in range(have, want, step):
            copy(keys=[queue.keys.base], args=[rid, first, min(first + step, want) - 1])

    for state in ("pending", "delayed", "dead"):
        copies(state, getattr(counts, state) // BATCH, entries // BATCH, 10)
    for priority in range(PRIORITIES):
        have = counts.waiting // PRIORITIES
        copies(f"waiting-{priority}", have, entries // PRIORITIES, BATCH)
