"""Checks arguments before anything is sent.

A str in place of bytes would be read back as something else, and a generator that is iterated twice
is empty the second time.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .entry import STATES
from .errors import BadInput, TooLarge
from .keys import checked_name

PAYLOAD = "a payload (bytes)"
PAIR = "(id, payload), str and bytes,"


_LITERAL = re.compile(r"Literal\[(.*)\]")
_LEAST = {"max": 0, "start": 0, "minutes": 1, "step": 0, "seq": 0}
"""parameter -> least value of an int"""


@dataclass(frozen=True, slots=True)
class _Rule:
    """What one parameter accepts. ``types`` are exact: a bool is no int."""

    place: int
    name: str
    types: frozenset[type]
    words: tuple[str, ...] = ()
    least: int | None = None

    def refusal(self, value: Any) -> BadInput | None:
        """The error for a value of another type or out of bounds; None: it is accepted. Values of
        subclasses (an enum, a subclass of str) are accepted, too."""
        name, (wanted, *_) = self.name, sorted(t.__name__ for t in self.types if t is not _NONE)
        bool_ = isinstance(value, bool) and bool not in self.types
        if bool_ or not isinstance(value, tuple(self.types)):
            return BadInput(
                f"{name} must be a{'n' * (wanted == 'int')} {wanted}, not {type(value).__name__}"
            )
        if isinstance(value, int) and self.least is not None and value < self.least:
            return BadInput(f"{name} must be at least {self.least}, not {value}")
        if value is not None and self.words and value not in self.words:
            return BadInput(f"{name} {value!r:.60}: one of {', '.join(self.words)}")
        return None


_NONE = type(None)


def validated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function check its arguments against its annotations; raises `BadInput`.

    It checks int, str, bool, Literal and State; the function checks everything else. That adds
    about a microsecond to a call.
    """
    parameters = inspect.signature(function).parameters.items()
    rules = [
        rule
        for place, (name, parameter) in enumerate(parameters)
        if (rule := _rule(place, name, str(parameter.annotation)))
    ]
    if not rules:
        return function
    # Where the exact type is enough, the rule needn't be asked.
    quick = [
        (rule.place, rule.name, () if rule.words or rule.least is not None else rule.types, rule)
        for rule in rules
    ]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = len(args)
        for place, name, types, rule in quick:
            if place < given:
                value = args[place]
            elif name in kwargs:
                value = kwargs[name]
            else:
                continue
            if type(value) not in types and (refused := rule.refusal(value)):
                raise refused
        return function(*args, **kwargs)

    return checked


def _rule(place: int, name: str, annotation: str) -> _Rule | None:
    plain = annotation.removesuffix(" | None")
    none = frozenset({_NONE} if plain != annotation else ())
    if plain == "int":
        return _Rule(place, name, none | {int}, least=_LEAST.get(name))
    if plain in ("str", "bool"):
        return _Rule(place, name, none | {str if plain == "str" else bool})
    if plain == "State":
        return _Rule(place, name, none | {str}, STATES)
    if found := _LITERAL.fullmatch(plain):
        words = re.findall(r"[\"']([^\"']*)[\"']", found[1])
        return _Rule(place, name, none | {str}, tuple(words))
    return None


def listed(given: Any, what: str) -> list[Any]:
    """A list of ``given``; raises `BadInput` for a str, bytes, or anything not iterable."""
    if type(given) in (list, tuple):  # most are
        return list(given)
    single = isinstance(given, (str, bytes, bytearray, memoryview, Mapping))
    if single or not isinstance(given, Iterable):
        raise BadInput(f"{what} must be a list, not {type(given).__name__}")
    return list(given)


def pair(given: Any, nth: int, wanted: str = PAIR) -> tuple[str, bytes]:
    """The ``nth`` element; raises `BadInput` unless it is an (id, payload) pair."""
    match given:
        case (str(id), bytes(payload)):
            return id, payload
    raise mistaken(given, nth, wanted)


def pairs(given: Iterable[tuple[str, bytes]], what: str) -> list[tuple[str, bytes]]:
    return [pair(each, nth) for nth, each in enumerate(listed(given, what), 1)]


def mistaken(given: Any, nth: int, wanted: str) -> BadInput:
    """The error for an element of another type; without its value, which may be a payload."""
    inside = isinstance(given, (tuple, list)) and len(given) < 5
    is_ = f"({', '.join(type(x).__name__ for x in given)})" if inside else type(given).__name__
    return BadInput(f"entry {nth} is {is_}, where {wanted} belongs")


def checked_pairs(rows: Sequence[tuple[str, bytes]], what: str, most: int) -> None:
    """Raise `BadInput` for a bad id, `TooLarge` for a payload over the limit."""
    for id, payload in rows:
        checked_name(id, f"{what} id")
        checked_size(id, payload, most, what)


def checked_size(id: str, payload: bytes, most: int, what: str = "entry") -> None:
    if not isinstance(payload, bytes):
        raise BadInput(f"{what} {id}: its payload must be bytes, not {type(payload).__name__}")
    if len(payload) > most:
        raise TooLarge(f"{what} {id} has {len(payload):,} bytes, over {most:,}")
