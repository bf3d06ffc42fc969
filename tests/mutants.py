"""Mutants: faults that comments in Lua describe, each above the line that it spoils.

A marker is ``-- mutant NAME: TEXT => OTHER TEXT``, where the text is in the next line of code once;
or ``-- mutant NAME``, and that line is left out. Markers of one name in one folder are one mutant.
A long one goes on in comments that are indented by three blanks.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import pytest

from redisq_ops import core
from redisq_ops.core.redis import script_files, scripts

T = TypeVar("T")

CORE = Path(core.__file__).parent
_MARKER = re.compile(r" *-- mutant ([^:]+)(?:: *(.*))?$")
_GOES_ON = re.compile(r" *--   (.*)$")


class BadMarker(Exception):
    """A marker that fits its line no longer, and where it is."""


@dataclass(frozen=True)
class Mutant:
    name: str
    package: str
    """whose folder has the Lua, as the loader names it"""
    paths: tuple[Path, ...]

    @property
    def spoilt(self) -> dict[str, str]:
        """The texts of its files, and what they are read as."""
        found = {}
        for path in self.paths:
            text = path.read_text(encoding="utf-8")
            try:
                found[text] = spoil(text, self.name)
            except BadMarker as error:
                raise BadMarker(f"{path}: {self.name}: {error}") from None
        return found

    @property
    def keys(self) -> tuple[str, str, str]:
        """Under which a table may have it: alone, with others of its file, or of its folder."""
        file = self.paths[0].stem
        return f"{self.package}/{self.name}", f"{self.package}/{file}", self.package

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Mark:
    name: str
    change: str | None

    def spoil(self, line: str) -> str:
        if self.change is None:
            return ""
        text, arrow, other = self.change.partition("=>")
        if not arrow or line.count(text.strip()) != 1:
            raise BadMarker(f"its line hasn't once what it replaces: {line.strip()}")
        return line.replace(text.strip(), other.strip())


def _marks(text: str) -> Iterator[tuple[int, _Mark]]:
    """The markers of a file, each with the index of its line of code."""
    above: list[_Mark] = []
    for at, line in enumerate(text.splitlines()):
        if found := _MARKER.match(line):
            above.append(_Mark(found[1], found[2]))
        elif above and above[-1].change is not None and (more := _GOES_ON.match(line)):
            above[-1] = _Mark(above[-1].name, f"{above[-1].change} {more[1]}")
        elif line.strip() and not line.lstrip().startswith("--"):
            yield from ((at, mark) for mark in above)
            above = []


def spoil(text: str, name: str) -> str:
    """A file with the fault in it."""
    lines = text.splitlines(keepends=True)
    marks = [(at, mark) for at, mark in _marks(text) if mark.name == name]
    if not marks:
        raise BadMarker("no line of code follows")
    for at, mark in marks:
        lines[at] = mark.spoil(lines[at])
    return "".join(lines)


@cache
def mutants() -> tuple[Mutant, ...]:
    """All that are written in the core's Lua."""
    found: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for path in sorted(CORE.rglob("*.lua")):
        package = ".".join(path.parent.parent.relative_to(CORE).parts)
        markers = map(_MARKER.match, path.read_text(encoding="utf-8").splitlines())
        for name in dict.fromkeys(marker[1] for marker in markers if marker):
            found[package, name].append(path)
    return tuple(Mutant(name, package, (*paths,)) for (package, name), paths in found.items())


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Its files are read with the fault in them; each of them has to be read."""
    read, spoilt, done = script_files.read, mutant.spoilt, set[str]()

    def reading(package: str, name: str) -> str:
        text = read(package, name)
        if text in spoilt:
            done.add(text)
        return spoilt.get(text, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script_files, "read", reading)
        scripts.script.cache_clear()
        try:
            yield
        finally:
            scripts.script.cache_clear()
    assert done == spoilt.keys(), "no script of that kind has the line"


def looked_up(table: Mapping[str, T], mutant: Mutant) -> T | None:
    """What a table says of a mutant, by the first of its keys that is there."""
    return next((table[key] for key in mutant.keys if key in table), None)


def by_turns(mutant: Mutant, finders: Sequence[T]) -> Sequence[T]:
    """Of one mutant in two one of those that find it. Its name chooses both: so each of them finds
    some. All of them with ``REDISQ_SEEDS`` in the environment."""
    if "REDISQ_SEEDS" in os.environ or not finders:
        return finders
    turn = crc32(mutant.keys[0].encode())
    return [finders[turn // 2 % len(finders)]] if turn % 2 else ()
