"""Python's values as values of JSON."""

from __future__ import annotations

from math import isfinite
from reprlib import Repr
from typing import Any

LARGEST = 256 * 1024
"""characters and values that one call converts"""
DEEPEST = 20
SHORT = Repr()
SHORT.maxlevel, SHORT.maxstring, SHORT.maxother = 3, 200, 100


def plain(value: Any) -> Any:
    """A value as JSON has it; a value that JSON doesn't know becomes a short text.

    Raises ValueError for what is too large or too deep: a pickle of a few bytes can stand for
    gigabytes.
    """
    return _Conversion().of(value, DEEPEST)


class _Conversion:
    def __init__(self) -> None:
        self._room = LARGEST

    def of(self, value: Any, depth: int) -> Any:
        self._take(1 + (len(value) if isinstance(value, str) else 0))
        if not depth:
            raise ValueError("too deep to be shown")
        if isinstance(value, dict):
            return {self._key(name): self.of(item, depth - 1) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.of(item, depth - 1) for item in value]
        if isinstance(value, float):
            return value if isfinite(value) else str(value)
        short = isinstance(value, int) and value.bit_length() < 4096
        return value if value is None or short or isinstance(value, str) else self._short(value)

    def _key(self, name: Any) -> str:
        if not isinstance(name, str):
            return self._short(name)
        self._take(len(name))
        return name

    def _short(self, value: Any) -> str:
        self._take(len(repr(value)))
        return SHORT.repr(value)

    def _take(self, room: int) -> None:
        self._room -= room
        if self._room < 0:
            raise ValueError("too large to be shown")
