"""Files of Lua: what their headers declare, and in which folders a kind finds them.

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
    -- AHEAD: storage_fast_path           a hook that runs before the modules are set up and may
                                          end the call; its file uses no module
    -- FLAGS: allow-oom                   script flags for the server

No comment of its own line reaches the server. One that begins with ``-- mutant`` describes a fault
in the next line, for the tests (``tests/mutants.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

ENGINE = "engine"
_CORE = "redisq_ops.core"
_ROOMS = (ENGINE, "foreign", "queues")
"""the folders of the core that have packages of kinds; any other package is outside redisq"""
_PARAGRAPH = re.compile(r"-- (\w+)")
"""how a hook's comment begins"""
_GOES_ON = re.compile(r"\s|(end|else|elseif|until)\b|[)}]")
"""the beginning of a line that continues the statement above it"""


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
    ahead: tuple[str, ...] = ()

    @classmethod
    @cache
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
        """One header for a script and the scripts that it runs one after the other."""
        words = {
            field: tuple(
                dict.fromkeys(word for each in (self, *parts) for word in getattr(each, field))
            )
            for field in ("keys", "uses", "checks", "entries", "first")
        }
        if parts:  # what one of them needs often is read at once for all
            rare = set.intersection(*(set(part.rarely) for part in parts))
            words["rarely"] = tuple(sorted(rare))
        return replace(self, **words)


def script_names(package: str) -> tuple[str, ...]:
    """The scripts that a queue of a kind's folder can run."""
    files = (each for place in folders(package) for each in _headers(place))
    return tuple(dict.fromkeys(name for name, header in files if header.argv))


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
            text = default[unit] if unit in default else read(package, unit)
            if not statements(text):
                raise FileNotFoundError(f"{package}: no file implements {unit}")
            collect(ScriptHeader.parse(text).uses)
            texts[unit] = text

    collect(("type_check", *header.uses) if header.writes else header.uses)
    return texts


def ahead(package: str, header: ScriptHeader) -> dict[str, str]:
    """The hooks that run before a script's modules are set up, and the kind's files with them."""
    implemented = hooks(package)
    return {hook: read(package, implemented[hook]) for hook in header.ahead if hook in implemented}


@cache
def hooks(package: str) -> dict[str, str]:
    """Hook -> the file of the kind's folder that implements it."""
    return {
        hook: name
        for place in reversed(folders(package))
        for name, header in _headers(place)
        for hook in header.implements
    }


def defaults(package: str) -> dict[str, str]:
    """The hooks that scripts of a kind may call, each with its comment and, if it has one, its
    default: the paragraphs of an interface's file behind its header."""
    sections = [
        section
        for place in folders(package)
        for name, header in _headers(place)
        if header.interface
        for section in read(place, name).strip().split("\n\n")[1:]
    ]
    return {_PARAGRAPH.split(section, maxsplit=1)[1]: section for section in sections}


@cache
def _headers(package: str) -> tuple[tuple[str, ScriptHeader], ...]:
    """The files of one folder, by name, and their headers."""
    folder = _folder(package)
    found = (
        [file for file in folder.iterdir() if file.name.endswith(".lua")]
        if (folder.is_dir())
        else []
    )
    return tuple(
        (file.name.removesuffix(".lua"), ScriptHeader.parse(file.read_text(encoding="utf-8")))
        for file in found
    )


def read(package: str, name: str) -> str:
    places = [_folder(place) / f"{name}.lua" for place in folders(package)]
    found = [place for place in places if place.is_file()]
    return (found or places)[0].read_text(encoding="utf-8")


def folders(package: str) -> tuple[str, ...]:
    """Where a kind's files are looked for: its own folder, those it extends, its neighbours', the
    engine's."""
    extended = [place for _, header in _headers(package) for place in header.extends]
    room = package.partition(".")[0] if _is_core(package) else "foreign"
    return tuple(dict.fromkeys((package, *extended, room, ENGINE)))


def _is_core(package: str) -> bool:
    return package.partition(".")[0] in _ROOMS


@cache
def _folder(package: str) -> Traversable:
    return files(f"{_CORE}.{package}" if _is_core(package) else package) / "lua"


@cache  # most files are in many scripts
def statements(text: str) -> tuple[str, ...]:
    """The statements of a file's outermost level, without comments of their own line. Each begins
    with a line that isn't indented."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("--"):
            continue
        if found and _GOES_ON.match(line):
            found[-1].append(line)
        else:
            found.append([line])
    return tuple("\n".join(lines) for lines in found)
