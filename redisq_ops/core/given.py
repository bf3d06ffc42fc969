"""What producers hand in, looked at before anything of it is sent.

A text for bytes would be stored as something else than it is read as, and a generator that is
looked through twice is empty the second time.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .errors import BadInput, TooLarge
from .keys import checked_name
from .values import STATES

PAYLOAD = "a payload (bytes)"
PAIR = "(id, payload), str and bytes,"


_LITERAL = re.compile(r"Literal\[(.*)\]( \| None)?")
_LEAST = {"max": 0, "start": 0, "minutes": 1, "step": 0, "seq": 0, "n": 0}
"""of whole numbers, by the parameter's name"""


def validated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its arguments checked against its annotations before anything is sent.

    Checked are numbers (a bool is none), texts, bools and the words of a Literal or a state, by
    position or by name; everything else is the function's own to check.
    """
    checks: list[tuple[int, str, Callable[[Any, str], None]]] = []
    for place, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if check := _check(name, str(parameter.annotation)):
            checks.append((place, name, check))
    if not checks:
        return function

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = len(args)
        for place, name, check in checks:
            if place < given:
                check(args[place], name)
            elif name in kwargs:
                check(kwargs[name], name)
        return function(*args, **kwargs)

    return checked


def _check(name: str, annotation: str) -> Callable[[Any, str], None] | None:
    optional = annotation.endswith(" | None")
    plain = annotation.removesuffix(" | None")
    if plain == "int":
        return functools.partial(_number, least=_LEAST.get(name), optional=optional)
    if plain in ("str", "bool"):
        return functools.partial(_typed, type_=str if plain == "str" else bool, optional=optional)
    if plain == "State":
        return functools.partial(_word, words=STATES, optional=optional)
    if found := _LITERAL.fullmatch(annotation):
        words = tuple(re.findall(r"[\"']([^\"']*)[\"']", found[1]))
        return functools.partial(_word, words=words, optional=optional)
    return None


def _number(value: Any, name: str, least: int | None, optional: bool) -> None:
    if (type(value) is int and (least is None or value >= least)) or (value is None and optional):
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{name} must be an int, not {type(value).__name__}")
    if least is not None and value < least:
        raise BadInput(f"{name} must be at least {least}, not {value}")


def _typed(value: Any, name: str, type_: type, optional: bool) -> None:
    if not isinstance(value, type_) and not (value is None and optional):
        raise BadInput(f"{name} must be a {type_.__name__}, not {type(value).__name__}")


def _word(value: Any, name: str, words: Sequence[str], optional: bool) -> None:
    if not (isinstance(value, str) and value in words) and not (value is None and optional):
        raise BadInput(f"{name} {value!r:.60}: one of {', '.join(words)}")


def listed(given: Any, what: str) -> list[Any]:
    """All of it; one text, and what else is no collection of ``what``, is refused."""
    single = isinstance(given, (str, bytes, bytearray, memoryview, Mapping))
    if single or not isinstance(given, Iterable):
        raise BadInput(f"{what} are given as a list, not as {type(given).__name__}")
    return list(given)


def pair(given: Any, nth: int, wanted: str = PAIR) -> tuple[str, bytes]:
    """The ``nth`` of what was given, which has to be an id and a payload."""
    match given:
        case (str(id), bytes(payload)):
            return id, payload
    raise mistaken(given, nth, wanted)


def pairs(given: Iterable[tuple[str, bytes]], what: str) -> list[tuple[str, bytes]]:
    return [pair(each, nth) for nth, each in enumerate(listed(given, what), 1)]


def mistaken(given: Any, nth: int, wanted: str) -> BadInput:
    """The error for something of another type; not a word of it: it may be a payload."""
    inside = isinstance(given, (tuple, list)) and len(given) < 5
    is_ = f"({', '.join(type(x).__name__ for x in given)})" if inside else type(given).__name__
    return BadInput(f"entry {nth} is {is_}, where {wanted} belongs")


def checked_pairs(rows: Sequence[tuple[str, bytes]], what: str, most: int) -> None:
    """Ids that can be used, payloads within the limit."""
    for id, payload in rows:
        checked_name(id, f"{what} id")
        checked_size(id, payload, most, what)


def checked_size(id: str, payload: bytes, most: int, what: str = "entry") -> None:
    if not isinstance(payload, bytes):
        raise BadInput(f"{what} {id}: its payload must be bytes, not {type(payload).__name__}")
    if len(payload) > most:
        raise TooLarge(f"{what} {id} has {len(payload):,} bytes, over {most:,}")
