"""JSON from a file that anybody may have written, read as the types that the code uses.

`json_object` parses a line, `typed` checks a value by a type hint: a dataclass and a `TypedDict`
field by field, with no field missing and none unknown. Both raise `BadInput` that names the field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from redisq_ops.core.model.errors import BadInput

_LARGEST = 1 << 63
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}

Reader = Callable[[Any, str], Any]


def json_object(text: bytes | str) -> dict[str, Any]:
    """Parse a line that must be a JSON object; `BadInput` for anything else."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput("not a JSON object") from error
    if not isinstance(row, dict):
        raise BadInput("not a JSON object")
    return row


def typed(hint: Any, value: Any, name: str) -> Any:
    """Check a JSON value by a type hint, and make its dataclasses; ``name``: its name in errors."""
    return _reader(hint)(value, name)


def plain_text(value: object) -> bool:
    """Whether it is a text that is UTF-8, or has surrogates for the bytes of another program's
    id."""
    try:
        return isinstance(value, str) and value.encode("utf-8", "surrogateescape") is not None
    except UnicodeEncodeError:
        return False


@cache
def _reader(hint: Any) -> Reader:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value, name: value
    if origin in (Union, UnionType):
        # null comes first, so that the error is that of the other type.
        return _any_of(
            [_reader(each) for each in sorted(args, key=lambda one: one is not NoneType)]
        )
    if origin is Literal:
        return _checked(lambda value: isinstance(value, str) and value in args, " | ".join(args))
    if origin in (tuple, list, Sequence):
        return _listed(list if origin is Sequence else origin, args)
    if origin in (dict, Mapping):
        return _mapped(_reader(args[1]))
    if is_dataclass(hint):
        needed = {
            each.name
            for each in fields(hint)
            if each.default is MISSING and each.default_factory is MISSING
        }
        return _object(get_type_hints(hint), needed, hint)
    if is_typeddict(hint):
        marked = get_type_hints(hint, include_extras=True)
        needed = {key for key, each in marked.items() if get_origin(each) is not NotRequired}
        return _object(get_type_hints(hint), needed, dict)
    if hint in (None, NoneType):
        return _checked(lambda value: value is None, "null")
    if hint is str:
        return _checked(plain_text, _NAMES[str])
    if hint is float:
        return _checked(
            lambda value: (
                type(value) in (int, float) and -_LARGEST < value < _LARGEST and isfinite(value)
            ),
            _NAMES[float],
        )
    if hint is int:
        return _checked(
            lambda value: type(value) is int and -_LARGEST < value < _LARGEST, _NAMES[int]
        )
    return _checked(lambda value: type(value) is hint, _NAMES.get(hint, str(hint)))


def _checked(good: Callable[[Any], bool], what: str) -> Reader:
    def read(value: Any, name: str) -> Any:
        if not good(value):
            raise BadInput(f"{name} must be {what}")
        return value

    return read


def _any_of(readers: list[Reader]) -> Reader:
    def read(value: Any, name: str) -> Any:
        for reader in readers[:-1]:
            try:
                return reader(value, name)
            except BadInput:
                continue
        return readers[-1](value, name)

    return read


def _listed(make: Any, args: tuple[Any, ...]) -> Reader:
    same = len(args) == 1 or args[1] is ...
    readers = [_reader(each) for each in args if each is not ...]

    def read(value: Any, name: str) -> Any:
        if not isinstance(value, list) or not (same or len(value) == len(readers)):
            raise BadInput(f"{name} must be a list" + ("" if same else f" of {len(readers)}"))
        of = readers * len(value) if same else readers
        return make(one(each, name) for one, each in zip(of, value, strict=True))

    return read


def _mapped(reader: Reader) -> Reader:
    def read(value: Any, name: str) -> Any:
        if not isinstance(value, dict) or not all(map(plain_text, value)):
            raise BadInput(f"{name} must be an object")
        return {key: reader(each, f"{name}.{key}"[:80]) for key, each in value.items()}

    return read


def _object(hints: dict[str, Any], needed: set[str], make: Any) -> Reader:
    readers = {name: _reader(hint) for name, hint in hints.items()}

    def read(value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            raise BadInput(f"{name} must be an object")
        if missing := needed - value.keys():
            raise BadInput(f"{name} lacks {min(missing)}")
        if unknown := value.keys() - readers.keys():
            raise BadInput(f"{name} has an unknown field {min(unknown)[:40]!r}")
        return make(**{key: readers[key](each, f"{name}.{key}") for key, each in value.items()})

    return read
