"""MessagePack as the server's own ``cmsgpack`` writes it, read: flat lists of small values.

Only what such a list can hold; anything else, and anything cut short, is no list.
"""

from __future__ import annotations

import struct
from typing import Any

_SIZED = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_TEXT = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_MOST = 64
"""elements of a list at most; Carmine's have ten"""


def items(data: bytes | None) -> list[Any] | None:
    """The elements of a list: int, float, bool, bytes or None each. None: it is no such list."""
    try:
        size, at = _length(data or b"")
        found = []
        for _ in range(size):
            value, at = _value(data or b"", at)
            found.append(value)
    except (IndexError, struct.error, ValueError):
        return None
    return found if at == len(data or b"") else None


def _length(data: bytes) -> tuple[int, int]:
    first = data[0]
    if first & 0xF0 == 0x90:
        return first & 0x0F, 1
    if first == 0xDC and (size := int.from_bytes(data[1:3])) <= _MOST and len(data) > 2:
        return size, 3
    raise ValueError(first)


def _value(data: bytes, at: int) -> tuple[Any, int]:
    first, at = data[at], at + 1
    if first < 0x80 or first >= 0xE0:
        return first - (first >= 0xE0) * 256, at
    if first in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[first], at
    if first in _SIZED:
        (number,) = struct.unpack_from(_SIZED[first], data, at)
        return number, at + struct.calcsize(_SIZED[first])
    if first & 0xE0 == 0xA0:
        size = first & 0x1F
    elif first in _TEXT:
        size, at = int.from_bytes(data[at : at + _TEXT[first]]), at + _TEXT[first]
    else:
        raise ValueError(first)
    if at + size > len(data):
        raise IndexError(at)
    return data[at : at + size], at + size
