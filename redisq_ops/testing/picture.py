"""All keys of a small database, to compare two moments, and to put one of them back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

Content = Mapping[bytes, object] | bytes
"""of a string its bytes; of another key, part (such as a field) -> value"""
Known = dict[tuple[bytes, bytes], Content]
"""what was read before: type and `DUMP` of a key -> its content"""

# The database is one of tests, and small: the scripts may read and write all of it, at once.
_READ = """
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  found[#found + 1] = key
  found[#found + 1] = redis.call('TYPE', key).ok
  found[#found + 1] = redis.call('DUMP', key)
  found[#found + 1] = redis.call('PEXPIRETIME', key)
end
return found
"""
_WRITE = """
redis.call('FLUSHDB')
for at = 1, #ARGV, 3 do
  redis.call('RESTORE', ARGV[at], ARGV[at + 1], ARGV[at + 2], 'ABSTTL')
end
"""


@dataclass(frozen=True, slots=True)
class Key:
    """One key, as it is now."""

    type: bytes
    content: Content
    until_ms: int
    """when it expires; -1: never"""
    dump: bytes
    """empty: a key that isn't in the database and is only compared"""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a database has."""

    keys: Mapping[bytes, Key]

    @classmethod
    def of(cls, client: Any, known: Known) -> Picture:
        """Read everything; the database must be small, and nobody may write meanwhile. What has
        the bytes of a key of ``known`` has its content, which isn't read again."""
        found = client.eval(_READ, 0)
        rows = sorted(zip(found[::4], found[1::4], found[2::4], found[3::4], strict=True))
        new = {name: type_ for name, type_, dump, _ in rows if (type_, dump) not in known}
        contents = dict(zip(new, _contents(client, new), strict=True))
        known |= {(type_, dump): contents[name] for name, type_, dump, _ in rows if name in new}
        return cls(
            {name: Key(type_, known[type_, dump], until, dump) for name, type_, dump, until in rows}
        )

    def put_back(self, client: Any) -> None:
        """Make this the database's content."""
        keys = ((name, key) for name, key in self.keys.items() if key.dump)
        words = [word for name, key in keys for word in (name, max(0, key.until_ms), key.dump)]
        client.eval(_WRITE, 0, *words)

    def changed(self, now: Picture, near_ms: int = 0) -> list[tuple[bytes, str]]:
        """What differs in ``now``: the key, with a part of it, ``content``, ``type``, ``new``,
        ``gone`` or ``ttl`` (unless that is less than ``near_ms`` off)."""
        return [
            (name, part)
            for name in sorted({*self.keys, *now.keys})
            for part in _differences(self.keys.get(name), now.keys.get(name), near_ms)
        ]


def _contents(client: Any, types: Mapping[bytes, bytes]) -> list[Content]:
    pipe = client.pipeline(transaction=False)
    for name, type_ in types.items():
        if type_ == b"hash":
            pipe.hgetall(name)
        elif type_ == b"list":
            pipe.lrange(name, 0, -1)
        elif type_ == b"zset":
            pipe.zrange(name, 0, -1, withscores=True)
        elif type_ == b"set":
            pipe.smembers(name)
        elif type_ == b"stream":
            pipe.xrange(name)
        else:
            pipe.get(name)
    return [
        _parts(type_, reply) for type_, reply in zip(types.values(), pipe.execute(), strict=True)
    ]


def _parts(type_: bytes, reply: Any) -> Content:
    if type_ == b"list":  # the position of an element counts
        return {b"elements": tuple(reply)}
    if type_ == b"set":
        return dict.fromkeys(reply, True)
    if type_ in (b"zset", b"stream"):
        return dict(reply)
    content: Content = reply  # a string's bytes, or a hash's fields
    return content


def _differences(was: Key | None, now: Key | None, near_ms: int) -> Iterator[str]:
    if was is None or now is None:
        yield "gone" if now is None else "new"
        return
    never = -1 in (was.until_ms, now.until_ms)
    if was.until_ms != now.until_ms and (never or abs(was.until_ms - now.until_ms) >= near_ms):
        yield "ttl"
    if was.type != now.type:
        yield "type"
    elif was.type == b"list":
        lists: Any = was.content, now.content
        yield from sorted({*_elements(*(content[b"elements"] for content in lists))})
    elif isinstance(was.content, Mapping) and isinstance(now.content, Mapping):
        parts = {*was.content, *now.content}
        for part in sorted(
            part for part in parts if was.content.get(part) != now.content.get(part)
        ):
            yield part.decode("utf-8", "backslashreplace")
    elif was.content != now.content:
        yield "content"


def _elements(was: Sequence[bytes], now: Sequence[bytes]) -> Iterator[str]:
    """``elements`` for each difference; of two JSON objects, with each member that differs, in
    objects inside them too: ``elements headers origin``."""
    if len(was) != len(now):
        yield "elements"
    for one, other in zip(was, now, strict=False):
        if one != other:
            values: tuple[object, object] = one, other
            with suppress(ValueError):
                values = json.loads(one), json.loads(other)
            yield from [*_members("elements", *values)] or ["elements"]


def _members(name: str, was: object, now: object) -> Iterator[str]:
    if not (isinstance(was, dict) and isinstance(now, dict)):
        yield name
        return
    for member in was | now:
        if was.get(member) != now.get(member):
            yield from _members(f"{name} {member}", was.get(member), now.get(member))
