"""What asynq 0.26 writes, made from its sources: these tests don't run asynq.

asynq 0.24.1, which has no headers yet, was run beside it by hand, and wrote the same.
`Server` and `Client` follow ``internal/rdb/rdb.go`` step by step, `Inspector` follows
``internal/rdb/inspect.go`` in scripts, and `message` is ``internal/proto/asynq.proto`` as Go
encodes it: fields in the order of their numbers, without those that are empty.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import Any

import redis

QUEUE = "low"
LEASE_S = 30


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def encoded(*fields: tuple[int, int | bytes]) -> bytes:
    """Fields by their numbers; maps and messages are encoded before."""
    parts = []
    for number, value in fields:
        if isinstance(value, bytes):
            parts.append(varint(number << 3 | 2) + varint(len(value)) + value)
        else:
            parts.append(varint(number << 3) + varint(value))
    return b"".join(parts)


def given(*fields: tuple[int, int | str | bytes]) -> bytes:
    """The fields that aren't empty."""
    texts = ((n, value.encode() if isinstance(value, str) else value) for n, value in fields)
    return encoded(*((n, value) for n, value in texts if value))


def message(
    id: str,
    type: str,
    payload: bytes,
    *,
    queue: str = QUEUE,
    retry: int = 25,
    retried: int = 0,
    error: str = "",
    timeout: int = 1800,
    deadline: int = 0,
    unique: str = "",
    failed_at: int = 0,
    retention: int = 0,
    completed_at: int = 0,
    group: str = "",
    headers: Mapping[str, str] = {},
) -> bytes:
    maps = [(15, encoded((1, k.encode()), (2, v.encode()))) for k, v in headers.items()]
    return given(
        (1, type),
        (2, payload),
        (3, id),
        (4, queue),
        (5, retry),
        (6, retried),
        (7, error),
        (8, timeout),
        (9, deadline),
        (10, unique),
        (11, failed_at),
        (12, retention),
        (13, completed_at),
        (14, group),
        *maps,
    )


class Program:
    """A client, a server and the Inspector of one queue."""

    def __init__(self, client: redis.Redis, queue: str = QUEUE) -> None:
        self.client: Any = client
        self.queue = queue
        self.at = f"asynq:{{{queue}}}:"
        self._told: dict[str, dict[str, Any]] = {}

    def message(self, id: str, **changed: Any) -> bytes:
        """A task's message, with the options it had and those that are changed."""
        self._told[id] = told = self._told.get(id, {}) | changed
        return message(id, **told)

    def task(self, id: str) -> str:
        return f"{self.at}t:{id}"

    # --- the client ------------------------------------------------------------------------------

    def unique_key(self, type: str, payload: bytes) -> str:
        return f"{self.at}unique:{type}:{md5(payload).hexdigest()}"

    def send(
        self,
        id: str,
        type: str = "email:welcome",
        data: Any = None,
        *,
        unique_s: int = 0,
        at: float | None = None,
        **options: Any,
    ) -> None:
        """`Client.Enqueue`: at once, at a time, or into a group."""
        payload = json.dumps(data, separators=(",", ":")).encode()
        more: dict[str, Any] = {}
        if unique_s:
            more["unique_key"] = options["unique"] = self.unique_key(type, payload)
            waits_s = 0 if at is None else int(at - time.time())
            self.client.set(more["unique_key"], id, nx=True, ex=waits_s + unique_s)
        group = options.get("group", "")
        msg = self.message(id, type=type, payload=payload, queue=self.queue, **options)
        self.client.sadd("asynq:queues", self.queue)
        if group:
            more |= {"state": "aggregating", "group": group}
        elif at is None:
            more |= {"state": "pending", "pending_since": time.time_ns()}
        else:
            more |= {"state": "scheduled"}
        self.client.hset(self.task(id), mapping={"msg": msg, **more})
        if group:
            self.client.zadd(f"{self.at}g:{group}", {id: int(time.time())})
            self.client.sadd(f"{self.at}groups", group)
        elif at is None:
            self.client.lpush(self.at + "pending", id)
        else:
            self.client.zadd(self.at + "scheduled", {id: int(at)})

    # --- the server ------------------------------------------------------------------------------

    def dequeue(self, lease_s: int = LEASE_S) -> str:
        id = str(self.client.rpoplpush(self.at + "pending", self.at + "active").decode())
        self.client.hset(self.task(id), "state", "active")
        self.client.hdel(self.task(id), "pending_since")
        self.client.zadd(self.at + "lease", {id: int(time.time()) + lease_s})
        return id

    def _leaves(self, id: str, *counters: str) -> None:
        assert self.client.lrem(self.at + "active", 0, id)
        assert self.client.zrem(self.at + "lease", id)
        for counter in ("processed", *counters):
            today = f"{self.at}{counter}:{time.strftime('%Y-%m-%d', time.gmtime())}"
            self.client.incr(self.at + counter)
            self.client.incr(today)
            self.client.expire(today, 90 * 86_400, nx=True)

    def retries(self, id: str, why: str, at: float, failed_at: int | None = None) -> None:
        self._leaves(id, "failed")
        retried = self._told[id].get("retried", 0) + 1
        failed = int(time.time()) if failed_at is None else failed_at
        msg = self.message(id, retried=retried, error=why, failed_at=failed)
        self.client.zadd(self.at + "retry", {id: int(at)})
        self.client.hset(self.task(id), mapping={"msg": msg, "state": "retry"})

    def archives(self, id: str, why: str, failed_at: int | None = None) -> None:
        self._leaves(id, "failed")
        failed = int(time.time()) if failed_at is None else failed_at
        self.client.zadd(self.at + "archived", {id: failed})
        msg = self.message(id, error=why, failed_at=failed)
        self.client.hset(self.task(id), mapping={"msg": msg, "state": "archived"})

    def completes(self, id: str, completed_at: int, result: bytes = b"") -> None:
        if result:
            self.client.hset(self.task(id), "result", result)
        self._leaves(id)
        self.client.zadd(
            self.at + "completed", {id: completed_at + self._told[id].get("retention", 0)}
        )
        msg = self.message(id, completed_at=completed_at)
        self.client.hset(self.task(id), mapping={"msg": msg, "state": "completed"})

    def aggregates(self, group: str, set_id: str) -> None:
        """All of a group into a set of its own, which a server has two minutes to aggregate."""
        there = f"{self.at}g:{group}:{set_id}"
        self.client.rename(f"{self.at}g:{group}", there)
        self.client.zadd(self.at + "aggregation_sets", {there: int(time.time()) + 120})
        self.client.srem(self.at + "groups", group)

    def pause(self) -> None:
        self.client.set(self.at + "paused", int(time.time()), nx=True)

    def beats(
        self,
        server: str = "box:17:ab",
        queues: Sequence[str] = (QUEUE,),
        *,
        status: str = "active",
        work: Sequence[str] = (),
        started: int = 1_700_000_000,
        expires_s: int = 10,
    ) -> None:
        """`WriteServerState`, with the tasks that its workers run."""
        host, pid, sid = server.split(":")
        at = encoded((1, started), (2, 250_000_000))
        served = [(5, encoded((1, name.encode()), (2, 3))) for name in queues]
        info = given(
            (1, host),
            (2, int(pid)),
            (3, sid),
            (4, 10),
            *served,
            (7, status),
            (8, at),
            (9, len(work)),
        )
        jobs = {
            id: given(
                (1, host),
                (2, int(pid)),
                (3, sid),
                (4, id),
                (5, "email:welcome"),
                (6, b"{}"),
                (7, self.queue),
                (8, at),
            )
            for id in work
        }
        end = int(time.time()) + expires_s
        for register in ("asynq:servers", "asynq:workers"):
            self.client.zadd(register, {f"{register}:{{{server}}}": end})
        if expires_s > 0:  # else the server died, and its records expired
            self.client.set(f"asynq:servers:{{{server}}}", info, ex=expires_s)
            if jobs:
                self.client.hset(f"asynq:workers:{{{server}}}", mapping=jobs)
                self.client.expire(f"asynq:workers:{{{server}}}", expires_s)

    # --- the Inspector ---------------------------------------------------------------------------

    def run(self, id: str) -> None:
        """`Inspector.RunTask`."""
        assert self.client.eval(_LEAVES + _RUN, 1, self.task(id), self.at, id) == 1

    def delete(self, id: str) -> None:
        """`Inspector.DeleteTask`."""
        assert self.client.eval(_LEAVES + _DELETE, 1, self.task(id), self.at, id) == 1


_LEAVES = """
local task, at, id = KEYS[1], ARGV[1], ARGV[2]
local state, group = unpack(redis.call('HMGET', task, 'state', 'group'))
if not state or state == 'active' then return 0 end
local function leave(key)
  if redis.call('ZREM', key, id) == 0 then error('it is not in ' .. key) end
end
if state == 'aggregating' then
  local tasks = at .. 'g:' .. group
  leave(tasks)
  if redis.call('EXISTS', tasks) == 0 then redis.call('SREM', at .. 'groups', group) end
elseif state ~= 'pending' then
  leave(at .. state)
end
"""
_RUN = """
if state == 'pending' then return 0 end
redis.call('LPUSH', at .. 'pending', id)
redis.call('HSET', task, 'state', 'pending')
return 1
"""
_DELETE = """
if state == 'pending' and redis.call('LREM', at .. 'pending', 0, id) == 0 then return 0 end
local lock = redis.call('HGET', task, 'unique_key')
if (lock or '') ~= '' and redis.call('GET', lock) == id then redis.call('DEL', lock) end
return redis.call('DEL', task)
"""


def specimen(client: redis.Redis, unique: bool = True) -> None:
    """Tasks in every state of the queue ``low``, some of them unique, and some of another queue."""
    program, now = Program(client), int(time.time())
    for n in range(4):
        order = {"order": n, "region": "eu"}
        program.send(f"bad{n}", "order:charge", order, retry=1, unique_s=unique * 9000)
        program.archives(program.dequeue(), f"no card for order {n}", now - 400 + n)
        program.send(f"again{n}", "order:charge", {"order": 10 + n})
        program.retries(program.dequeue(), "the bank did not answer", now + 900 + n, now - 60)
        program.send(f"good{n}", "order:pack", {"order": n}, retention=9000)
        program.completes(program.dequeue(), now - 50 + n, b'{"boxes":2}')
        program.send(f"run{n}", "order:pack", {"order": n})
        program.dequeue()
    for n in range(6):
        program.send(
            f"w{n}", data={"user": n}, headers={"trace": "x"}, unique_s=unique * (9000 + n)
        )
        program.send(
            f"s{n}", data={"user": n, "late": True}, at=now + 9000 + n, unique_s=unique * 10_000
        )
    for n in range(4):
        program.send(f"g{n}", "mail:digest", {"part": n}, group="ann")
        program.send(f"h{n}", "mail:digest", {"part": n}, group="eve")
    program.send("alone", "mail:digest", group="zoe")
    program.aggregates("eve", "5f1d")
    # Its lock expired, and another task like it has it by now.
    client.set(program.unique_key("order:charge", b'{"order":3,"region":"eu"}'), "other", ex=9000)
    program.beats(work=("run0", "run1"), expires_s=9000)
    Program(client, "other").send("elsewhere")
