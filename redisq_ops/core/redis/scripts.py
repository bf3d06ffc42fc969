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
    -- INTERFACE: storage                 hooks and their defaults: engine/lua/storage.lua
    -- IMPLEMENTS: storage_extended       a kind's file: the hooks that it defines
    -- EXTENDS: foreign.ruby_jobs         a kind's file: a folder whose files the kind has as well
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
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
_FIXED = frozenset(FIXED.items())
_CORE = "redisq_ops.core"
_PARAGRAPH = re.compile(r"-- (\w+)")
"""how a hook's comment begins"""
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
    interface: tuple[str, ...] = ()
    implements: tuple[str, ...] = ()
    extends: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    rarely: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    run_by: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

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

    def joined(self, parts: Sequence[ScriptHeader]) -> ScriptHeader:
        """The header of a script with those of the scripts that it runs one after the other."""
        words = {
            field: tuple(dict.fromkeys(word for each in (self, *parts)
                                       for word in getattr(each, field)))
            for field in ("keys", "uses", "checks", "entries", "first")
        }  # fmt: skip
        if parts:  # what one of them needs often is read at once for all
            rare = set.intersection(*(set(part.rarely) for part in parts))
            words["rarely"] = tuple(sorted(rare))
        return replace(self, **words)


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
def script(package: str, name: str, key_types: frozenset[tuple[str, str]] = _FIXED) -> Script:
    """Load the script ``name`` of a kind's folder (``"queues.request"``), or else the engine's.

    ``key_types``: parts of the key schema, with the types of their keys.
    """
    body = _read(package, name)
    header = ScriptHeader.parse(body)
    if header.parts:
        parts = {part: _read(package, part) for part in header.parts}
        header = header.joined([ScriptHeader.parse(text) for text in parts.values()])
        body = "\n".join([*(_as_function(part, text) for part, text in parts.items()), body])
    texts = modules(package, header)
    headers = [header, *map(ScriptHeader.parse, texts.values())]
    uses = tuple(texts)
    types = dict(key_types)
    # Types first: other modules read.
    checks = [*_statements(texts.pop("type_check")), *_type_checks(header, types)] if (
        header.writes) else []  # fmt: skip
    work = [statement for text in (*texts.values(), body) for statement in _statements(text)]
    needed = _needed([*checks, *work])
    code = "\n".join(needed)
    mentioned = set(_WORD.findall(_NO_CODE.sub("", code)))
    keys = tuple(dict.fromkeys(key for each in headers for key in each.keys))
    lines = [f"#!lua flags={','.join(header.flags)}" if header.flags else "#!lua"]
    lines += [f"local {key} = KEYS[{i}]" for i, key in enumerate(keys, 1)]
    lines += [f"local {arg} = ARGV[{i}]" for i, arg in enumerate(header.argv, 2)]
    lines += [f"local first, width = {len(header.argv) + 2}, {len(header.rest)}", lua_defaults()]
    if header.writes:
        # TYPE, which the checks run before the first write, ends the script there by itself.
        writing = "\n".join(statement for statement in needed if statement not in checks)
        lines += _rights(writing, keys, {word for each in headers for word in each.first})
    lines.append(_NOW)
    if "run_by" in mentioned:
        lines.append(f"local run_by = '{' '.join(header.run_by) or 'operator'}'")
    if "COUNTERS" in mentioned:
        lines.append(f"local COUNTERS = {{{_counters(code, header.rarely)}}}")
    if "key_types" in mentioned:
        lines.append(_key_types(header, keys, types))
    # A new closure looks for its variables among all that are open in running functions. In a
    # function of their own the modules find keys and arguments at once: a tenth of a short call.
    text = "\n".join([*lines, "local function main()", code, "end", "return main()"])
    declared = replace(header, keys=keys, uses=uses)
    return Script(f"{package}/{name}", text, hashlib.sha1(text.encode()).hexdigest(), declared)


def script_names(package: str) -> tuple[str, ...]:
    """The scripts that a queue of a kind's folder can run."""
    files = (each for place in folders(package) for each in _headers(place))
    return tuple(dict.fromkeys(name for name, header in files if header.argv))


def _as_function(name: str, body: str) -> str:
    """A script's body as a Lua function without arguments: a statement of the outermost level."""
    lines = (f"  {line}" for line in body.splitlines() if not line.startswith("--"))
    return "\n".join([f"local function {name}()", *lines, "end"])


def modules(package: str, header: ScriptHeader) -> dict[str, str]:
    """The texts of a script's modules and of the defaults of its hooks, in the order they must
    stand: what one uses comes before it, and `type_check` before all others, which may read."""
    texts: dict[str, str] = {}
    implemented, default = hooks(package), defaults(package)

    def collect(uses: Iterable[str]) -> None:
        for name in uses:
            unit = implemented.get(name, name)
            if unit in texts:
                continue
            text = default[unit] if unit in default else _read(package, unit)
            if not any(_statements(text)):
                raise FileNotFoundError(f"{package}: no file implements {unit}")
            collect(ScriptHeader.parse(text).uses)
            texts[unit] = text

    collect(("type_check", *header.uses) if header.writes else header.uses)
    return texts


@cache
def hooks(package: str) -> dict[str, str]:
    """The hooks that a kind implements -> the file of its folder where it does."""
    return {
        hook: name
        for place in reversed(folders(package))
        for name, header in _headers(place)
        for hook in header.implements
    }


def defaults(package: str) -> dict[str, str]:
    """The hooks that scripts of a kind may call, each with its comment and, if it has one, its
    default: the paragraphs of an interface's file behind its header."""
    sections = [section for place in folders(package) for name, header in _headers(place)
                if header.interface
                for section in _read(place, name).strip().split("\n\n")[1:]]  # fmt: skip
    return {_PARAGRAPH.split(section, maxsplit=1)[1]: section for section in sections}


@cache
def _headers(package: str) -> tuple[tuple[str, ScriptHeader], ...]:
    """The files of one folder, by name, and their headers."""
    folder = _folder(package)
    found = [file for file in folder.iterdir() if file.name.endswith(".lua")] if (
        folder.is_dir()) else []  # fmt: skip
    return tuple(
        (file.name.removesuffix(".lua"), ScriptHeader.parse(file.read_text(encoding="utf-8")))
        for file in found
    )


def _read(package: str, name: str) -> str:
    places = [_folder(place) / f"{name}.lua" for place in folders(package)]
    found = [place for place in places if place.is_file()]
    return (found or places)[0].read_text(encoding="utf-8")


def folders(package: str) -> tuple[str, ...]:
    """Where a kind's files are looked for: its own folder, those it extends, its neighbours', the
    engine's."""
    extended = [place for _, header in _headers(package) for place in header.extends]
    return tuple(dict.fromkeys((package, *extended, package.partition(".")[0], ENGINE)))


@cache
def _folder(package: str) -> Traversable:
    return files(f"{_CORE}.{package}") / "lua"


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
