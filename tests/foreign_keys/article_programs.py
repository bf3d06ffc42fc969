"""The articles' own programs, as far as they fill the layouts that redisq reads: `raw-request`,
`raw-circular`, `raw-delay` and `raw-fair`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import redis

INSERT = """
local stream = 'sub:{' .. KEYS[1] .. '}'
redis.call('SET', 'counter:{' .. KEYS[1] .. '}', #ARGV)
redis.call('XADD', stream, '*', 'req', '0')
redis.call('XTRIM', stream, 'MAXLEN', '0')
redis.call('XGROUP', 'CREATE', stream, stream, '$')
for _, sub in ipairs(ARGV) do redis.call('XADD', stream, '*', 'req', sub) end
"""
TOKENS = "for i = 1, ARGV[2] do redis.call('LPUSH', KEYS[1], ARGV[1]) end"
DONE = """
local stream, counter = 'sub:{' .. KEYS[1] .. '}', 'counter:{' .. KEYS[1] .. '}'
if redis.call('DECR', counter) == 0 then
  redis.call('XGROUP', 'DESTROY', stream, stream)
  redis.call('DEL', stream)
  redis.call('DEL', counter)
  redis.call('PUBLISH', KEYS[1], '1')
else
  redis.call('XACK', stream, stream, ARGV[1])
end
"""
NEXT = """
local item = redis.call('RPOP', KEYS[1])
if not item then return nil end
if item:find('*', 1, true) then
  redis.call('LPUSH', KEYS[1], item)
  return item
end
redis.call('LPUSH', KEYS[1], item .. '*' .. ARGV[1])
return item
"""
DEQUEUE = """
local from, most, new, batch = KEYS[1], ARGV[1], ARGV[2] or 0.0, ARGV[3]
local items = redis.call('ZRANGE', from, '-inf', most, 'BYSCORE', 'LIMIT', 0, batch)
for _, item in ipairs(items) do redis.call('ZADD', from, 'XX', new, item) end
return items
"""


class RequestArticle:
    """Article 000: what its producer and worker do, command by command."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client

    def insert(self, id: str, subs: Iterable[str]) -> None:
        self.client.eval(INSERT, 1, id, *subs)

    def tokens(self, id: str, limit: object, priority: int = 0) -> None:
        self.client.eval(TOKENS, 1, f"{{req}}:{priority}", id, str(limit))

    def submit(self, id: str, subs: Iterable[str], limit: int, priority: int = 0) -> None:
        self.insert(id, subs)
        self.tokens(id, limit, priority)

    def pop(self) -> tuple[str, str] | None:
        """A token: its list and the request's id."""
        found = self.client.brpop([f"{{req}}:{p}" for p in range(100)], 0.01)
        return (found[0].decode(), found[1].decode()) if found else None

    def read(self, id: str, worker: str) -> tuple[str, bytes] | None:
        stream = f"sub:{{{id}}}"
        reply = self.client.execute_command(
            *("XREADGROUP", "GROUP", stream, worker, "COUNT", 1, "STREAMS", stream, ">")
        )
        if not reply:
            return None
        entry, fields = next(iter(reply.values()))[0][0]
        return entry.decode(), fields[b"req"]

    def done(self, id: str, entry: str) -> None:
        self.client.eval(DONE, 1, id, entry)

    def give_back(self, token: tuple[str, str]) -> None:
        self.client.lpush(*token)


class CircularArticle:
    """Article 002; times are a client's, in seconds."""

    def __init__(self, client: redis.Redis, key: str = "queue") -> None:
        self.client: Any = client
        self.key = key

    def push(self, *ids: str) -> None:
        self.client.lpush(self.key, *ids)

    def next(self, now: int) -> str | None:
        found = self.client.eval(NEXT, 1, self.key, now)
        return None if found is None else found.decode()


class DelayArticle:
    """Article 003; times are a client's, in seconds."""

    def __init__(self, client: redis.Redis, key: str = "delay_set") -> None:
        self.client: Any = client
        self.key = key

    def enqueue(self, job: str, ready_at: float) -> None:
        self.client.zadd(self.key, {job: ready_at})

    def dequeue(self, now: float, batch: object = 100) -> list[str]:
        found = self.client.eval(DEQUEUE, 1, self.key, str(now), str(now + 30), str(batch))
        return [item.decode() for item in found]


class FairArticle:
    """Article 004: its two classes, command by command."""

    def __init__(self, client: redis.Redis, queue: str = "worker1") -> None:
        self.client: Any = client
        self.queue = queue

    def send(self, client_id: str, *msgs: object) -> None:
        rows = [json.dumps({"client_id": client_id, "msg": m, "attempts": 0}) for m in msgs]
        self.client.lpush(f"bqueues:{self.queue}:{client_id}", *rows)

    def receive(self, client_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.client.rpoplpush(
                f"bqueues:{self.queue}:{client_id}", f"bqueues:processing:{self.queue}"
            )
        )
        return found

    def processed(self, msg: dict[str, Any]) -> None:
        self.client.lrem(f"bqueues:processing:{self.queue}", 0, json.dumps(msg))

    def recover(self) -> None:
        processing = f"bqueues:processing:{self.queue}"
        for orig in self.client.lrange(processing, -5, -1):
            msg = json.loads(orig)
            if msg["attempts"] > 4:
                self.client.sadd(f"bqueues:dead:{self.queue}", orig)
            else:
                msg["attempts"] += 1
                self.client.lpush(f"bqueues:{self.queue}:{msg['client_id']}", json.dumps(msg))
            self.client.lrem(processing, 0, orig)
