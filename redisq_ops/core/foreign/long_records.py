"""Limits for long records of other programs, and the words that replace them.

No record longer than `LARGEST` is read, no page of more than `PAGE_BYTES`, and in a list no record
longer than `LONG_RECORD`. Sizes are asked first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model import entry
from ..model.cut_element import LARGEST
from ..model.entry import NOT_READ
from ..model.quoting import bytes_of
from ..redis.operation import Call, attempt, attempts, together

GLANCE = 1 << 22
"""bytes that one look reads of elements which hold payloads"""
SAMPLED = 1_000
"""elements (of a list: blocks of them) from which the server estimates the size of a key"""
LONG_RECORD = 1 << 16
"""a record of more bytes is read when its entry is asked for, and not in a list"""
PAGE_BYTES = 1 << 25
"""bytes of records that one page reads; the first one is always read"""


async def mean_bytes(key: str | bytes, size: Call[int]) -> int:
    """Bytes of a key's elements on average, by its first ones; 0: not known."""
    found = await attempt(together(bytes_used(key), size))
    if isinstance(found, Exception):  # another type
        return 0
    used, elements = found
    return used // elements if elements else 0


async def bytes_used(key: str | bytes, samples: int = SAMPLED) -> int:
    """Bytes of a key, by its first elements (``samples`` 0: by all); 0: there is none, or the user
    may not ask."""
    used = await attempt(_usage(key, samples))
    return 0 if isinstance(used, Exception) else used


async def whole_sizes(keys: Sequence[bytes], unknown: int = LONG_RECORD + 1) -> list[int]:
    """Bytes of each key, by all its elements; ``unknown`` if the user may not ask."""
    found = await attempts([_usage(key, 0) for key in keys])
    return [unknown if isinstance(size, Exception) else size for size in found]


def _usage(key: str | bytes, samples: int) -> Call[int]:
    name = bytes_of(key) if isinstance(key, str) else key
    words = ("MEMORY", "USAGE", name, "SAMPLES", str(samples))
    return Call(words, _bytes, key=key, ready=len(words))


def _bytes(reply: int | None) -> int:
    return reply or 0


def few(max: int, mean: int) -> int:
    """As many of ``max`` elements as a `GLANCE` holds; ``mean``: bytes of each."""
    return min(max, GLANCE // mean) if mean else max


def too_long(key: str, mean: int) -> str:
    """What is said of a key whose elements are too long to be read."""
    return f"key {key} is {NOT_READ}: its elements have about {mean / 2**20:,.1f} MiB each"


def not_read(bytes_: int) -> str:
    """What is said of a record that is too long to be read, or to be read in a list."""
    where = "" if bytes_ > LARGEST else " in a list"
    return entry.not_read(bytes_, where)
