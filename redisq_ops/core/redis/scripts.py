"""Lua files and their header contract.

A script is one short file whose header names its keys and arguments; the loader turns that header
into the ``local`` lines, so what is documented is what runs::

    -- Put entries back.                      what it does, in words
    -- KEYS: lease meta                       parts of the queue's key schema, in order
    -- ARGV: caller seq                       scalar arguments, in order
    -- REST: id receipt                       shape of the rows that follow, if any
    -- USES: guard moves                      shared fragments it stands on
    -- LOOKS: meta                            keys that it writes and doesn't read before (`BUSY`)
    -- FLAGS: allow-oom                       script flags for the server

Fragments (in ``core/engine/lua`` or the queue's own ``lua`` folder, which wins) have headers too;
their keys are added to the script's. Every script gets ``now`` (integer ms, the server's TIME once
per call unless a test's clock is given), ``now_text`` (the same as text: a number as a command's
argument costs as much again as the command) and ``first`` (index of the first row in ARGV), and of
the fragments' functions those that it needs: each takes the server time to set up, every call.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from ..model.clock import Clock
from ..model.errors import BadInput
from ..model.keys import Keys
from ..model.settings import MAX_BATCH, lua_defaults
from ..model.states import FIXED
from .operation import Arg, Call

T = TypeVar("T")

BUSY = frozenset({"take", "settle", "submit", "push", "enqueue", "schedule"})
"""scripts that run once a delivery or more often: for these a process looks at the keys' types once
(`Room`), all others but `STEPS` look themselves, at every key before the first write"""
STEPS = frozenset({"move_range"})
"""scripts that run thousands of times in a row, numbered by ``seq``: the first looks at every key,
so that one in the way is named, the later ones at those that they write and haven't read"""
_FIXED = frozenset(FIXED.items())
_SHARED = "redisq_ops.core"
NUMBERS = {
    "fence", "gen", "laps", "turn", "waiting", "cancelled", "done", "gone", "spent", "returned",
    "popped", "shown", "vt", "vt_latest",
}  # fmt: skip
"""fields of ``stat`` that are numbers: a script looks at those that it mentions before it writes"""
SELDOM = {
    "take": {"cancelled", "done", "gone", "turn"},
    "settle": {"cancelled", "gone", "vt", "vt_latest"},
    "submit": {"cancelled"},
}
"""of these, those that a `BUSY` script needs in rare cases, and looks at then"""
OPERATION = ("done", "undone", "freed", "landing", "keep")
"""fields of an operation's journal entry that scripts count with"""
_NUMBERS_HERE = "sound(stat)"
_WORD = re.compile(r"(?<!\w\.)\b\w+")
_FUNCTION = re.compile(
    r"^local function (\w+)\((?:[^\n]* end|.*?^end)$\n?", re.DOTALL | re.MULTILINE
)
"""in one line, or up to the first `end` that isn't indented"""
_CALL = re.compile(r"redis\.p?call\(\s*([^,)]+)(?:,\s*'([A-Z]+)')?")
_COMMAND = re.compile(r"'([A-Z]+)'")
_NO_CODE = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|--[^\n]*")
"""strings and comments"""
_CONTAINERS = frozenset({"XGROUP", "XINFO"})
_READ_FIRST = {"config": "HGETALL", "idempotency": "HGET"}
"""fragment -> the command with which it reads before anything is written. As TIME, which every
script runs first, it needs no check: if the user may not run it, the script ends there (these
are `denial.READ_FIRST`)"""
_NOW = """local now_text = ARGV[1]
local now = tonumber(now_text)
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
  now_text = now .. ''
end
"""


@dataclass(frozen=True, slots=True)
class ScriptHeader:
    """What the comment block on top of a Lua file promises."""

    keys: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> ScriptHeader:
        found: dict[str, tuple[str, ...]] = {}
        for line in text.splitlines():
            if not line.startswith("--"):
                break
            word, colon, names = line[2:].strip().partition(":")
            if colon and word in {"KEYS", "ARGV", "REST", "USES", "FLAGS", "LOOKS"}:
                found[word.lower()] = found.get(word.lower(), ()) + tuple(names.split())
        return cls(**found)


@dataclass(frozen=True, slots=True)
class Script:
    """A loaded script: its text, digest and contract."""

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
    """Load ``name`` of a kind's folder (``"queues.request"``) or else of ``core/engine/lua``.

    ``kinds``: the types its keys have.
    """
    body = _read(room, name)
    header = ScriptHeader.parse(body)
    order: list[str] = []
    looks = name not in BUSY and "no-writes" not in header.flags
    _collect(room, ("type_check", *header.uses) if looks else header.uses, order)
    texts = [_read(room, fragment) for fragment in order]
    keys = list(header.keys)
    for text in texts:
        keys += [key for key in ScriptHeader.parse(text).keys if key not in keys]
    full = ScriptHeader(tuple(keys), header.argv, header.rest, tuple(order), header.flags)
    lines = [f"#!lua flags={','.join(full.flags)}" if full.flags else "#!lua"]
    lines += [f"local {key} = KEYS[{i}]" for i, key in enumerate(keys, 1)]
    lines += [f"local {arg} = ARGV[{i}]" for i, arg in enumerate(full.argv, 2)]
    lines += [f"local first, width = {len(full.argv) + 2}, {len(full.rest)}", lua_defaults(), _NOW]
    lines.append(f"local running = '{name}'")
    if "type_check" in order:
        lines += [_kinds(full, dict(kinds)), _stripped(_read(room, "type_check"))]
        look = "if seq == '1' then fit() end" if name in STEPS else "fit()"
        lines += [look] if looks else []  # before the others, which may read
        types = dict(kinds)
        lines += [f"must_be({key}, '{types[key]}')" for key in header.looks if key in types]
        texts.pop(order.index("type_check"))
    if "stat" in keys and "corrupt_values" in order and "no-writes" not in header.flags:
        lines += [_stripped(_read(room, "corrupt_values")), _NUMBERS_HERE]
        if looks and name not in STEPS:
            whole = "\n".join([*texts, body])
            lines += [
                f"sound(op_ .. {op}, {{{', '.join(map(repr, OPERATION))}}})"
                for op in ("op", "caller")
                if op in full.argv and f"op_ .. {op}" in whole
            ]
        texts.pop([name for name in order if name != "type_check"].index("corrupt_values"))
    text = "\n".join([*lines, *map(_stripped, [*texts, body])])
    text = _counting(_shaken(text), name)
    if "no-writes" not in full.flags:
        # TYPE, which `fit` runs before the first write, ends the script there by itself.
        running = text.replace(_stripped(_read(room, "type_check")), "")
        text = text.replace(_NOW, _rights(running, full) + _NOW, 1)
    return Script(f"{room}/{name}", text, hashlib.sha1(text.encode()).hexdigest(), full)


def _counting(text: str, name: str) -> str:
    """The script with the names of the counters that it uses, in the place of their check."""
    uses = [line for line in text.splitlines() if re.search(r"\b(count|reserve)\(|stat,", line)]
    named = re.findall(r"'(\w+)'", "\n".join(uses)) + re.findall(r"\bcounted\.(\w+)", text)
    names = sorted(NUMBERS & set(named) - SELDOM.get(name, set()))
    found = f"sound(stat, {{{', '.join(map(repr, names))}}})" if names else "{}"
    check = f"local counted = {found}"
    return text.replace(_NUMBERS_HERE, check)


def _kinds(header: ScriptHeader, kinds: dict[str, str]) -> str:
    """Lua that says which type each key has, an operation's own too."""
    typed = [f"[{key}] = '{kinds[key]}'" for key in header.keys if key in kinds]
    op, step = ("op", "step") if "op" in header.argv else ("caller", "seq")
    named: dict[str, tuple[str, str]] = {}
    if op in header.argv:
        named["op_"] = f"op_ .. {op}", "hash"
    if step in header.argv:
        named["undo_"] = f"undo_ .. {op} .. ':' .. {step}", "list"
        named["land_"] = f"land_ .. {op} .. ':' .. {step}", "hash"
    typed += [f"[{named[key][0]}] = '{named[key][1]}'" for key in header.keys if key in named]
    return f"local function kinds() return {{{', '.join(typed)}}} end"


def commands(text: str) -> list[tuple[str, ...]]:
    """The commands that a script may run, a container's with the subcommand, each once.

    Not PUBLISH: it wakes who waits for a request, who looks every two seconds all the same. So
    scripts run it by `redis.pcall`, and a user without it, or without channels, loses no more. Nor
    those of a table (`SIZE`): without one of them `fit` asks for the type.
    """
    found: dict[tuple[str, ...], None] = {}
    for name, second in _CALL.findall(text):
        spelled = _COMMAND.findall(name)
        assert spelled or "[" in name, f"redis.call({name}, …): write the command's name there"
        for word in spelled:
            found[(word, second) if word in _CONTAINERS else (word,)] = None
    found.pop(("PUBLISH",), None)
    return list(found)


def _rights(text: str, header: ScriptHeader) -> str:
    """Lua that ends the script before its first write if the user may not run all its commands.

    A script that fails later keeps what it has written. Keys need no check: EVALSHA asks for
    reading and writing of every key that is declared. Each command is asked for with one of them,
    all the same: without it what an ACL selector allows for other keys would count, and servers
    crash that look for the key of SET or EVAL behind the last argument (Redis 7.0, Valkey 9.1).
    """
    first = {"TIME", *(_READ_FIRST[use] for use in header.uses if use in _READ_FIRST)}
    checked = [command for command in commands(text) if command[0] not in first]
    if len(checked) < 2:
        return ""
    chain = "\n    or ".join(
        f"not may({_asked(command, header.keys[0])}) and '{'|'.join(command).lower()}'"
        for command in checked
    )
    return f"""do
  local may = redis.acl_check_cmd
  local lacks = {chain}
  if lacks then
    return {{err = "NOPERM this user has no permissions to run the '" .. lacks .. "' command"}}
  end
end
"""


def _asked(command: tuple[str, ...], key: str) -> str:
    """Arguments of `redis.acl_check_cmd`: the command, with a key where the ACL looks for it."""
    words = [f"'{word}'" for word in command]
    return ", ".join(
        [*words, *(["'STREAMS'", key, "'>'"] if command == ("XREADGROUP",) else [key])]
    )


def _collect(room: str, uses: Iterable[str], order: list[str]) -> None:
    """Fragments in the order they must stand: what one uses comes before it."""
    for fragment in uses:
        if fragment not in order:
            _collect(room, ScriptHeader.parse(_read(room, fragment)).uses, order)
            order.append(fragment)


def _read(room: str, name: str) -> str:
    """A file of the kind's own folder, or of what is shared with its neighbours, or of all."""
    places = [
        files(f"{_SHARED}.{package}") / "lua" / f"{name}.lua"
        for package in (room, room.partition(".")[0], "engine")
    ]
    found = [place for place in places if place.is_file()]
    return (found or places[-1:])[0].read_text(encoding="utf-8")


def _stripped(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))


def _shaken(text: str) -> str:
    """The script without functions that nothing of what runs mentions."""
    functions = {found[1]: found[0] for found in _FUNCTION.finditer(text)}
    assert len(functions) == len(_FUNCTION.findall(text)), "two functions of one name"
    seen: set[str] = set()
    ahead = [_FUNCTION.sub("", text)]
    while ahead:
        mentioned = set(_WORD.findall(_NO_CODE.sub("", ahead.pop()))) & functions.keys() - seen
        seen |= mentioned
        ahead += [functions[name] for name in mentioned]
    return _FUNCTION.sub(lambda found: found[0] if found[1] in seen else "", text)
