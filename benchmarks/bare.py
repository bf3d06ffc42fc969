"""Bare queues: scripts that do the same writes as ours, a batch a call, and nothing else.

No fence, no guard against re-sending, no limits, weights or caps, no look at the types of keys, no
counts but that of what is done. `tests/test_bare.py` compares what both leave behind, step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

_NOW_MS = 1_700_000_000_000
RECORD = f"1234-5 0 0 {_NOW_MS} {_NOW_MS} w - - 0"
"""as long as a record of ours"""

# ARGV: a record, or '' for none; of `put` then the payload, the client, and ids; of `take` how
# many, and a number no other take had; of `settle` ids.
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
class Bare:
    """One kind: what each of its scripts does beside lease, record and the count of the done."""

    put: str
    take: str
    """up to `_TAKEN`: what finds ``ids``"""
    payloads: str = _BODIES
    """after it: what answers"""
    settle: str = ""


KINDS = {
    "request queue": Bare(
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
    "delay set": Bare(
        put="""
redis.call('HSET', 'b:body', unpack(valued(ids, ARGV[2])))
redis.call('ZADD', 'b:delay', unpack(scored(ids, 1)))""",
        take="""
local ids = redis.call('ZRANGE', 'b:delay', '-inf', 1700000000000, 'BYSCORE', 'LIMIT', 0, ARGV[2])
if #ids > 0 then redis.call('ZREM', 'b:delay', unpack(ids)) end""",
        settle="redis.call('HDEL', 'b:body', unpack(ids))",
    ),
    "circular queue": Bare(
        put="""
redis.call('HSET', 'b:body', unpack(valued(ids, ARGV[2])))
redis.call('LPUSH', 'b:list', unpack(ids))""",
        take="local ids = redis.call('RPOP', 'b:list', ARGV[2]) or {}",
        settle="redis.call('HDEL', 'b:body', unpack(ids))",
    ),
    "fair queue": Bare(
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
    # What is done stays in Carmine's circle until it comes by: a batch of it goes with each take.
    "carmine queue": Bare(
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
    # Jobs of a list are told apart by the ticket each gets when it is taken.
    "jobs": Bare(
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
}  # fmt: skip


class BareQueue:
    """A kind of `KINDS` at work. Without ``records`` it writes the least that kind can do with:
    nothing of who took an entry, when, and how often, or of how much each client has."""

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
        """The names of what was taken; the last takes may find nothing, and still do something."""
        self._takes += 1
        found: list[bytes] = self._take(args=[self._record, n, self._takes])[0]
        return found

    def settle(self, ids: Sequence[bytes]) -> None:
        self._settle(args=[self._record, *ids])
