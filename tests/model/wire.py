"""Sending calls twice, and comparing everything a server holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import redis

from redisq_ops.core.redis.operation import Call, Description, together
from redisq_ops.core.redis.transport import exchange

T = TypeVar("T")
Picture = dict[bytes, Any]


def picture(client: redis.Redis, keys: Iterable[bytes] | None = None) -> Picture:
    """What a database holds, by key, or only these keys; equal pictures are databases no client can
    tell apart.

    Left out is what passing time or mere looking changes: idle times and remaining TTLs.
    """
    keys = sorted(client.scan_iter(count=1000) if keys is None else keys)
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.type(key)
    kinds = pipe.execute()
    for key, kind in zip(keys, kinds, strict=True):
        _READ[kind](pipe, key)
    values = iter(pipe.execute(raise_on_error=False))
    found: Picture = {}
    for key, kind in zip(keys, kinds, strict=True):
        value = next(values)
        if kind == b"stream":
            value = (value, _group(next(values)))
        found[key] = value
    return found


def _stream(pipe: Any, key: bytes) -> None:
    pipe.xrange(key)
    pipe.execute_command("XPENDING", key, "g", "-", "+", 100_000, parse_detail=True)


def _group(pending: Any) -> Any:
    """Pending rows without their idle times; a stream without group (the history) has none."""
    if isinstance(pending, Exception):
        return None
    return [(row["message_id"], row["consumer"], row["times_delivered"]) for row in pending]


_READ: dict[bytes, Callable[[Any, bytes], Any]] = {
    b"string": lambda pipe, key: pipe.get(key),
    b"hash": lambda pipe, key: pipe.hgetall(key),
    b"list": lambda pipe, key: pipe.lrange(key, 0, -1),
    b"set": lambda pipe, key: pipe.smembers(key),
    b"zset": lambda pipe, key: pipe.zrange(key, 0, -1, withscores=True),
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
            replies = [row for row in zip(calls, first, again, strict=True)
                       if row[0].command != ("TIME",)]  # fmt: skip
            assert [_said(r) for _, _, r in replies] == [
                _confirmed(call, _said(r)) for call, r, _ in replies
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


def _confirmed(call: Call[Any], reply: Any) -> Any:
    """What a repetition answers: a submission is its own guard and says so, HSET says how many of
    the fields are new; all else repeats."""
    source = call.source or ""
    if call.command[0] == "HSET":
        return 0
    if "return answer('same')" in source and reply[0] == b"ok":
        return [b"same", *reply[1:]]
    return reply
