"""Load Lua scripts: a short file, its modules, and what their headers declare (`script_files`).

Beside KEYS and ARGV each file may use: ``now`` (integer ms: the server's TIME, or a test's clock),
``now_text`` (the same as text: converting a number for a command takes as long as the
command), ``first`` (index in ARGV of the first row), ``width`` (columns of a row), ``DEFAULT``
(settings), ``run_by`` (``worker`` or ``operator``). The modules ``type_check`` and ``counters`` get
``key_types()`` and ``COUNTERS``.

Only what a script needs is in it: functions and constants that nothing mentions are left out, since
each takes the server time to set up in every call. All keys of its modules are declared.

Types of keys are checked before the first write: what a script has written stays when it fails. By
default a script checks all of its keys in each call. ``once``: a process checks them when it begins
(``engine/queue_base.py``), for scripts that run once a delivery. ``first``: for numbered steps that
run thousands of times, only where ``seq`` is 1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from ..model.clock import Clock
from ..model.errors import BadInput
from ..model.keys import Keys
from ..model.settings import MAX_BATCH, lua_defaults
from ..model.states import FIXED
from . import script_files
from .operation import Arg, Call
from .script_files import ScriptHeader, statements

T = TypeVar("T")

NUMBERS = {
    "fence",
    "gen",
    "laps",
    "turn",
    "waiting",
    "cancelled",
    "done",
    "gone",
    "spent",
    "returned",
    "popped",
    "shown",
    "vt",
    "vt_latest",
    "resting",
}
"""fields of ``stat`` that are numbers; a script reads those that it changes before it writes"""
_FIXED = frozenset(FIXED.items())
_WORD = re.compile(r"(?<!\w\.)\b\w+")
_NO_CODE = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|--[^\n]*")
"""strings and comments"""
_FUNCTION = re.compile(r"local function (\w+)")
_CONSTANT = re.compile(r"local ([\w, ]+?)(?: = ([^(]*))?$")
"""local variables whose value calls nothing"""
_COUNTED = re.compile(r"\bcounters_(?:add|reserve)\(|stat,")
_CALL = re.compile(r"redis\.p?call\(\s*([^,)]+)(?:,\s*'([A-Z]+)')?")
_COMMAND = re.compile(r"'([A-Z]+)'")
_CONTAINERS = frozenset({"XGROUP", "XINFO"})
_WORDS = {
    3: "HGET HDEL LPUSH ZREM XDEL ZSCORE XPENDING HMGET ZMSCORE EXPIRE RPUSH PEXPIRE HEXISTS HSCAN "
    "SISMEMBER SMISMEMBER SREM SET SADD RENAME LINDEX LPOS PEXPIREAT INCRBY BLPOP XINFO|GROUPS",
    4: "HSET XRANGE ZADD XACK XREVRANGE ZRANGE LRANGE LTRIM HINCRBY ZREMRANGEBYRANK HSETNX LREM "
    "LSET RESTORE ZCOUNT ZREVRANGEBYSCORE PSETEX XTRIM XINFO|CONSUMERS XGROUP|DESTROY XNACK",
    5: "XADD LMOVE LINSERT XGROUP|CREATE XGROUP|SETID XGROUP|DELCONSUMER",
    6: "XCLAIM",
}
"""how many words a command has at least, its name included, where these are more than two"""
LEAST_WORDS = {name: words for words, names in _WORDS.items() for name in names.split()}
_NOW = """local now_text = ARGV[1]
local now = tonumber(now_text)
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
  now_text = now .. ''
end"""


@dataclass(frozen=True, slots=True)
class Script:
    """A loaded script: its text, digest, and header with all keys."""

    name: str
    text: str
    sha: str
    header: ScriptHeader

    def call(
        self,
        keys: Keys,
        clock: Clock,
        read: Callable[[Any], T],
        rows: Iterable[Sequence[Arg]] = (),
        **argv: Arg,
    ) -> Call[T]:
        """Describe one run. ``argv`` must name exactly the header's ARGV; each row its REST."""
        if tuple(argv) != self.header.argv:
            raise TypeError(f"{self.name} takes {self.header.argv}, not {tuple(argv)}")
        names = keys.of(self.header.keys)
        rows = list(rows)
        if len(rows) > MAX_BATCH:  # all clients wait for a long call, and unpack() has a limit
            raise BadInput(f"{self.name}: {len(rows)} at once, {MAX_BATCH} at most")
        flat = [arg for row in rows for arg in row]
        if flat and (not self.header.rest or len(flat) % len(self.header.rest)):
            raise TypeError(f"{self.name}: rows must be {self.header.rest}")
        return Call(
            ("EVALSHA", self.sha, str(len(names)), *names, clock.stamp(), *argv.values(), *flat),
            read,
            key=names[0],
            source=self.text,
            ready=3 + len(names),
        )


@cache
def script(package: str, name: str, key_types: frozenset[tuple[str, str]] = _FIXED) -> Script:
    """Load the script ``name`` of a kind's folder (``"queues.request"``), or else the engine's.

    ``key_types``: parts of the key schema, with the types of their keys.
    """
    body = script_files.read(package, name)
    header = ScriptHeader.parse(body)
    if header.parts:
        parts = {part: script_files.read(package, part) for part in header.parts}
        header = header.joined([ScriptHeader.parse(text) for text in parts.values()])
        body = "\n".join([*(_as_function(part, text) for part, text in parts.items()), body])
    texts = script_files.modules(package, header)
    ahead = script_files.ahead(package, header)
    headers = [header, *map(ScriptHeader.parse, [*texts.values(), *ahead.values()])]
    uses = tuple(texts)
    types = dict(key_types)
    # Types are checked first: other modules read keys.
    checks = (
        [*statements(texts.pop("type_check")), *_type_checks(header, types)]
        if (header.writes)
        else []
    )
    work = [statement for text in (*texts.values(), body) for statement in statements(text)]
    needed = _needed([*checks, *work])
    code = "\n".join(needed)
    mentioned = frozenset().union(*map(_mentions, needed))
    keys = tuple(dict.fromkeys(key for each in headers for key in each.keys))
    lines = [f"#!lua flags={','.join(header.flags)}" if header.flags else "#!lua"]
    lines += [f"local {key} = KEYS[{i}]" for i, key in enumerate(keys, 1)]
    lines += [f"local {arg} = ARGV[{i}]" for i, arg in enumerate(header.argv, 2)]
    lines += [f"local first, width = {len(header.argv) + 2}, {len(header.rest)}", lua_defaults()]
    if header.writes:
        # Type checks come before the first write: without the right to TYPE the script ends there.
        writing = [statement for statement in needed if statement not in checks]
        first = {word for each in headers for word in each.first}
        writing += [each for text in ahead.values() for each in statements(text)]
        lines += _rights("\n".join(writing), keys, first)
    lines.append(_NOW)
    lines += [_ahead(hook, text) for hook, text in ahead.items()]
    if "run_by" in mentioned:
        lines.append(f"local run_by = '{' '.join(header.run_by) or 'operator'}'")
    if "COUNTERS" in mentioned:
        lines.append(f"local COUNTERS = {{{_counters(code, header.rarely)}}}")
    if "key_types" in mentioned:
        lines.append(_key_types(header, keys, types))
    # Lua looks for the variables of a new closure among all open ones of running functions. In a
    # function of their own the modules find them at once, which saves a tenth of a short call.
    text = "\n".join([*lines, "local function main()", code, "end", "return main()"])
    declared = replace(header, keys=keys, uses=uses)
    return Script(f"{package}/{name}", text, hashlib.sha1(text.encode()).hexdigest(), declared)


def _ahead(hook: str, text: str) -> str:
    """Lua that calls a hook and ends the script with its result, unless that is nil."""
    block = "\n".join(statements(text))
    return f"do\n{block}\nlocal reply = {hook}()\nif reply then return reply end\nend"


def _as_function(name: str, body: str) -> str:
    """A script's body as a Lua function without arguments: a statement of the outermost level."""
    lines = (f"  {line}" for line in body.splitlines() if not line.startswith("--"))
    return "\n".join([f"local function {name}()", *lines, "end"])


def _needed(statements: Sequence[str]) -> list[str]:
    """The statements without functions and constants that no other statement needs."""
    functions = [found[1] for found in map(_FUNCTION.match, statements) if found]
    assert len(functions) == len(set(functions)), "two functions of one name"
    defined = [_defines(statement) for statement in statements]
    words = [_mentions(statement) for statement in statements]
    where: dict[str, set[int]] = {}
    for i, names in enumerate(defined):
        for name in names:
            where.setdefault(name, set()).add(i)
    kept = {i for i, names in enumerate(defined) if not names}
    ahead = list(kept)
    while ahead:
        more = {i for name in words[ahead.pop()] & where.keys() for i in where[name]} - kept
        kept |= more
        ahead += more
    return [statements[i] for i in sorted(kept)]


@cache
def _mentions(statement: str) -> frozenset[str]:
    """The words of a statement's code."""
    return frozenset(_WORD.findall(_NO_CODE.sub("", statement)))


@cache
def _defines(statement: str) -> frozenset[str]:
    """The names that a statement defines, if it does nothing else."""
    if found := _FUNCTION.match(statement):
        return frozenset({found[1]})
    found = _CONSTANT.match(re.sub(r"--[^\n]*", "", statement).rstrip())
    return frozenset(re.split(r", *", found[1])) if found else frozenset()


def _type_checks(header: ScriptHeader, types: dict[str, str]) -> list[str]:
    """Lua that checks the types of keys, as the header has it."""
    if header.types == ("once",):
        return [f"type_check_key({key}, '{types[key]}')" for key in header.checks if key in types]
    return ["if seq == '1' then type_check_all() end" if header.types else "type_check_all()"]


def _key_types(header: ScriptHeader, keys: Iterable[str], types: dict[str, str]) -> str:
    """Lua that returns the types of a script's keys, by key."""
    typed = [f"[{key}] = '{types[key]}'" for key in keys if key in types]
    for entry in header.entries:
        made, _, type_ = entry.partition("=")
        part, *more = re.findall(r"[^{}]+", made)
        joined = [part, *(f"'{word}'" if word == ":" else word for word in more)]
        typed.append(f"[{' .. '.join(joined)}] = '{type_}'")
    return f"local function key_types() return {{{', '.join(typed)}}} end"


def _counters(text: str, rarely: tuple[str, ...]) -> str:
    """The counters that a script changes or reads, except those under RARELY."""
    lines = "\n".join(line for line in text.splitlines() if _COUNTED.search(line))
    named = {*re.findall(r"'(\w+)'", lines), *re.findall(r"\bcounters_known\.(\w+)", text)}
    return ", ".join(map(repr, sorted(NUMBERS & named - set(rarely))))


def commands(text: str) -> list[tuple[str, ...]]:
    """The commands that a script may run, a container's with the subcommand, each once.

    Without PUBLISH: it only wakes clients that wait for a request, and they look every two seconds
    anyway. So scripts run it by `redis.pcall`, and it may fail for lack of a right. Also without
    those in the table `SIZE`: where one of them fails, `type_check` asks for the type.
    """
    found: dict[tuple[str, ...], None] = {}
    for name, second in _CALL.findall(text):
        spelled = _COMMAND.findall(name)
        assert spelled or "[" in name, f"redis.call({name}, …): write the command's name there"
        for word in spelled:
            found[(word, second) if word in _CONTAINERS else (word,)] = None
    found.pop(("PUBLISH",), None)
    return list(found)


def _rights(text: str, keys: Sequence[str], first: set[str]) -> list[str]:
    """Lua that ends the script before its first write if the user may not run all its commands.

    A script that fails later keeps what it has written. Keys need no check: EVALSHA asks for
    reading and writing of every declared key. Still each command is checked with one of the keys:
    without a key, rights of an ACL selector for other keys would count, and Redis 7.0 and Valkey
    9.1 crash, since they look for the key of SET or EVAL behind the last argument. Commands that
    run before the first write (`first`, such as TIME) need no check either: if the user may not
    run them, the script ends there. These are `acl_denial.READ_FIRST`.
    """
    checked = [command for command in commands(text) if command[0] not in {"TIME", *first}]
    if len(checked) < 2:
        return []
    chain = "\n    or ".join(
        f"not may({_asked(command, keys[0])}) and '{'|'.join(command).lower()}'"
        for command in checked
    )
    return [
        f"""do
  local may = redis.acl_check_cmd
  local lacks = {chain}
  if lacks then
    return {{err = "NOPERM this user has no permissions to run the '" .. lacks .. "' command"}}
  end
end"""
    ]


def _asked(command: tuple[str, ...], key: str) -> str:
    """Arguments of `redis.acl_check_cmd`: the command with a key where the ACL looks for it, and
    with as many words as it needs, which servers check (Redis 8.0.2 of Debian 13 since its third
    security update)."""
    if command == ("XREADGROUP",):
        return f"'XREADGROUP', 'GROUP', '', '', 'STREAMS', {key}, '>'"
    missing = LEAST_WORDS.get("|".join(command), 2) - len(command)
    return ", ".join([*(f"'{word}'" for word in command), *[key] * max(1, missing)])
