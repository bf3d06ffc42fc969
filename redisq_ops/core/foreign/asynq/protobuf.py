"""Messages of Protocol Buffers, read by the numbers of their fields."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeVar

T = TypeVar("T", int, bytes)
MOST = 10_000
"""fields of one message: asynq's have 15, and one for each header or queue"""
_FIXED = {1: 8, 5: 4}  # wire type -> bytes of its values, which are skipped


class Message:
    """The varints and byte strings of a message. Raises ValueError for bytes that are no message.

    Of several values of a field the last one counts; a field that is missing is empty, or 0.
    """

    def __init__(self, data: bytes = b"") -> None:
        self._fields = defaultdict[int, list[int | bytes]](list)
        at = read = 0
        while at < len(data):
            field, kind, size, value, at = _field(data, at)
            read += 1
            if at > len(data) or read > MOST:
                raise ValueError("it is cut, too long, or none")
            if kind not in _FIXED:
                self._fields[field].append(data[at - size : at] if kind else value)

    def data(self, field: int) -> bytes:
        return self._last(field, b"")

    def text(self, field: int) -> str:
        return self.data(field).decode("utf-8", "backslashreplace")

    def number(self, field: int, bits: int = 64) -> int:
        value = self._last(field, 0) & ((1 << bits) - 1)
        return value - (1 << bits) if value >> (bits - 1) else value

    def messages(self, field: int) -> list[Message]:
        """The messages of a repeated field; in those of a map, 1 is the key and 2 the value."""
        return [Message(value) for value in self._fields.get(field, ()) if isinstance(value, bytes)]

    def texts(self, field: int) -> list[str]:
        """The texts of a repeated field."""
        values = (each for each in self._fields[field] if isinstance(each, bytes))
        return [each.decode("utf-8", "backslashreplace") for each in values]

    def _last(self, field: int, default: T) -> T:
        for each in reversed(self._fields.get(field, ())):
            if isinstance(each, type(default)):
                return each
        return default


def replaced(data: bytes, field: int, value: bytes) -> bytes:
    """A message with another byte string in a field below 16; all other bytes stay."""
    kept, at = {True: b"", False: b""}, 0
    while at < len(data):
        begin = at
        number, _, _, _, at = _field(data, begin)
        if number != field:
            kept[number < field] += data[begin:at]
    size, rest = b"", len(value)
    while rest > 127:
        size, rest = size + bytes([rest & 127 | 128]), rest >> 7
    return b"%b%c%b%c%b%b" % (kept[True], field << 3 | 2, size, rest, value, kept[False])


def _field(data: bytes, at: int) -> tuple[int, int, int, int, int]:
    """Of the field there: number, wire type, length of its bytes, value if it is a number, end."""
    tag, at = _varint(data, at)
    kind, value = tag & 7, 0
    size = _FIXED.get(kind, len(data))
    if kind in (0, 2):
        value, at = _varint(data, at)
        size = value if kind else 0
    return tag >> 3, kind, size, value, at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 128:  # most have one byte
        return data[at], at + 1
    value = 0
    for n, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << (7 * n)
        if byte < 128:
            return value, at + n + 1
    raise ValueError("a number in it doesn't end")
