"""Reads of keys whose size or type isn't known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..redis.operation import Call, together


async def of_set(key: str | bytes) -> list[bytes]:
    """The members of a set, by pages."""
    found: list[bytes] = []
    cursor = 0
    while True:
        cursor, part = await Call(("SSCAN", key, cursor, "COUNT", 500), tuple[int, Any], key=key)
        found += part
        if not cursor:
            return list(dict.fromkeys(found))


async def types_of(keys: Iterable[str]) -> dict[str, str]:
    names = list(keys)
    found = await together(Call(("TYPE", key), bytes.decode, key=key) for key in names)
    return dict(zip(names, found, strict=True))


def literal(text: str) -> str:
    """A pattern for SCAN and the like that matches just this text."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", text)
