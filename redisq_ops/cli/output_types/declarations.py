"""The declared output types and their fields: what the JSON Schemas and the reference show.

The build derives the schemas too, without our dependencies: nothing here imports one.
"""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum
from functools import cache, reduce
from importlib import import_module
from inspect import cleandoc, getsource
from itertools import pairwise
from operator import or_
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from redisq_ops.core.model.row_fields import MoreWords, row_fields

Mark = TypeVar("Mark")

SECTIONS = {
    "queues": "Queues",
    "entries": "Entries",
    "requests": "Requests",
    "consumers": "Consumers and worker processes",
    "changes": "Changes",
    "recording": "Recordings",
    "configuration": "Configuration",
    "errors": "Errors",
    "files": "Files",
    "spark": "Spark",
}
"""module of output types -> its heading in the reference"""
PLAIN = {
    str: "string",
    bytes: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    Any: "any",
}
"""types that JSON has too -> their names there"""
ARRAYS, MAPS = (list, tuple, Sequence), (dict, Mapping)


@dataclass(frozen=True, slots=True)
class Hint:
    """A type without its marks."""

    kind: Any
    marks: tuple[Any, ...] = ()
    null: bool = False
    """whether the value can be null"""

    def mark(self, kind: type[Mark]) -> Mark | None:
        """Its mark of this kind, such as a `units.Unit`."""
        return next((mark for mark in self.marks if isinstance(mark, kind)), None)


@dataclass(frozen=True, slots=True)
class Field:
    type: Any
    always: bool
    """whether every object has it"""
    meaning: str


def declared() -> dict[str, type]:
    """Every type that has a schema, by its name without ``Output``."""
    return {name: kind for module in SECTIONS for name, kind in declared_in(module).items()}


@cache
def declared_in(module: str) -> dict[str, type]:
    """Those of a module of output types. ``EventOutput = Event`` declares a value that is a row."""
    loaded = import_module(f".{module}", __package__)
    return {
        name.removesuffix("Output"): kind
        for name, kind in vars(loaded).items()
        if name.endswith("Output") and (kind.__module__ == loaded.__name__ or kind.__name__ != name)
    }


def is_object(kind: Any) -> bool:
    """Whether it is the type of JSON objects with declared fields."""
    return is_typeddict(kind) or (isinstance(kind, type) and is_dataclass(kind))


def title(name: str) -> str:
    """``QueueDetails`` -> ``Queue details``."""
    first, *rest = re.findall(r"[A-Z][a-z0-9]*", name)
    return " ".join(["ACL" if first == "Acl" else first, *map(str.lower, rest)])


def slug(name: str) -> str:
    """``QueueDetails`` -> ``queue-details``."""
    return title(name).lower().replace(" ", "-")


@cache
def fields(kind: type) -> dict[str, Field]:
    """The fields of a type, by name."""
    hints, meanings = get_type_hints(kind, include_extras=True), _meanings(kind)
    marks = row_fields(kind) if is_dataclass(kind) else dict.fromkeys(meanings, "")
    if missing := {name for name in marks if marks[name] != "inline"} - meanings.keys():
        raise LookupError(f"{kind.__name__} has fields without a docstring: {sorted(missing)}")
    found = dict[str, Field]()
    for name, mark in marks.items():
        plain, always = hints[name], mark != "optional"
        if get_origin(plain) is NotRequired:
            plain, always = get_args(plain)[0], False
        found |= fields(plain) if mark == "inline" else {name: Field(plain, always, meanings[name])}
    return found


def _meanings(kind: type) -> dict[str, str]:
    """Field -> its docstring, else its name if that is one word; those of base classes first."""
    (body,) = ast.parse(getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    names = vars(import_module(kind.__module__))
    bases = (names[base.id] for base in body.bases if isinstance(base, ast.Name))
    found = dict[str, str]()
    for base in filter(is_object, bases):
        found |= _meanings(base)
    for field, text in pairwise([*body.body, None]):
        if not isinstance(field, ast.AnnAssign):
            continue
        assert isinstance(field.target, ast.Name)
        name = field.target.id
        if isinstance(text, ast.Expr):
            assert isinstance(text.value, ast.Constant)
            found[name] = " ".join(cleandoc(str(text.value.value)).split())
        elif "_" not in name:
            found[name] = name
    return found


def hint(declared: Any) -> Hint:
    """A declared type, taken apart."""
    if isinstance(declared, type) and issubclass(declared, Enum):
        return Hint(Literal[tuple(name.lower() for name in declared.__members__)])
    origin, inside = get_origin(declared), get_args(declared)
    if origin is Annotated:
        if any(isinstance(mark, MoreWords) for mark in inside[1:]):
            return Hint(str)
        inner = hint(inside[0])
        return Hint(inner.kind, (*inside[1:], *inner.marks), inner.null)
    if origin in (Union, types.UnionType) and type(None) in inside:
        rest = [each for each in inside if each is not type(None)]
        if len(rest) == 1:
            inner = hint(rest[0])
            return Hint(inner.kind, inner.marks, null=True)
        return Hint(reduce(or_, rest), null=True)
    return Hint(declared)
