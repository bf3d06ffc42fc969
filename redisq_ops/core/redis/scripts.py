"""Load Lua scripts: a short file, the modules that its header names, and what the header declares.

A file is a script (Python calls it) or a module (scripts and modules use its functions, which carry
the module's name: ``record_pack`` is in ``record.lua``). The comment block on top is its header.
Its words become code, so what is documented is what runs::

    -- Renew leases.                      what it does, in words
    -- KEYS: lease meta                   parts of the queue's key schema that this file uses
    -- ARGV: caller seq                   a script's arguments, in order
    -- REST: id receipt                   the columns of the rows that follow them, if any
    -- USES: record storage_extended      modules, and hooks of the storage interface
    -- NEEDS: caller seq                  a module: arguments that each script with it must have
    -- IMPLEMENTS: storage_extended       a kind's file: the hooks of engine/lua/storage.lua it has
    -- REPLACES: settle                   a kind's own script in place of the engine's of that name
    -- TYPES: once                        when the types of all keys are checked, see below
    -- CHECKS: meta lease                 with TYPES: keys that it writes before it reads them
    -- ENTRIES: op_{caller}=hash          keys made of a part and arguments, with their types
    -- RARELY: cancelled gone             counters that few calls change: read when they do
    -- FIRST: HGET                        a module: a command that it runs before any write
    -- RUN_BY: worker                     a worker runs it in its loop, not an operator
    -- FLAGS: allow-oom                   script flags for the server

Beside KEYS and ARGV each file may use: ``now`` (integer ms: the server's TIME, or a test's clock),
``now_text`` (the same as text: a number as a command's argument costs as much again as the
command), ``first`` (index in ARGV of the first row), ``width`` (columns of a row), ``DEFAULT``
(settings), ``run_by`` (``worker`` or ``operator``). The modules ``type_check`` and ``counters`` get
``key_types()`` and ``COUNTERS``.

Only what a script needs is in it: functions, constants and keys that nothing mentions are left out,
since each takes the server time to set up in every call.

Types of keys are checked before the first write: what a script has written stays when it fails. By
default a script checks all of its keys in each call. ``once``: a process checks them when it begins
(`Room`), for scripts that run once a delivery. ``first``: for numbered steps that run thousands of
times, only where ``seq`` is 1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

from ..model.clock import Clock
from ..model.errors import BadInput
from ..model.keys import Keys
from ..model.settings import MAX_BATCH, lua_defaults
from ..model.states import FIXED
from .operation import Arg, Call

T = TypeVar("T")

NUMBERS = {
    "fence", "gen", "laps", "turn", "waiting", "cancelled", "done", "gone", "spent", "returned",
    "popped", "shown", "vt", "vt_latest",
}  # fmt: skip
"""fields of ``stat`` that are numbers: a script reads those that it counts with before it writes"""
ENGINE = "engine"
HOOK = "storage_"
"""how the names of hooks begin"""
_FIXED = frozenset(FIXED.items())
_CORE = "redisq_ops.core"
_WORD = re.compile(r"(?<!\w\.)\b\w+")
_NO_CODE = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|--[^\n]*")
"""strings and comments"""
_GOES_ON = re.compile(r"\s|(end|else|elseif|until)\b|[)}]")
"""how a line begins that belongs to the statement above it"""
_FUNCTION = re.compile(r"local function (\w+)")
_CONSTANT = re.compile(r"local ([\w, ]+?)(?: = ([^(]*))?$")
"""local variables whose value calls nothing"""
_COUNTED = re.compile(r"\bcounters_(?:add|reserve)\(|stat,")
_CALL = re.compile(r"redis\.p?call\(\s*([^,)]+)(?:,\s*'([A-Z]+)')?")
_COMMAND = re.compile(r"'([A-Z]+)'")
_CONTAINERS = frozenset({"XGROUP", "XINFO"})
_NOW = """local now_text = ARGV[1]
local now = tonumber(now_text)
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
  now_text = now .. ''
end"""


@dataclass(frozen=True, slots=True)
class ScriptHeader:
    """The words of the comment block on top of a Lua file."""

    keys: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    implements: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    rarely: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    run_by: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> ScriptHeader:
        words = {field.name.upper() for field in fields(cls)}
        found: dict[str, tuple[str, ...]] = {}
        for line in text.splitlines():
            if not line.startswith("--"):
                break
            word, colon, names = line[2:].strip().partition(":")
            if colon and word in words:
                found[word.lower()] = found.get(word.lower(), ()) + tuple(names.split())
        return cls(**found)

    @property
    def writes(self) -> bool:
        return "no-writes" not in self.flags


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
        if len(rows) > MAX_BATCH:  # a call's length is everybody's wait, and unpack() has an end
            raise BadInput(f"{self.name}: {len(rows)} at once, {MAX_BATCH} at most")
        flat = [arg for row in rows for arg in row]
        if flat and (not self.header.rest or len(flat) % len(self.header.rest)):
            raise TypeError(f"{self.name}: rows must be {self.header.rest}")
        return Call(
            ("EVALSHA", self.sha, len(names), *names, clock.stamp(), *argv.values(), *flat),
            read,
            key=names[0],
            source=self.text,
        )


@cache
def script(room: str, name: str, kinds: frozenset[tuple[str, str]] = _FIXED) -> Script:
    """Load the script ``name`` of a kind's folder (``"queues.request"``), or else the engine's.

    ``kinds``: parts of the key schema, with the types of their keys.
    """
    body = _read(room, name)
    header = ScriptHeader.parse(body)
    order = _modules(room, header)
    texts = {unit: _read_unit(room, unit) for unit in order}
    checks = _type_checks(header, dict(kinds))
    code = {unit: list(_statements(text)) for unit, text in texts.items()}
    code |= {"": checks} if header.writes else {}  # behind `type_check`, which comes first
    code = {unit: code[unit] for unit in (*order[:1], "", *order[1:]) if unit in code}
    code[name] = list(_statements(body))
    needed = _needed([statement for statements in code.values() for statement in statements])
    text = "\n".join(needed)
    headers = [header, *map(ScriptHeader.parse, texts.values())]
    mentioned = set(_WORD.findall(_NO_CODE.sub("", text)))
    keys = [key for key in dict.fromkeys(key for each in headers for key in each.keys)
            if key in mentioned]  # fmt: skip
    full = ScriptHeader(tuple(keys), header.argv, header.rest, tuple(order), flags=header.flags)
    lines = [f"#!lua flags={','.join(full.flags)}" if full.flags else "#!lua"]
    lines += [f"local {key} = KEYS[{i}]" for i, key in enumerate(keys, 1)]
    lines += [f"local {arg} = ARGV[{i}]" for i, arg in enumerate(full.argv, 2)]
    lines += [f"local first, width = {len(full.argv) + 2}, {len(full.rest)}", lua_defaults()]
    if header.writes:
        # TYPE, which `type_check` runs before the first write, ends the script there by itself.
        type_check = set(code.get("type_check", ()))
        rest = "\n".join(statement for statement in needed if statement not in type_check)
        lines += _rights(rest, keys, {word for each in headers for word in each.first})
    lines.append(_NOW)
    if "run_by" in mentioned:
        lines.append(f"local run_by = '{' '.join(header.run_by) or 'operator'}'")
    if "COUNTERS" in mentioned:
        lines.append(f"local COUNTERS = {{{_counters(text, header.rarely)}}}")
    if "key_types" in mentioned:
        lines.append(_key_types(header, keys, dict(kinds)))
    text = "\n".join([*lines, text])
    return Script(f"{room}/{name}", text, hashlib.sha1(text.encode()).hexdigest(), full)


def _modules(room: str, header: ScriptHeader) -> list[str]:
    """The modules of a script, its hooks resolved, in the order they must stand: what one uses
    comes before it, and `type_check` before all others, which may read."""
    order: list[str] = []

    def collect(uses: Iterable[str]) -> None:
        for name in uses:
            unit = hooks(room).get(name, name)
            if unit not in order:
                collect(ScriptHeader.parse(_read_unit(room, unit)).uses)
                order.append(unit)

    collect(("type_check", *header.uses) if header.writes else header.uses)
    return order


@cache
def hooks(room: str) -> dict[str, str]:
    """The hooks that a kind implements -> the file of its folder where it does."""
    found: dict[str, str] = {}
    folder = _folder(room)
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.name.endswith(".lua"):
            for hook in ScriptHeader.parse(file.read_text(encoding="utf-8")).implements:
                found[hook] = file.name.removesuffix(".lua")
    return found


def defaults() -> dict[str, str]:
    """The hooks of the storage interface, each with its comment and its default, if it has one."""
    sections = _read(ENGINE, "storage").strip().split("\n\n")[1:]
    return {re.split(r"\W", section.removeprefix("-- "), maxsplit=1)[0]: section
            for section in sections}  # fmt: skip


def _read_unit(room: str, unit: str) -> str:
    """A module's text, or a hook's default."""
    if not unit.startswith(HOOK):
        return _read(room, unit)
    default = defaults()[unit]
    if not any(_statements(default)):
        raise LookupError(f"{room}: no file implements {unit}")
    return default


def _read(room: str, name: str) -> str:
    own = _folder(room) / f"{name}.lua"
    place = own if own.is_file() else _folder(ENGINE) / f"{name}.lua"
    return place.read_text(encoding="utf-8")


def _folder(room: str) -> Traversable:
    return files(f"{_CORE}.{room}") / "lua"


def _statements(text: str) -> Iterator[str]:
    """The statements of a file's outermost level, without comments of their own line. Each begins
    with a line that isn't indented."""
    found: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("--"):
            continue
        if found and not _GOES_ON.match(line):
            yield "\n".join(found)
            found = []
        found.append(line)
    if found:
        yield "\n".join(found)


def _needed(statements: Sequence[str]) -> list[str]:
    """The statements without functions and constants that no other statement needs."""
    functions = [found[1] for found in map(_FUNCTION.match, statements) if found]
    assert len(functions) == len(set(functions)), "two functions of one name"
    defined = [_defines(statement) for statement in statements]
    words = [set(_WORD.findall(_NO_CODE.sub("", statement))) for statement in statements]
    kept = {i for i, names in enumerate(defined) if not names}
    ahead = list(kept)
    while ahead:
        mentioned = words[ahead.pop()]
        more = {i for i, names in enumerate(defined) if i not in kept and mentioned & names}
        kept |= more
        ahead += more
    return [statements[i] for i in sorted(kept)]


def _defines(statement: str) -> set[str]:
    """The names that a statement defines, if it does nothing else."""
    if found := _FUNCTION.match(statement):
        return {found[1]}
    found = _CONSTANT.match(re.sub(r"--[^\n]*", "", statement).rstrip())
    return set(re.split(r", *", found[1])) if found else set()


def _type_checks(header: ScriptHeader, kinds: dict[str, str]) -> list[str]:
    """Lua that checks the types of keys, as the header has it."""
    if header.types == ("once",):
        return [f"type_check_key({key}, '{kinds[key]}')" for key in header.checks if key in kinds]
    return ["if seq == '1' then type_check_all() end" if header.types else "type_check_all()"]


def _key_types(header: ScriptHeader, keys: Iterable[str], kinds: dict[str, str]) -> str:
    """Lua that returns the types of a script's keys, by key."""
    typed = [f"[{key}] = '{kinds[key]}'" for key in keys if key in kinds]
    for entry in header.entries:
        made, _, type_ = entry.partition("=")
        part, *more = re.findall(r"[^{}]+", made)
        joined = [part, *(f"'{word}'" if word == ":" else word for word in more)]
        typed.append(f"[{' .. '.join(joined)}] = '{type_}'")
    return f"local function key_types() return {{{', '.join(typed)}}} end"


def _counters(text: str, rarely: tuple[str, ...]) -> str:
    """The counters that a script changes or reads, but for those that it rarely does."""
    lines = "\n".join(line for line in text.splitlines() if _COUNTED.search(line))
    named = {*re.findall(r"'(\w+)'", lines), *re.findall(r"\bcounters_known\.(\w+)", text)}
    return ", ".join(map(repr, sorted(NUMBERS & named - set(rarely))))


def commands(text: str) -> list[tuple[str, ...]]:
    """The commands that a script may run, a container's with the subcommand, each once.

    Not PUBLISH: it wakes who waits for a request, who looks every two seconds all the same. So
    scripts run it by `redis.pcall`, and a user without it, or without channels, loses no more. Nor
    those of a table (`SIZE`): without one of them `type_check` asks for the type.
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
    reading and writing of every key that is declared. Each command is asked for with one of them,
    all the same: without it what an ACL selector allows for other keys would count, and servers
    crash that look for the key of SET or EVAL behind the last argument (Redis 7.0, Valkey 9.1).
    Nor do commands that run before anything is written, as TIME does (`first`): if the user may not
    run them, the script ends there. These are `denial.READ_FIRST`.
    """
    checked = [command for command in commands(text) if command[0] not in {"TIME", *first}]
    if len(checked) < 2:
        return []
    chain = "\n    or ".join(
        f"not may({_asked(command, keys[0])}) and '{'|'.join(command).lower()}'"
        for command in checked
    )
    return [f"""do
  local may = redis.acl_check_cmd
  local lacks = {chain}
  if lacks then
    return {{err = "NOPERM this user has no permissions to run the '" .. lacks .. "' command"}}
  end
end"""]  # fmt: skip


def _asked(command: tuple[str, ...], key: str) -> str:
    """Arguments of `redis.acl_check_cmd`: the command, with a key where the ACL looks for it."""
    words = [f"'{word}'" for word in command]
    return ", ".join(
        [*words, *(["'STREAMS'", key, "'>'"] if command == ("XREADGROUP",) else [key])]
    )
