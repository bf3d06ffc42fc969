"""A whole database, saved and restored between two cases by the server itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis

from ..model.wire import Picture, picture

SAVED = 1
"""the database that has the copy"""

_COPY = """
local from, to = ARGV[1], ARGV[2]
redis.call('SELECT', to)
redis.call('FLUSHDB')
redis.call('SELECT', from)
for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', to) end
redis.call('SELECT', '0')
"""
_DIGESTS = """
local function flat(value, into)
  if type(value) ~= 'table' then
    into[#into + 1] = tostring(value)
  else
    for _, one in ipairs(value) do flat(one, into) end
  end
end

-- Without times: of delivery, and ids that are times.
local function stream(key)
  local found = {}
  for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do
    found[#found + 1] = #entry[1] < 12 and entry[1] or '*'
    flat(entry[2], found)
  end
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    local name = group[2]
    flat({name, group[8]}, found) -- last delivered
    for _, row in ipairs(redis.call('XPENDING', key, name, '-', '+', 10000)) do
      flat({row[1], row[2], row[4]}, found)
    end
  end
  return table.concat(found, '\\0')
end

-- How often each byte is there: the notes of a change are maps of msgpack, whose members Lua writes
-- now in one order, now in another.
local function notes(key)
  local counts = {}
  for byte = 0, 255 do counts[byte + 1] = 0 end
  for _, text in ipairs(redis.call('HGETALL', key)) do
    for at = 1, #text do
      local byte = string.byte(text, at) + 1
      counts[byte] = counts[byte] + 1
    end
  end
  return table.concat(counts, ' ')
end

local said = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local is, value = redis.call('TYPE', key).ok, nil
  if is == 'stream' then value = stream(key)
  elseif is == 'hash' and key:sub(-4) == ':was' then value = notes(key)
  else value = redis.call('DUMP', key) end
  said[#said + 1] = key
  said[#said + 1] = redis.sha1hex(value)
end
return said
"""

_END = "the end of the work"

Digests = dict[bytes, bytes]


class Database:
    """The server's database 0; database 1 has its copy. Nothing else may use the server."""

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client

    def save(self) -> None:
        self.client.eval(_COPY, 0, 0, SAVED)

    def restore(self) -> None:
        self.client.eval(_COPY, 0, SAVED, 0)

    def restore_key(self, key: bytes) -> None:
        """One key as it was saved, which may be absent."""
        self.client.eval(
            "redis.call('UNLINK', ARGV[1]) redis.call('SELECT', 1) "
            "redis.call('COPY', ARGV[1], ARGV[1], 'DB', 0) redis.call('SELECT', 0)",
            0,
            key,
        )

    def digests(self) -> Digests:
        """Of each key the SHA-1 of its value. Equal ones are equal values; a large hash may have
        two for one value."""
        flat = self.client.eval(_DIGESTS, 0)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def picture(self) -> Picture:
        return picture(self.client)

    def value(self, key: bytes) -> Any:
        """Of one key as in `picture`, None where it is absent."""
        return picture(self.client, [key])[key] if self.client.exists(key) else None

    def commands_of(self, work: Callable[[], object]) -> list[str]:
        """All commands that the server executes during ``work``, also those of scripts."""
        with self.client.monitor() as monitor:
            work()
            self.client.echo(_END)
            seen: list[str] = []
            for command in monitor.listen():
                if command["command"] == f"ECHO {_END}":
                    return seen
                seen.append(command["command"])
        raise AssertionError
