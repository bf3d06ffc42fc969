"""Writes docs/reference/json.md from the declared output types.

    python -m tests.docs.json_reference

A test compares it with the file in the repository, so that a reviewer sees every change of a type.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.main

from redisq_ops.cli.app import app
from redisq_ops.cli.output_types.declarations import (
    ARRAYS,
    MAPS,
    PLAIN,
    SECTIONS,
    declared,
    declared_in,
    fields,
    hint,
    is_object,
    slug,
    title,
)
from redisq_ops.core.model.row_fields import Base64Field, Unit, Unstable, Wording

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/json.md"
MARK = "<!-- generated below this line: make reference -->"
MANY = 10
"""commands that a section names"""


def main() -> None:
    intro = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(intro + MARK + "\n\n" + page())


@cache
def printed() -> dict[str, tuple[str, ...]]:
    """Command, such as ``dlq ls`` -> short names of the types that it prints."""
    return dict(_commands(typer.main.get_command(app), ""))


def _commands(command: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if hasattr(command, "list_commands"):
        within = command.context_class(command)
        for name in sorted(command.list_commands(within)):
            yield from _commands(command.get_command(within, name), f"{path} {name}".strip())
    elif not command.hidden:
        yield path, tuple(command.callback.prints.split())


def page() -> str:
    """The generated part of the page."""
    lines = ["## Commands", "", "| command | prints |", "|---|---|"]
    for command, names in printed().items():
        links = ", ".join(f"[{title(name)}](#{slug(name)})" for name in names)
        none = "the query's columns" if command.endswith("sql") else "no JSON"
        lines.append(f"| `redisq {command}` | {links or none} |")
    for module, heading in SECTIONS.items():
        lines += ["", f"## {heading}"]
        for name, kind in declared_in(module).items():
            lines += ["", *_section(name, kind)]
    return "\n".join(lines) + "\n"


def _section(name: str, kind: type) -> Iterator[str]:
    yield from (f"### {title(name)}", "")
    commands = [f"`redisq {each}`" for each, names in printed().items() if name in names]
    by = [f"Printed by {', '.join(commands)}."] if commands else []
    if len(commands) > MANY:
        by = ["Printed by every change, see [commands](#commands)."]
    doc = kind.__doc__ or ""
    made = doc.startswith(("dict(", f"{kind.__name__}("))  # by Python, for a type without one
    text = [] if made else [cleandoc(doc)]
    yield from (" ".join(" ".join([*by, *text]).split()), "")
    yield from ("| field | type | stability | meaning |", "|---|---|---|---|")
    yield from rows(kind)


def rows(kind: type, at: str = "") -> Iterator[str]:
    """A row for each field; where two types have the same rows, they have the same schema."""
    for name, field in fields(kind).items():
        marks = set(map(type, _marks(field.type)))
        stability = (
            "wording may change"
            if Wording in marks
            else "internal"
            if Unstable in marks
            else "stable"
        )
        always = "" if field.always else ", may be missing"
        text = field.meaning.replace("|", r"\|")
        yield f"| `{at}{name}` | {_type(field.type)}{always} | {stability} | {text} |"
        for path, below in _parts(field.type, f"{at}{name}"):
            yield from rows(below, f"{path}.")


def _marks(declared: Any) -> Iterator[Any]:
    """The marks of a type and of the values in it."""
    plain = hint(declared)
    yield from plain.marks
    for inside in get_args(plain.kind):
        yield from _marks(inside)


def _parts(declared: Any, at: str) -> Iterator[tuple[str, type]]:
    """The types in a type that have no section of their own, with their paths."""
    kind = hint(declared).kind
    if is_object(kind):
        if kind not in _linked():
            yield at, kind
        return
    origin = get_origin(kind)
    among = "[]" if origin in ARRAYS else ".*" if origin in MAPS else ""
    for inside in get_args(kind):
        yield from _parts(inside, at + among)


def _type(declared: Any) -> str:
    plain = hint(declared)
    if name := _linked().get(plain.kind):
        text = f"[{title(name)}](#{slug(name)})"
    elif plain.mark(Base64Field):
        text = "bytes"
    elif plain.kind in PLAIN:
        text = PLAIN[plain.kind]
    elif is_object(plain.kind):
        text = "object"
    else:
        origin, inside = get_origin(plain.kind), get_args(plain.kind)
        if origin is Literal:
            text = " · ".join(f"`{each}`" for each in inside)
        elif origin in ARRAYS:
            text = f"array of {_inner(inside[0])}"
        elif origin in MAPS:
            text = f"map of {_inner(inside[1])}"
        else:
            text = " or ".join(map(_type, inside))
    if unit := plain.mark(Unit):
        text += f", {unit.name}"
    return text + (" or null" if plain.null else "")


def _inner(declared: Any) -> str:
    text = _type(declared)
    return f"({text})" if " or " in text else text


@cache
def _linked() -> dict[Any, str]:
    return {kind: name for name, kind in declared().items()}


if __name__ == "__main__":
    main()
