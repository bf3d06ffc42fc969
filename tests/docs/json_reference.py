"""Writes docs/reference/json.md and the JSON Schemas from the declared output types.

    python -m tests.docs.json_reference

Tests compare both with the files in the repository.
"""

from __future__ import annotations

import ast
import json
import re
import types
from collections.abc import Iterator
from functools import cache, reduce
from importlib import import_module
from inspect import cleandoc, getsource
from itertools import pairwise
from operator import or_
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import typer.main

from redisq_ops.cli.app import app
from redisq_ops.cli.output_types.units import Base64Field, Unit, Unstable, Wording

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/json.md"
SCHEMAS = ROOT / "redisq_ops/schemas"
MARK = "<!-- generated below this line: make reference -->"
SECTIONS = {
    "queues": "Queues", "entries": "Entries", "requests": "Requests",
    "consumers": "Consumers and worker processes", "changes": "Changes",
    "recording": "Recordings",
    "configuration": "Configuration", "errors": "Errors", "files": "Files", "spark": "Spark",
}  # fmt: skip
"""module of output types -> heading"""
MANY = 10
"""commands that a section names"""
NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", Any: "any"}
Schema = dict[str, Any]


def main() -> None:
    intro = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(intro + MARK + "\n\n" + page())
    for old in SCHEMAS.glob("*.json"):
        old.unlink()
    for name, text in schema_files().items():
        (SCHEMAS / name).write_text(text)


# --- declarations --------------------------------------------------------------------------------


def declared() -> dict[str, type]:
    """Every output type that a command prints or that is a line of a file, by its short name."""
    shown = {name for names in printed().values() for name in names} | {"Error"}
    found = dict[str, type]()
    for module in SECTIONS:
        for name, kind in _types(module).items():
            if name in shown or (module == "files" and name != "ExportedRequest"):
                found[name] = kind
    if missing := shown - found.keys():
        raise LookupError(f"commands print types that are not declared: {sorted(missing)}")
    return found


def _types(module: str) -> dict[str, type]:
    loaded = import_module(f"redisq_ops.cli.output_types.{module}")
    return {
        name.removesuffix("Output"): kind
        for name, kind in vars(loaded).items()
        if is_typeddict(kind) and kind.__module__ == loaded.__name__
    }


@cache
def printed() -> dict[str, tuple[str, ...]]:
    """Command, such as ``dlq ls`` -> short names of the types that it prints."""
    return dict(_commands(typer.main.get_command(app), ""))


def _commands(command: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if hasattr(command, "list_commands"):
        within = command.context_class(command)
        for name in sorted(command.list_commands(within)):
            yield from _commands(command.get_command(within, name), f"{path} {name}".strip())
    else:
        yield path, tuple(command.callback.prints.split())


@cache
def _fields(kind: type) -> dict[str, tuple[Any, bool, str]]:
    """Field -> type, whether it is always there, meaning."""
    hints, meanings = get_type_hints(kind, include_extras=True), _meanings(kind)
    found = dict[str, tuple[Any, bool, str]]()
    for name, meaning in meanings.items():
        always = get_origin(hints[name]) is not NotRequired
        found[name] = (hints[name] if always else get_args(hints[name])[0], always, meaning)
    if missing := hints.keys() - meanings.keys():
        raise LookupError(f"{kind.__name__} has fields without a docstring: {sorted(missing)}")
    return found


def _meanings(kind: type) -> dict[str, str]:
    """Field -> its docstring, else its name if that is one word; those of base classes first."""
    (body,) = ast.parse(getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    names = vars(import_module(kind.__module__))
    bases = (names[base.id] for base in body.bases if isinstance(base, ast.Name))
    found = dict[str, str]()
    for base in filter(is_typeddict, bases):
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


def _taken_apart(hint: Any) -> tuple[Any, list[Any], bool]:
    """A type without its marks; the marks; whether it can be null."""
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        inner, more, null = _taken_apart(kind)
        return inner, [*marks, *more], null
    if get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
        rest = [each for each in get_args(hint) if each is not type(None)]
        if len(rest) == 1:
            inner, marks, _ = _taken_apart(rest[0])
            return inner, marks, True
        return reduce(or_, rest), [], True
    return hint, [], False


def _marked(marks: list[Any], kind: type) -> Any:
    return next((mark for mark in marks if isinstance(mark, kind)), None)


# --- JSON Schema ---------------------------------------------------------------------------------


def schema_files() -> dict[str, str]:
    """File name -> content."""
    return {
        f"{slug(name)}.json": json.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": _title(name),
                **_object(kind),
            },
            indent=1,
            ensure_ascii=False,
        )
        + "\n"
        for name, kind in declared().items()
    }


def _object(kind: type) -> Schema:
    properties, required, either = dict[str, Schema](), list[str](), list[Schema]()
    for name, (hint, always, meaning) in _fields(kind).items():
        schema = {**_schema(hint), "description": meaning}
        marks = _taken_apart(hint)[1]
        properties[name] = schema
        if _marked(marks, Base64Field):
            encoded = f"{name}_b64"
            properties[encoded] = {
                "type": "string", "contentEncoding": "base64", "description": meaning,
            }  # fmt: skip
            if always:
                either.append({"oneOf": [{"required": [name]}, {"required": [encoded]}]})
        elif always:
            required.append(name)
    whole: Schema = {"type": "object", "properties": properties, "required": required}
    return {**whole, "allOf": either} if either else whole


def _schema(hint: Any) -> Schema:
    kind, marks, null = _taken_apart(hint)
    found = _plain_schema(kind)
    if unit := _marked(marks, Unit):
        found["x-unit"] = unit.name
    if _marked(marks, Wording):
        found["x-stability"] = "wording may change"
    if _marked(marks, Unstable):
        found["x-stability"] = "internal"
    if not null:
        return found
    if "enum" in found:
        return {**found, "type": [found["type"], "null"], "enum": [*found["enum"], None]}
    if isinstance(found.get("type"), str):
        return {**found, "type": [found["type"], "null"]}
    return {"anyOf": [found, {"type": "null"}]}


def _plain_schema(kind: Any) -> Schema:
    if kind is Any:
        return {}
    if kind in NAMES:
        return {"type": NAMES[kind]}
    if is_typeddict(kind):
        return _object(kind)
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"type": "string", "enum": list(inside)}
    if origin is list:
        return {"type": "array", "items": _schema(inside[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inside[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(each) for each in inside]}
    raise TypeError(f"{kind} has no JSON type")


# --- the reference page --------------------------------------------------------------------------


def page() -> str:
    """The generated part of the page."""
    shown = declared()
    lines = ["## Commands", "", "| command | prints |", "|---|---|"]
    for command, names in printed().items():
        links = ", ".join(f"[{_title(name)}](#{slug(name)})" for name in names)
        lines.append(f"| `redisq {command}` | {links or 'no JSON'} |")
    for module, heading in SECTIONS.items():
        lines += ["", f"## {heading}"]
        for name, kind in shown.items():
            if kind.__module__.endswith(f".{module}"):
                lines += ["", *_section(name, kind)]
    return "\n".join(lines) + "\n"


def _section(name: str, kind: type) -> Iterator[str]:
    yield from (f"### {_title(name)}", "")
    commands = [f"`redisq {each}`" for each, names in printed().items() if name in names]
    by = [f"Printed by {', '.join(commands)}."] if commands else []
    if len(commands) > MANY:
        by = ["Printed by every change, see [commands](#commands)."]
    text = [cleandoc(kind.__doc__)] if kind.__doc__ and not kind.__doc__.startswith("dict(") else []
    yield from (" ".join(" ".join([*by, *text]).split()), "")
    yield from ("| field | type | stability | meaning |", "|---|---|---|---|")
    yield from _rows(kind, "")


def _rows(kind: type, at: str) -> Iterator[str]:
    linked = {shown: name for name, shown in declared().items()}
    for name, (hint, _, meaning) in _fields(kind).items():
        plain, marks, _ = _taken_apart(hint)
        many = get_origin(plain) is list
        inner = _taken_apart(get_args(plain)[0])[0] if many else plain
        below = inner if is_typeddict(inner) and inner not in linked else None
        stability = (
            "wording may change" if _marked(marks, Wording) or (many and _wording(plain))
            else "internal" if _marked(marks, Unstable)
            else "stable"
        )  # fmt: skip
        text = meaning.replace("|", r"\|")
        yield f"| `{at}{name}` | {_type(hint, linked)} | {stability} | {text} |"
        if below is not None:
            yield from _rows(below, f"{at}{name}{'[]' if many else ''}.")


def _wording(plain: Any) -> bool:
    return bool(_marked(_taken_apart(get_args(plain)[0])[1], Wording))


def _type(hint: Any, linked: dict[Any, str]) -> str:
    plain, marks, null = _taken_apart(hint)
    if plain in linked:
        text = f"[{_title(linked[plain])}](#{slug(linked[plain])})"
    elif _marked(marks, Base64Field):
        text = "bytes"
    elif plain in NAMES:
        text = NAMES[plain]
    elif is_typeddict(plain):
        text = "object"
    else:
        origin, inside = get_origin(plain), get_args(plain)
        if origin is Literal:
            text = " · ".join(f"`{each}`" for each in inside)
        elif origin is list:
            text = f"array of {_type(inside[0], linked)}"
        elif origin is dict:
            text = f"map of {_type(inside[1], linked)}"
        else:
            text = " or ".join(_type(each, linked) for each in inside)
    if unit := _marked(marks, Unit):
        text += f", {unit.name}"
    return text + (" or null" if null else "")


def _title(name: str) -> str:
    """``QueueDetails`` -> ``Queue details``."""
    first, *rest = re.findall(r"[A-Z][a-z0-9]*", name)
    return " ".join(["ACL" if first == "Acl" else first, *map(str.lower, rest)])


def slug(name: str) -> str:
    return _title(name).lower().replace(" ", "-")


if __name__ == "__main__":
    main()
