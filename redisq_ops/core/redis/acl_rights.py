"""Whether the server's ACL lets a user do a job, asked before the job begins.

A script that lacks a right ends before its first write by itself (`scripts`). But a worker would
find out with entries in its hands, an operator with an operation written down, a producer with an
empty queue created. So they ask first, in one round trip: a script that reads no key asks the
server's ACL for each command.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.errors import Forbidden
from .acl_denial import Denial, setuser
from .operation import Call, together, user
from .scripts import commands

if TYPE_CHECKING:
    from ..engine.queue import Queue

PUT = ("submit", "schedule", "push", "enqueue")
WORK = ("take", "settle", "extend", "sweep", "fire")
"""names of scripts; each kind has some of them"""
_OF_WORKERS = ("blpop", "eval", "lpush")
_OF_OPERATORS = ("eval", "hdel", "hsetnx", "unlink", "zrem")
_CORE = Path(__file__).parent.parent
_ASK = """#!lua flags=no-writes
local function may(words)
  words[#words + 1] = KEYS[1]
  if words[1] == 'xreadgroup' then
    words = {words[1], 'streams', KEYS[1], '>'}
  elseif words[1] == 'eval' then -- without the number of keys the server would read past the end
    words = {words[1], '', '1', KEYS[1]}
  elseif words[1] == 'publish' then
    words[3] = ''
  end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  return allowed or not known -- an older server doesn't know the command, and is never sent it
end
local lacks = {}
for i = 1, #ARGV do
  local words = {}
  for word in ARGV[i]:gmatch('[^|]+') do words[#words + 1] = word end
  if not may(words) then lacks[#lacks + 1] = ARGV[i] end
end
return lacks
"""
_SHA = hashlib.sha1(_ASK.encode()).hexdigest()


async def to_work(queue: Queue[Any]) -> str | None:
    """Raise `Forbidden` unless a worker can work on the queue.

    Without PUBLISH, or channels, it can; then what is to be said of it.
    """
    lacks = await _ask(queue, WORK, [*_OF_WORKERS, "publish"])
    if lacks != ("publish",) or queue.kind != "request":
        _refuse(queue, tuple(name for name in lacks if name != "publish"))
        return None
    rule = setuser(user(queue.client), f"+publish &{queue.prefix}:*")
    return (
        f"the server's ACL lets this user publish to no channels {queue.prefix}:*: who waits for a "
        f"request hears of its end up to 2 s later; to allow it: {rule}"
    )


async def to_put(queue: Queue[Any]) -> None:
    """Raise `Forbidden` unless the user can put entries into the queue."""
    _refuse(queue, await _ask(queue, PUT, ["eval"]))


async def to_change(queue: Queue[Any]) -> None:
    """Raise `Forbidden` unless an operator can change the queue, by whatever verb."""
    _refuse(queue, await _ask(queue, ("move",), [*_OF_OPERATORS, *every_command(queue.room)]))


def _refuse(queue: Queue[Any], lacks: tuple[str, ...]) -> None:
    if lacks:
        raise Forbidden(Denial("command", lacks))


async def _ask(
    queue: Queue[Any], scripts: Iterable[str], more: Iterable[str] = ()
) -> tuple[str, ...]:
    """Which of the commands of those scripts the user may not run. All keys are declared, so the
    server refuses the call if the user may not read and write one of them."""
    names = dict.fromkeys(more)
    asks: list[Call[list[bytes]]] = []
    for leaf in queue.leaves:
        keys: dict[str, None] = {}
        for name in scripts:
            try:
                loaded = leaf._script(name)
            except FileNotFoundError:  # not of this kind
                continue
            names |= dict.fromkeys("|".join(words).lower() for words in commands(loaded.text))
            keys |= dict.fromkeys(leaf.keys.of(loaded.header.keys))
        asks.append(_call(keys or [leaf.keys["op_"]], names))
    said = await together(asks)
    return tuple(dict.fromkeys(name.decode() for lacks in said for name in lacks))


def _call(keys: Iterable[str], names: Iterable[str]) -> Call[list[bytes]]:
    declared = list(keys)
    return Call(
        ("EVALSHA", _SHA, len(declared), *declared, *names), list, key=declared[0], source=_ASK
    )


@cache
def every_command(room: str) -> tuple[str, ...]:
    """The commands of all scripts that a queue of that room could run."""
    parts = room.split(".")
    folders = (_CORE / "engine", _CORE / parts[0], _CORE.joinpath(*parts))
    files = {
        path.name: path for folder in folders for path in sorted((folder / "lua").glob("*.lua"))
    }
    texts = "\n".join(path.read_text(encoding="utf-8") for path in files.values())
    return tuple("|".join(words).lower() for words in commands(texts))
