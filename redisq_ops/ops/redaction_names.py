"""Names of keys as redaction compares them: ``userPassword``, ``USER-PASSWORD`` and a ``password``
with letters that look like others are names that end with ``password``."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff"
)
"""characters without a width, as a class of a regular expression"""
_LOOKALIKES = {
    "a": "аα",
    "b": "Ьв",
    "c": "сϲ",
    "d": "ԁ",
    "e": "еε",
    "g": "ɡ",
    "h": "һн",
    "i": "іιı",
    "j": "јϳ",
    "k": "кκ",
    "l": "ӏ",
    "m": "м",
    "n": "ո",
    "o": "оοօ",
    "p": "рρ",
    "q": "ԛ",
    "r": "г",
    "s": "ѕ",
    "t": "тτ",
    "u": "υս",
    "v": "ѵν",
    "w": "ԝω",
    "x": "хχ",
    "y": "уγ",
    "z": "ᴢ",
}
"""letters of other alphabets that are drawn alike"""
_PLAIN = str.maketrans({one: latin for latin, all in _LOOKALIKES.items() for one in all})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_BETWEEN = re.compile(r"[-\s]+")


@lru_cache(4096)
def forms(name: str) -> frozenset[str]:
    """A name in lower-case Latin letters, its words joined by ``_``: once with a new word at each
    capital, once without."""
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", name)).strip()
    words = (_CAMEL.sub("_", plain), plain)
    return frozenset(_BETWEEN.sub("_", each.casefold().translate(_PLAIN)) for each in words)


@lru_cache(16384)
def means(name: str, key: str) -> bool:
    """Whether the name is the key, or ends with it: ``user_password`` is a ``password``."""
    keys = forms(key)
    return any(one == each or one.endswith(f"_{each}") for one in forms(name) for each in keys)


def letter(char: str) -> str:
    """An expression for what looks like a character, also escaped as in JSON, and for characters
    without a width behind it."""
    same = {char, char.upper(), *_LOOKALIKES.get(char.casefold(), "")}
    if "!" <= char <= "~":
        same |= {chr(ord(one) + 0xFEE0) for one in (char, char.upper()) if "!" <= one <= "~"}
    escaped = "|".join(f"{ord(one):04x}" for one in sorted(same) if not one.isascii())
    shown = f"[{''.join(re.escape(one) for one in sorted(same))}]"
    either = rf"(?:{shown}|\\{{1,2}}u(?:{escaped}))" if escaped else shown
    return either + rf"(?:[{INVISIBLE}]|\\{{1,2}}u(?:20[0-6][0-9a-f]|feff|00ad))*"
