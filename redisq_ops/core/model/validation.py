"""Checks arguments before anything is sent.

A str in place of bytes would be read back as something else, and a generator that is iterated twice
is empty the second time.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from .clock import MOST_MS, shortly
from .entry import STATES, Delivery, Settlement
from .errors import BadInput, TooLarge
from .keys import checked_name

F = TypeVar("F", bound=Callable[..., Any])

PAYLOAD = "a payload (bytes)"
PAIR = "(id, payload), str and bytes,"


_LITERAL = re.compile(r"Literal\[(.*)\]")
_SEVERAL = re.compile(r"(?:Sequence|Collection)\[(\w+)\]")
_LEAST = {
    **dict.fromkeys(("max", "start", "step", "seq", "now_ms", "cap", "lease_ms"), 0),
    "minutes": 1,
}
"""parameter -> least value of an int"""
_MOST = {"minutes": 1440, "max": 10**9, "lease_ms": MOST_MS - 1}
"""parameter -> greatest value of an int"""
_ANY_BYTES = ("cursor", "after", "id", "ids", "name")
_EXACT = 2**53 - 1
"""the greatest int that Lua keeps exactly"""
_NONE = type(None)
_TYPES: dict[str, type] = {
    **{type_.__name__: type_ for type_ in (int, str, bool, bytes)},
    **{type_.__name__: type_ for type_ in (Delivery, Settlement)},
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """What one parameter accepts. ``types`` are exact: a bool is no int."""

    place: int
    name: str
    types: frozenset[type]
    words: tuple[str, ...] = ()
    each: type | None = None
    """the type of the elements, for a list"""

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest int."""
        return _LEAST.get(self.name, -_EXACT), _MOST.get(self.name, _EXACT)

    def refusal(self, value: Any) -> BadInput | None:
        """The error for a value of another type or out of bounds; None: it is accepted. Values of
        subclasses (an enum, a subclass of str) are accepted, too."""
        name = self.name
        if value is None and _NONE in self.types:
            return None
        if self.each is not None:
            return self._elements(value)
        bool_ = isinstance(value, bool) and bool not in self.types
        if bool_ or not isinstance(value, tuple(self.types)):
            return BadInput(f"{name} must be {self._wanted()}, not {type(value).__name__}")
        if isinstance(value, int):
            least, most = self.bounds
            if value < least:
                return BadInput(f"{name} must be at least {least}, not {shortly(value)}")
            if value > most:
                return BadInput(f"{name} must be at most {most}, not {shortly(value)}")
        if isinstance(value, str) and not value.isascii() and not self._sendable(value):
            return BadInput(f"{name} {value!r:.60} isn't valid Unicode")
        if self.words and value not in self.words:
            return BadInput(f"{name} {value!r:.60}: one of {', '.join(self.words)}")
        return None

    def _sendable(self, value: str) -> bool:
        """Cursors, and ids that other programs wrote, may have any bytes in them, as surrogates."""
        errors = "surrogateescape" if self.name in _ANY_BYTES else "strict"
        try:
            value.encode(errors=errors)
        except UnicodeEncodeError:
            return False
        return True

    def _wanted(self) -> str:
        (wanted,) = [type_.__name__ for type_ in self.types if type_ is not _NONE]
        return f"a{'n' * (wanted == 'int')} {wanted}"

    def _elements(self, given: Any) -> BadInput | None:
        single = isinstance(given, (str, bytes, bytearray, memoryview, Mapping))
        if single or not isinstance(given, Collection):
            return BadInput(f"{self.name} must be a list, not {type(given).__name__}")
        assert self.each is not None
        for each in given:
            if not isinstance(each, self.each):
                is_, wanted = type(each).__name__, self.each.__name__
                return BadInput(f"{self.name} must be a list of {wanted}, not of {is_}")
            if isinstance(each, str) and not self._sendable(each):
                return BadInput(f"{self.name}: {each!r:.60} isn't valid Unicode")
            if isinstance(each, (Settlement, Delivery)) and not _was_taken(each):
                return BadInput(f"{self.name}: a delivery isn't as a take returned it")
        return None


def _was_taken(given: Settlement | Delivery) -> bool:
    """Whether a delivery, also that of a settlement, can be one that a take returned."""
    one: Any = given.delivery if isinstance(given, Settlement) else given
    if not isinstance(one, Delivery):
        return False
    words: tuple[Any, ...] = (one.id, one.receipt, one.consumer)
    try:
        return all(isinstance(word, str) and word.encode() is not None for word in words)
    except UnicodeEncodeError:
        return False


def validated(function: F) -> F:
    """Make a function check its arguments against its annotations; raises `BadInput`.

    It checks int, str, bool, bytes, Literal, State, and lists of those and of deliveries and
    settlements; the function checks everything else. That adds about a microsecond to a call.
    """
    parameters = inspect.signature(function).parameters.items()
    rules = [
        rule
        for place, (name, parameter) in enumerate(parameters)
        if (rule := _rule(place, name, str(parameter.annotation)))
    ]
    if not rules:
        return function
    # Of most values the exact type is enough, and the rule needn't be asked.
    quick = [
        (
            rule.place,
            rule.name,
            frozenset() if rule.words else rule.types - {list},
            *rule.bounds,
            rule,
        )
        for rule in rules
    ]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = len(args)
        for place, name, types, least, most, rule in quick:
            if place < given:
                value = args[place]
            elif name in kwargs:
                value = kwargs[name]
            else:
                continue
            if (kind := type(value)) in types and (
                value.isascii() if kind is str else kind is not int or least <= value <= most
            ):
                continue
            if refused := rule.refusal(value):
                raise refused
        return function(*args, **kwargs)

    return cast(F, checked)


def _rule(place: int, name: str, annotation: str) -> _Rule | None:
    plain = annotation.removesuffix(" | None")
    none = frozenset({_NONE} if plain != annotation else ())
    if plain in _TYPES:
        return _Rule(place, name, none | {_TYPES[plain]})
    if plain == "State":
        return _Rule(place, name, none | {str}, STATES)
    if found := _LITERAL.fullmatch(plain):
        words = re.findall(r"[\"']([^\"']*)[\"']", found[1])
        return _Rule(place, name, none | {str}, tuple(words))
    if (found := _SEVERAL.fullmatch(plain)) and found[1] in _TYPES:
        return _Rule(place, name, none | {list}, each=_TYPES[found[1]])
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
