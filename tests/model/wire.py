"""Sending calls twice, and comparing everything a server holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import redis

from redisq_ops.core.redis.operation import Call, Description, together
from redisq_ops.core.redis.transport import exchange

T = TypeVar("T")
Picture = dict[bytes, Any]


_LOOK = """
local keys, found = ARGV, {}
if #keys == 0 then keys = redis.call('KEYS', '*') end
table.sort(keys)
for i, key in ipairs(keys) do
  local kind, value, pending = redis.call('TYPE', key).ok, false, false
  if kind == 'string' then value = redis.call('GET', key)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then value = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then
    value = redis.call('XRANGE', key, '-', '+')
    pending = redis.pcall('XPENDING', key, 'g', '-', '+', 100000)
    if pending.err then pending = false end
  end
  found[i] = {key, kind, value, pending}
end
return found
"""
"""all that is asked for by one command: stories of the models take many pictures"""


def picture(client: redis.Redis, keys: Iterable[bytes] = ()) -> Picture:
    """What a database holds, by key, or only these keys; equal pictures are databases no client can
    tell apart.

    Left out is what passing time or mere looking changes: idle times and remaining TTLs.
    """
    rows: Any = client.eval(_LOOK, 0, *keys)
    return {key: _READ[kind](value, pending) for key, kind, value, pending in rows}


def _fields(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _stream(rows: Any, pending: Any) -> Any:
    """Entries, and pending ones without their idle times; a stream without group (the history) has
    none."""
    entries = [(id, _fields(flat)) for id, flat in rows]
    group = (
        [(id, consumer, times) for id, consumer, _, times in pending]
        if pending is not None
        else None
    )
    return entries, group


_READ: dict[bytes, Callable[[Any, Any], Any]] = {
    b"string": lambda value, _: value,
    b"hash": lambda flat, _: _fields(flat),
    b"list": lambda values, _: values,
    b"set": lambda members, _: set(members),
    b"zset": lambda flat, _: [
        [member, float(score)] for member, score in zip(flat[::2], flat[1::2], strict=True)
    ],
    b"stream": _stream,
}


def run_twice(
    client: redis.Redis,
    description: Description[T],
    between: Callable[[], Any] = lambda: None,
) -> T:
    """Run a description, each of its rounds sent a second time as a client does that lost the
    reply: the second must answer the same and change nothing."""
    coroutine: Any = together([description])
    try:
        calls = coroutine.send(None)
        while True:
            first = exchange(client, calls)
            before = picture(client)
            between()
            again = exchange(client, calls)
            replies = [
                row for row in zip(calls, first, again, strict=True) if row[0].command != ("TIME",)
            ]
            assert [_said(r) for _, _, r in replies] == [
                _confirmed(call, _said(r), again) for call, r, again in replies
            ], "the same call, sent again, answered something else"
            assert picture(client) == before, "the same call, sent again, changed something"
            calls = coroutine.send(first)
    except StopIteration as stop:
        value: T = stop.value[0]
        return value
    finally:
        coroutine.close()


def _said(reply: Any) -> Any:
    return str(reply) if isinstance(reply, Exception) else reply


def _confirmed(call: Call[Any], reply: Any, again: Any) -> Any:
    """What a repetition answers: a submission is its own guard and says so, HSET says how many of
    the fields are new; all else repeats."""
    source = call.source or ""
    if call.command[0] == "HSET":
        return 0
    if "return answer('same')" in source and reply[0] == b"ok":
        gone = again[3:]  # of a request that was purged in part before the last chunk came
        return [b"trash" if gone else b"same", *reply[1:], *gone]
    return reply
