"""Records of other programs that are too long for a look: how long they are, and what is said."""

from __future__ import annotations

from ..redis.operation import Call, attempt, both

GLANCE = 1 << 22
"""bytes that one look reads of elements which hold payloads"""
SAMPLED = 100
"""elements (of a list: blocks of them) by whose sizes the server estimates that of a key"""
LONG_RECORD = 1 << 16
"""a record of more bytes is read when its entry is asked for, and not in a list"""
UNREAD = "*"
"""prefix of the number that an unread entry has in place of an id; no id begins with it"""


async def mean_bytes(key: str | bytes, size: Call[int]) -> int:
    """Bytes of a key's elements on average, by its first ones; 0: not known."""
    found = await attempt(both(bytes_used(key), size))
    if isinstance(found, Exception):  # another type
        return 0
    used, elements = found
    return used // elements if elements else 0


async def bytes_used(key: str | bytes) -> int:
    """Bytes of a key, by its first elements; 0: there is none, or no right to ask."""
    words = ("MEMORY", "USAGE", key, "SAMPLES", SAMPLED)
    used = await attempt(Call(words, lambda reply: int(reply or 0), key=key))
    return 0 if isinstance(used, Exception) else used


def few(max: int, mean: int) -> int:
    """As many of ``max`` elements as a `GLANCE` holds; ``mean``: bytes of each."""
    return min(max, GLANCE // mean) if mean else max


def not_read(bytes_: int) -> str:
    """What is said of a record that is too long for a list."""
    return f"not read in a list: {bytes_ / 2**20:,.1f} MiB"
