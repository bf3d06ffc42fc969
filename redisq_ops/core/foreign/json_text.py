"""JSON as other programs keep it, and as it is shown of their entries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def decoded(data: bytes, otherwise: Any = None) -> Any:
    """The value, or ``otherwise`` if it isn't JSON."""
    try:
        return json.loads(data.decode("utf-8", "surrogatepass"))  # of bytes it guesses the encoding
    except (ValueError, RecursionError):
        return otherwise


_encode = json.JSONEncoder(ensure_ascii=False).encode


def encoded(value: Any) -> bytes:
    """As UTF-8; lone surrogates become ``\\udXXX``."""
    return _encode(value).encode(errors="backslashreplace")


def text_member(found: Any, names: Sequence[str]) -> str | None:
    """The first of these members that is a text, and not empty; None: there is none."""
    texts = (found.get(name) for name in names) if isinstance(found, dict) else ()
    return next((text for text in texts if isinstance(text, str) and text), None)
