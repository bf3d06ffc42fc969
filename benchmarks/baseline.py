"""Baseline queues: scripts with the same writes as ours, a batch per call, and nothing else.

No fence, no guard against repeated calls, no limits, weights or caps, no type checks, no counters
but that of done entries. `tests/benchmarks/test_baseline.py` compares the data of both after each
step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

_NOW_MS = 1_700_000_000_000
RECORD = f"1234-5 0 0 {_NOW_MS} {_NOW_MS} w - - 0"
"""a record as long as ours"""

# ARGV: a record, or '' for none. `put`: then payload, client, ids. `take`: then the number of
# entries and a number unique to the call. `settle`: then ids.
_COMMON = """
local function valued(ids, value)
  local rows = {}
  for i, id in ipairs(ids) do rows[2 * i - 1], rows[2 * i] = id, value end
  return rows
end
local function scored(ids, score)
  local rows = {}
  for i, id in ipairs(ids) do rows[2 * i - 1], rows[2 * i] = score, id end
  return rows
end
"""
_TAKEN = """
if #ids == 0 then return {{}, {}} end
redis.call('ZADD', 'b:lease', unpack(scored(ids, 1700000060000)))
if ARGV[1] ~= '' then redis.call('HSET', 'b:meta', unpack(valued(ids, ARGV[1]))) end
"""
_SETTLED = """
redis.call('ZREM', 'b:lease', unpack(ids))
if ARGV[1] ~= '' then redis.call('HDEL', 'b:meta', unpack(ids)) end
redis.call('HINCRBY', 'b:stat', 'done', #ids)
"""
_BODIES = "\nreturn {ids, redis.call('HMGET', 'b:body', unpack(ids))}"


@dataclass(frozen=True, slots=True)
class BaselineScripts:
    """The scripts of one kind: what each does besides lease, record and the counter of done
    entries."""

    put: str
    take: str
    """the part before `_TAKEN`, which sets ``ids``"""
    payloads: str = _BODIES
    """the part after it, which returns the reply"""
    settle: str = ""


KINDS = {
    "request queue": BaselineScripts(
        put="""
local tokens = {}
for i, id in ipairs(ids) do
  redis.call('XADD', 'b:s', id:match('%d+') .. '-0', 'p', ARGV[2])
  tokens[i] = 'r-1'
end
redis.call('LPUSH', 'b:tokens', unpack(tokens))""",
        take="""
redis.call('RPOP', 'b:tokens', ARGV[2])
local read = redis.call('XREADGROUP', 'GROUP', 'g', 'w', 'COUNT', ARGV[2], 'STREAMS', 'b:s', '>')
local ids = {}
for i, entry in ipairs(read and read[1][2] or {}) do ids[i] = entry[1] end""",
        payloads="\nreturn {ids, read[1][2]}",
        settle="""
redis.call('XACK', 'b:s', 'g', unpack(ids))
redis.call('XDEL', 'b:s', unpack(ids))""",
    ),
    "delay set": BaselineScripts(
        put="""
redis.call('HSET', 'b:body', unpack(valued(ids, ARGV[2])))
redis.call('ZADD', 'b:delay', unpack(scored(ids, 1)))""",
        take="""
local ids = redis.call('ZRANGE', 'b:delay', '-inf', 1700000000000, 'BYSCORE', 'LIMIT', 0, ARGV[2])
if #ids > 0 then redis.call('ZREM', 'b:delay', unpack(ids)) end""",
        settle="redis.call('HDEL', 'b:body', unpack(ids))",
    ),
    "circular queue": BaselineScripts(
        put="""
redis.call('HSET', 'b:body', unpack(valued(ids, ARGV[2])))
redis.call('LPUSH', 'b:list', unpack(ids))""",
        take="local ids = redis.call('RPOP', 'b:list', ARGV[2]) or {}",
        settle="redis.call('HDEL', 'b:body', unpack(ids))",
    ),
    "fair queue": BaselineScripts(
        put="""
redis.call('HSET', 'b:body', unpack(valued(ids, ARGV[2])))
redis.call('RPUSH', 'b:c:' .. ARGV[3], unpack(ids))
redis.call('ZADD', 'b:ring', 'NX', 0, ARGV[3])
if ARGV[1] ~= '' then redis.call('HSET', 'b:accounts', ARGV[3], '100 0 0 0') end""",
        take="""
local ring = redis.call('ZRANGE', 'b:ring', 0, ARGV[2] - 1, 'WITHSCORES')
local ids, owned, accounts = {}, {}, {}
local turns, gone, each = {}, {}, math.ceil(2 * ARGV[2] / #ring)
for k = 1, #ring, 2 do
  accounts[k], accounts[k + 1] = ring[k], '100 1 12 27720'
  local got = redis.call('LPOP', 'b:c:' .. ring[k], each) or {}
  for _, id in ipairs(got) do
    ids[#ids + 1] = id
    owned[2 * #ids - 1], owned[2 * #ids] = id, ring[k]
  end
  if #got == each then
    turns[#turns + 1], turns[#turns + 2] = ring[k + 1] + #got, ring[k]
  else
    gone[#gone + 1] = ring[k]
  end
end
if #turns > 0 then redis.call('ZADD', 'b:ring', unpack(turns)) end
if #gone > 0 then redis.call('ZREM', 'b:ring', unpack(gone)) end
if #ids > 0 then
  redis.call('HSET', 'b:owner', unpack(owned))
  if ARGV[1] ~= '' then redis.call('HSET', 'b:accounts', unpack(accounts)) end
end""",
        settle="""
if ARGV[1] ~= '' then
  local accounts, seen = {}, {}
  for _, name in ipairs(redis.call('HMGET', 'b:owner', unpack(ids))) do
    if not seen[name] then
      accounts[#accounts + 1], accounts[#accounts + 2], seen[name] = name, '100 1 12 27720', true
    end
  end
  redis.call('HSET', 'b:accounts', unpack(accounts))
end
redis.call('HDEL', 'b:body', unpack(ids))
redis.call('HDEL', 'b:owner', unpack(ids))""",
    ),
    # Carmine keeps done messages in its circle until they come by: each take removes a batch of
    # them.
    "carmine queue": BaselineScripts(
        put="""
redis.call('HSET', 'b:messages', unpack(valued(ids, ARGV[2])))
redis.call('LPUSH', 'b:circle', unpack(ids))
redis.call('ZADD', 'b:delay', unpack(scored(ids, 1)))""",
        take="""
local last = redis.call('LRANGE', 'b:circle', -ARGV[2], -1)
if #last > 0 and redis.call('SMISMEMBER', 'b:done', unpack(last))[1] == 1 then
  redis.call('LTRIM', 'b:circle', 0, -#last - 1)
  redis.call('HDEL', 'b:messages', unpack(last))
  redis.call('HDEL', 'b:tries', unpack(last))
  redis.call('SREM', 'b:done', unpack(last))
end
local ids = redis.call('ZRANGE', 'b:delay', '-inf', 1700000000000, 'BYSCORE', 'LIMIT', 0, ARGV[2])
if #ids > 0 then
  redis.call('ZREM', 'b:delay', unpack(ids))
  redis.call('HSET', 'b:locks', unpack(valued(ids, 1700000060000)))
  redis.call('HSET', 'b:tries', unpack(valued(ids, 1)))
end""",
        payloads="\nreturn {ids, redis.call('HMGET', 'b:messages', unpack(ids))}",
        settle="""
redis.call('HDEL', 'b:locks', unpack(ids))
redis.call('SADD', 'b:done', unpack(ids))""",
    ),
    # Jobs of a list have no ids: each gets a ticket when it is taken.
    "jobs": BaselineScripts(
        put="""
local jobs = {}
for i = 1, #ids do jobs[i] = ARGV[2] end
redis.call('RPUSH', 'b:list', unpack(jobs))""",
        take="""
local jobs, ids, held = redis.call('LPOP', 'b:list', ARGV[2]) or {}, {}, {}
for i, job in ipairs(jobs) do
  ids[i] = i .. '-' .. ARGV[3]
  held[2 * i - 1], held[2 * i] = ids[i], job
end
if #ids > 0 then redis.call('HSET', 'b:body', unpack(held)) end""",
        payloads="\nreturn {ids, jobs}",
        settle="redis.call('HDEL', 'b:body', unpack(ids))",
    ),
}


class BaselineQueue:
    """A queue of one of `KINDS`. Without ``records`` it writes the minimum of that kind: not who
    took an entry, when and how often, nor how much each client has."""

    def __init__(self, client: redis.Redis, kind: str, records: bool = True) -> None:
        bare, load = KINDS[kind], client.register_script
        ids = "local ids = {unpack(ARGV, %d)}\n"
        self._put: Any = load(_COMMON + ids % 4 + bare.put)
        self._take: Any = load(_COMMON + bare.take + _TAKEN + bare.payloads)
        self._settle: Any = load(ids % 2 + bare.settle + _SETTLED)
        self._record, self._takes = RECORD if records else "", 0
        if kind == "request queue":
            client.xgroup_create("b:s", "g", id="0", mkstream=True)

    def put(self, ids: Sequence[str], payload: bytes, client: str = "") -> None:
        self._put(args=[self._record, payload, client, *ids])

    def take(self, n: int) -> list[bytes]:
        """Ids of the taken entries; the last calls may find none."""
        self._takes += 1
        found: list[bytes] = self._take(args=[self._record, n, self._takes])[0]
        return found

    def settle(self, ids: Sequence[bytes]) -> None:
        self._settle(args=[self._record, *ids])
