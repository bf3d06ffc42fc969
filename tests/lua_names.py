"""Lint of names in Lua: ``python -m tests.lua_names`` fails for a name that nobody can look up.

In a Lua file each name is a local of the file, a word of its header (KEYS, ARGV, NEEDS, PARTS), a
definition of a module that the header USES, a hook of the storage interface that it USES, a name
that the loader gives (`redisq_ops.core.redis.scripts`), or part of Lua.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from luaparser import ast
from luaparser import astnodes as lua

from redisq_ops import core
from redisq_ops.core.redis import script_files
from redisq_ops.core.redis.script_files import ENGINE, ScriptHeader

CORE = Path(core.__file__).parent
KINDS = {
    ENGINE: ("queues.request",),
    "foreign": ("foreign.rq", "foreign.arq", "foreign.resque", "foreign.sidekiq"),
    "foreign.ruby_jobs": ("foreign.resque", "foreign.sidekiq"),
}
"""folders of shared scripts -> kinds that run them"""
LOADER = {
    "KEYS",
    "ARGV",
    "now",
    "now_text",
    "first",
    "width",
    "DEFAULT",
    "run_by",
    "key_types",
    "COUNTERS",
}
LUA = {
    "redis",
    "cjson",
    "cmsgpack",
    "string",
    "table",
    "math",
    "tonumber",
    "tostring",
    "type",
    "pairs",
    "ipairs",
    "next",
    "unpack",
    "error",
    "pcall",
    "rawget",
    "setmetatable",
}


@dataclass
class Names:
    """What a chunk of Lua defines on its outermost level, and the names it takes from elsewhere."""

    defined: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, text: str) -> Names:
        found = cls()
        found._block(ast.parse(text).body.body, [found.defined])
        return found

    def _block(self, statements: Iterable[Any], scopes: list[set[str]]) -> None:
        for statement in statements:
            self._visit(statement, scopes)

    def _inner(self, statements: Iterable[Any], scopes: list[set[str]], *names: Any) -> None:
        self._block(statements, [*scopes, {name.id for name in names if hasattr(name, "id")}])

    def _visit(self, node: Any, scopes: list[set[str]]) -> None:
        match node:
            case lua.Name():
                if not any(node.id in scope for scope in scopes):
                    self.free.add(node.id)
            case lua.LocalAssign():  # the names are there once the values are known
                self._block(node.values, scopes)
                scopes[-1].update(name.id for name in node.targets)
            case lua.LocalFunction():
                scopes[-1].add(node.name.id)
                self._inner(node.body.body, scopes, *node.args)
            case lua.AnonymousFunction():
                self._inner(node.body.body, scopes, *node.args)
            case lua.Forin():
                self._block(node.iter, scopes)
                self._inner(node.body.body, scopes, *node.targets)
            case lua.Fornum():
                self._block([node.start, node.stop, node.step], scopes)
                self._inner(node.body.body, scopes, node.target)
            case lua.Repeat():
                self._inner([*node.body.body, node.test], scopes)
            case lua.Block():
                self._inner(node.body, scopes)
            case lua.Index():
                self._visit(node.value, scopes)
                if node.notation == lua.IndexNotation.SQUARE:
                    self._visit(node.idx, scopes)
            case lua.Invoke():
                self._block([node.source, *node.args], scopes)
            case lua.Field():
                self._visit(node.value, scopes)
                if node.between_brackets:
                    self._visit(node.key, scopes)
            case lua.Node():
                for value in vars(node).values():
                    parts = value if isinstance(value, list) else [value]
                    self._block((part for part in parts if isinstance(part, lua.Node)), scopes)


@dataclass
class LuaFile:
    path: Path

    @property
    def folder(self) -> str:
        """The package whose ``lua`` folder has the file."""
        return ".".join(self.path.parent.parent.relative_to(CORE).parts)

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def header(self) -> ScriptHeader:
        return ScriptHeader.parse(self.text)

    @cached_property
    def names(self) -> Names:
        return Names.of(self.text)

    @property
    def is_script(self) -> bool:
        """A script is called by itself; a module has no arguments of its own."""
        return bool(self.header.argv or self.header.rest)

    def __str__(self) -> str:
        return str(self.path)


class Tree:
    """All Lua files, looked up as the loader does."""

    def __init__(self, root: Path = CORE) -> None:
        self.files = [LuaFile(path) for path in sorted(root.rglob("lua/*.lua"))]
        self.places = {(file.folder, file.name): file for file in self.files}
        self.hooks = {file.folder: script_files.defaults(file.folder) for file in self.files}

    def module(self, folder: str, name: str) -> LuaFile | None:
        places = [(place, name) for place in script_files.folders(folder)]
        return next((self.places[place] for place in places if place in self.places), None)

    def problems(self) -> Iterator[str]:
        for file in self.files:
            if file.header.interface:
                yield from self._interface(file)
            else:
                for problem in (*self.of(file), *self._exports(file), *self._arguments(file)):
                    yield f"{file}: {problem}"

    def of(self, file: LuaFile) -> Iterator[str]:
        """What is wrong with the names of one file."""
        header, names, defaults = file.header, file.names, self.hooks[file.folder]
        own = {*header.keys, *header.argv, *header.needs, *header.parts}
        known = own | LOADER | LUA
        for use in header.uses:
            module = None if use in defaults else self.module(file.folder, use)
            if use not in defaults and module is None:
                yield f"USES {use}, and there is no such module or hook"
                continue
            gives = {use} if module is None else module.names.defined - defaults.keys()
            if not gives & names.free:
                yield f"USES {use}, and uses nothing of it"
            known |= gives
        for name in sorted(names.free - known):
            yield f"{name} is no local, and nothing in the header says where it comes from"
        # A script needs one key: in a Cluster the call goes to the server that has it.
        keys = () if header.argv and len(header.keys) == 1 else header.keys
        for name in sorted({*keys, *header.needs} - names.free):
            yield f"the header declares {name}, and the file doesn't use it"
        prefixes = tuple({f"{hook.partition('_')[0]}_" for hook in defaults})
        hooks = {name for name in names.defined if name.startswith(prefixes)}
        for name in sorted(hooks ^ set(header.implements)):
            yield f"{name} is defined and not in IMPLEMENTS, or the other way round"
        for name in sorted(hooks - defaults.keys()):
            yield f"{name} is no hook of an interface"
        others = script_files.folders(file.folder)[1:] if file.folder != ENGINE else ()
        shared = [place for place in others if (place, file.name) in self.places]
        if shared and not header.implements and header.replaces != (file.name,):
            yield f"{shared[0]} has a {file.name}.lua too, and the header doesn't say REPLACES"

    def _interface(self, file: LuaFile) -> Iterator[str]:
        """Each default of an interface names what it needs in the comment above it."""
        for hook, section in self.hooks[file.folder].items():
            if section not in file.text:
                continue
            header, names = ScriptHeader.parse(section), Names.of(section)
            known = LOADER | LUA | set(header.keys)
            for use in header.uses:
                module = None if use in self.hooks[file.folder] else self.module(file.folder, use)
                known |= {use} if module is None else module.names.defined
            for name in sorted(names.free - known):
                yield f"{file}: {hook}: nothing says where {name} comes from"
            if names.defined - {hook}:
                yield f"{file}: {hook}: defines {names.defined}"

    def _exports(self, file: LuaFile) -> Iterator[str]:
        """Names that other files use carry the module's name."""
        if file.is_script or file.folder.startswith("foreign"):
            return
        for name in sorted(file.names.defined - self.hooks[file.folder].keys()):
            carries = f"{name.lower()}_".startswith(f"{file.name}_")
            users = [
                user
                for user in self.files
                if user is not file and name in user.names.free and file.name in user.header.uses
            ]
            if users and not carries:
                yield f"{name} is used in {users[0].name}.lua and doesn't carry the module's name"

    def _arguments(self, file: LuaFile) -> Iterator[str]:
        """A script has the arguments that its modules need."""
        if not file.is_script:
            return
        for folder in KINDS.get(file.folder, (file.folder,)):
            names = file.header.parts
            parts = [part.header for name in names if (part := self.module(folder, name))]
            for unit, text in script_files.modules(folder, file.header.joined(parts)).items():
                needs = ScriptHeader.parse(text).needs
                if lacks := set(needs) - set(file.header.argv):
                    yield f"{unit} NEEDS the arguments {sorted(lacks)}"


def main() -> int:
    problems = list(Tree().problems())
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
