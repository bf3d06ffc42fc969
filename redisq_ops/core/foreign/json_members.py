"""The exact bytes of members of JSON objects: all others stay as they are, `1.0` and escapes too.

Bytes that are no UTF-8 survive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
BROKEN = (ValueError, IndexError, RecursionError)
"""what reading a text raises that is no JSON"""


def members_of(text: str) -> list[tuple[str, int, int, int]] | None:
    """(name, its position, where its value begins and ends) of each member."""
    found = []
    try:
        at = _past_space(text, 0)
        if text[at] != "{":
            return None
        at = _past_space(text, at + 1)
        while text[at] != "}":
            begin = at
            if text[at] != '"':
                return None
            name, at = _DECODER.raw_decode(text, at)
            at = _past_space(text, at)
            if text[at] != ":":
                return None
            value = _past_space(text, at + 1)
            _, end = _DECODER.raw_decode(text, value)
            found.append((name, begin, value, end))
            at = _past_space(text, end)
            if text[at] == ",":
                at = _past_space(text, at + 1)
                if text[at] == "}":
                    return None
        return found if _past_space(text, at + 1) == len(text) else None
    except BROKEN:
        return None


def _past_space(text: str, at: int) -> int:
    if text[at : at + 1] > " ":  # as in most records
        return at
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def member(payload: bytes, name: str) -> bytes | None:
    """The exact bytes of a member's value; the last one's if the name comes twice."""
    text = payload.decode("utf-8", "surrogateescape")
    for known, _, begin, end in reversed(members_of(text) or []):
        if known == name:
            return text[begin:end].encode("utf-8", "surrogateescape")
    return None


def replaced(payload: bytes, values: Mapping[str, bytes]) -> bytes:
    """The object with other values of these members, which it has: of the last one, if a name comes
    twice."""
    text = payload.decode("utf-8", "surrogateescape")
    found = {name: (begin, end) for name, _, begin, end in members_of(text) or []}
    for (begin, end), value in sorted(((found[n], v) for n, v in values.items()), reverse=True):
        text = text[:begin] + value.decode("utf-8", "surrogateescape") + text[end:]
    return text.encode("utf-8", "surrogateescape")
