"""Checks of the server's ACL before work, a change or a submission begins.

A script without the rights it needs ends before its first write (`scripts`). But a worker would
notice only after it took entries, an operator after the operation is in the audit log, a producer
after an empty queue was created. So each checks first, in one round trip: a script that reads no
key asks the server's ACL about every command.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from ..model.errors import Forbidden
from ..model.keys import Keys
from ..model.quoting import text
from .acl_denial import Denial, setuser
from .operation import Call, together, user
from .script_files import ScriptHeader, folders
from .scripts import Script, commands


class HasScripts(Protocol):
    """One shard of a queue: its keys and scripts."""

    @property
    def keys(self) -> Keys: ...
    def _script(self, name: str) -> Script: ...


class ScriptedQueue(Protocol):
    """What a check needs to know of a queue."""

    @property
    def kind(self) -> str: ...
    @property
    def package(self) -> str: ...
    @property
    def keeps_results(self) -> bool: ...
    @property
    def prefix(self) -> str: ...
    @property
    def client(self) -> Any: ...
    @property
    def shard_queues(self) -> Sequence[HasScripts]: ...
    def refuse_several_slots(self) -> None: ...


PUT = ("submit", "schedule", "push", "enqueue")
WORK = ("take", "settle", "extend", "sweep", "fire_periodic")
"""names of scripts, of which each kind has some"""
_OF_WORKERS = ("blpop", "eval", "lpush")
_OF_OPERATORS = ("eval", "hdel", "hsetnx", "unlink", "zrem")
_CORE = Path(__file__).parent.parent
_ASK = """#!lua flags=no-writes
local function may(words)
  words[#words + 1] = KEYS[1]
  if words[1] == 'xreadgroup' then
    words = {words[1], 'group', '', '', 'streams', KEYS[1], '>'}
  elseif words[1] == 'eval' then -- without the number of keys the server would read past the end
    words = {words[1], '', '1', KEYS[1]}
  elseif words[1] == 'publish' then
    words[3] = ''
  end
  local known, allowed
  repeat -- some servers want as many words as the command needs
    known, allowed = pcall(redis.acl_check_cmd, unpack(words))
    words[#words + 1] = KEYS[1]
  until known or #words > 9 or not tostring(allowed):find('Wrong number of args', 1, true)
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


async def to_work(queue: ScriptedQueue) -> str | None:
    """Raise `Forbidden` unless the user can take and settle entries.

    Returns a warning where only the right to publish is missing: work goes on without it.
    """
    lacks = await _ask(queue, WORK, [*_OF_WORKERS, "publish"])
    if lacks != ("publish",) or not queue.keeps_results:
        _refuse(queue, tuple(name for name in lacks if name != "publish"))
        return None
    rule = setuser(user(queue.client), f"+publish &{queue.prefix}:*")
    return (
        f"the server's ACL lets this user publish to no channels {queue.prefix}:*: a wait for a "
        f"request or a result ends up to 2 s later; to allow it: {rule}"
    )


ELEMENTS = frozenset({"change_elements", "undo_elements"})
"""scripts that change the owner's own settings"""
COMMANDS = frozenset({"send_command"})
"""scripts that send commands to the owner's workers"""


EDITS = frozenset({"edit", "undo_edit"})
"""scripts that change entries of another program"""


async def to_put(queue: ScriptedQueue) -> None:
    """Raise `Forbidden` unless the user can submit entries to the queue."""
    _refuse(queue, await _ask(queue, PUT, ["eval"]))


async def to_change(queue: ScriptedQueue) -> None:
    """Raise `Forbidden` unless the user can make every kind of change to the queue."""
    _refuse(queue, await _ask(queue, ("move",), [*_OF_OPERATORS, *every_command(queue.package)]))


async def to_change_elements(queue: ScriptedQueue) -> None:
    """Raise `Forbidden` unless the user can change, and take back, the owner's own settings."""
    _refuse(queue, await _ask(queue, ELEMENTS))


async def to_send(queue: ScriptedQueue, channel: bytes) -> None:
    """Raise `Forbidden` unless the user can send commands to the owner's workers, published in
    ``channel`` if that isn't empty."""
    publish = f"publish|{text(channel)}"
    lacks = await _ask(queue, COMMANDS, [publish] if channel else [])
    _refuse(queue, tuple(name for name in lacks if name != publish))
    if lacks:
        rule = setuser(user(queue.client), f"+publish &{text(channel)}")
        raise Forbidden(
            f"the server's ACL says no: this user may not publish to {text(channel)}; to allow it:"
            f" {rule}"
        )


async def to_edit(queue: ScriptedQueue) -> None:
    """Raise `Forbidden` unless the user can change, and take back, payloads of another program."""
    _refuse(queue, await _ask(queue, EDITS))


async def to_replace_fields(key: str) -> None:
    """Raise `Forbidden` unless the user can replace and remove fields of a hash of the deployment,
    as the registry, which a user who is limited to some queues can't."""
    lacks = await _call([key], ("eval", "hset", "hdel"))
    if lacks:
        raise Forbidden(Denial("command", tuple(name.decode() for name in lacks)))


async def allowed(queue: ScriptedQueue, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the commands that the user may run; a subcommand is written ``config|set``."""
    lacks = await _ask(queue, (), names)
    return tuple(name for name in names if name not in lacks)


def _refuse(queue: ScriptedQueue, lacks: tuple[str, ...]) -> None:
    if lacks:
        raise Forbidden(Denial("command", lacks))


async def _ask(
    queue: ScriptedQueue, scripts: Iterable[str], more: Iterable[str] = ()
) -> tuple[str, ...]:
    """The commands of these scripts that the user may not run. All keys are declared, so the
    server refuses the call if the user may not read and write one of them."""
    queue.refuse_several_slots()
    names = dict.fromkeys(more)
    asks: list[Call[list[bytes]]] = []
    for leaf in queue.shard_queues:
        keys: dict[str | bytes, None] = {}
        for name in scripts:
            try:
                loaded = leaf._script(name)
            except FileNotFoundError:  # not of this kind
                continue
            names |= dict.fromkeys("|".join(words).lower() for words in commands(loaded.text))
            keys |= dict.fromkeys(leaf.keys.of(loaded.header.keys))
        asks.append(_call(keys or [leaf.keys["op_"]], names))
    replies = await together(asks)
    return tuple(dict.fromkeys(name.decode() for lacks in replies for name in lacks))


def _call(keys: Iterable[str | bytes], names: Iterable[str]) -> Call[list[bytes]]:
    declared = list(keys)
    return Call(
        ("EVALSHA", _SHA, len(declared), *declared, *names), list, key=declared[0], source=_ASK
    )


@cache
def every_command(package: str) -> tuple[str, ...]:
    """The commands of all scripts that a queue with this package of Lua files can run."""

    def read(folder: str) -> dict[str, str]:
        files = sorted(_CORE.joinpath(*folder.split("."), "lua").glob("*.lua"))
        return {path.stem: path.read_text(encoding="utf-8") for path in files}

    own, *between, engine = map(read, folders(package))
    for shared in between:
        # Scripts that the kind doesn't have itself, and what these and its own files use.
        wanted = {
            name for name, text in shared.items() if ScriptHeader.parse(text).argv
        } - own.keys()
        # Only few users change schedules or payloads, or command workers: see who asks for each.
        wanted -= ELEMENTS | COMMANDS | EDITS
        ahead = [*own.values(), *(shared[name] for name in wanted)]
        while ahead:
            uses = set(ScriptHeader.parse(ahead.pop()).uses) & shared.keys() - wanted - own.keys()
            wanted |= uses
            ahead += [shared[name] for name in uses]
        own |= {name: shared[name] for name in wanted}
    return tuple("|".join(words).lower() for words in commands("\n".join((engine | own).values())))
