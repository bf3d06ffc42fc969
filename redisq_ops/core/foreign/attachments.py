"""What other programs keep of an entry besides its record, read when one entry is opened."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, takewhile
from typing import Any

from ..model.attachment import Attachment
from ..model.cut_element import length
from ..model.quoting import text
from ..redis.operation import Call, together
from .json_text import decoded, encoded
from .long_records import few, mean_bytes
from .pickled import unpickled
from .python_values import plain

MOST = 1 << 18
"""bytes of one attachment"""
LINES, MEMBERS = 1000, 100
"""lines of a list, and fields of a hash, that are read"""


def attached(name: str, content: bytes | int | None) -> list[Attachment]:
    """An attachment of these bytes (or of so many, which weren't read); none without any. One of
    more than `MOST` is left out whole: nothing can be hidden in a part of JSON."""
    if not content:
        return []
    size = content if isinstance(content, int) else length(content)
    if isinstance(content, int) or size > MOST:
        return [Attachment(name, b"", f"too long to be shown: {size / 2**20:,.1f} MiB")]
    return [Attachment(name, content)]


def python_value(name: str, data: bytes | int | None) -> list[Attachment]:
    """A value that Python pickled, or wrote as JSON, as JSON. The pickle is never loaded."""
    if not isinstance(data, bytes) or length(data) > MOST:
        return attached(name, data)
    value = decoded(data, data)
    try:
        return value_shown(name, unpickled(data) if value is data else value)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return [Attachment(name, b"", f"{len(data):,} bytes that are no pickle that can be read")]


def value_shown(name: str, value: Any) -> list[Attachment]:
    """A value of Python's as JSON."""
    try:
        return attached(name, encoded(plain(value)))
    except ValueError as why:
        return [Attachment(name, b"", str(why))]


async def fields(key: bytes, *names: str) -> list[bytes | int | None]:
    """The values of some fields of a hash; of one that is longer than `MOST`, its size."""
    sizes = await together(Call(("HSTRLEN", key, name), int, key=key) for name in names)
    short = [name for name, size in zip(names, sizes, strict=True) if size <= MOST]
    ask = Call(("HMGET", key, *short), list[bytes | None], key=key)
    found = dict(zip(short, await ask if short else [], strict=True))
    return [found.get(name, size) for name, size in zip(names, sizes, strict=True)]


async def last_lines(name: str, key: bytes) -> list[Attachment]:
    """The last elements of a list, a line each; nothing if it is empty."""
    count = Call(("LLEN", key), int, key=key)
    size, mean = await together(count, mean_bytes(key, count))
    most = few(LINES, mean)
    ask = Call(("LRANGE", key, -most, -1), list[bytes], key=key, cut=True)
    lines = _fitting(reversed(await ask)) if size and most else []
    left = size - len(lines)
    more = f"{left:,} earlier lines" if left else None
    return [Attachment(name, b"\n".join(lines[::-1]), more)] if size else []


async def members(name: str, key: bytes) -> list[Attachment]:
    """Some fields of a hash of JSON, as one object; nothing if it is empty."""

    def read(reply: Any) -> list[tuple[bytes, bytes]]:
        found = reply[1]
        flat = not isinstance(found, dict)
        return [*(zip(found[::2], found[1::2], strict=True) if flat else found.items())]

    count = Call(("HLEN", key), int, key=key)
    size, mean = await together(count, mean_bytes(key, count))
    most = few(MEMBERS, mean)
    ask = Call(("HSCAN", key, 0, "COUNT", most), read, key=key, cut=True)
    fields = dict((await ask)[:most] if size and most else [])
    fitting = fields.items() if sum(map(length, fields.values())) <= MOST else []
    shown = {text(field): decoded(value, text(value)) for field, value in fitting}
    left = size - len(shown)
    return [Attachment(name, encoded(shown), f"{left:,} more" if left else None)] if size else []


def _fitting(lines: Iterable[bytes]) -> list[bytes]:
    """The first of these lines, as many as an attachment has room for."""
    found = [*lines]
    sizes = accumulate(length(line) + 1 for line in found)
    return found[: sum(1 for _ in takewhile(lambda size: size <= MOST, sizes))]
